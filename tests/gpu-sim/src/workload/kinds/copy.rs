//! The workload that copies in every direction.

use super::Result;
use crate::workload::{
    Options,
    calls::{CopyEnds, Direction, Shaped},
    pace::Pace,
    session::Session,
};

/// Size of each buffer.
const BUFFER_BYTES: u64 = 8 << 20;

/// Every copy call, and every memset.
pub(super) fn every_direction(session: &Session<'_>, options: &Options) -> Result {
    let host = vec![0_u8; BUFFER_BYTES as usize];
    let ends = CopyEnds {
        host: host.as_ptr() as u64,
        device: session.alloc(BUFFER_BYTES)?,
        other_device: session.alloc(BUFFER_BYTES)?,
    };
    let stream = session.create_stream()?;
    let array = session.create_array(1024, 256)?;
    let mut pace = Pace::new(options, 20, None);
    while pace.next() {
        for direction in [Direction::HostToDevice, Direction::DeviceToHost, Direction::DeviceToDevice] {
            session.copy(direction, ends, BUFFER_BYTES)?;
            session.copy_async(direction, ends, BUFFER_BYTES / 2, stream)?;
            session.copy_2d(direction, ends, (1000, 100), Shaped::Waiting)?;
            session.copy_2d(direction, ends, (1000, 10), Shaped::Unaligned)?;
            session.copy_2d(direction, ends, (500, 100), Shaped::Queued(stream))?;
            session.copy_3d(direction, ends, (100, 50, 10), None)?;
            session.copy_3d(direction, ends, (100, 50, 20), Some(stream))?;
        }
        session.copy_unified(ends.device, ends.host, 12_345)?;
        session.copy_unified_async(ends.host, ends.device, 54_321, stream)?;
        session.copy_peer(ends.other_device, session.context, ends.device, 4096)?;
        session.copy_peer_async(ends.other_device, session.context, ends.device, 8192, stream)?;
        session.copy_3d_peer(ends.other_device, session.context, ends.device, (64, 8, 4))?;
        session.copy_batch(ends.other_device, ends.device, &[1, 20, 300], stream, false)?;
        session.copy_batch(ends.other_device, ends.device, &[4000, 50_000], stream, true)?;
        session.copy_array(array, ends, 4096, stream)?;
        for which in 0..7 {
            session.memset(ends.device, 4096 << which, which, stream)?;
        }
        session.synchronize_stream(stream)?;
    }
    session.synchronize()?;
    session.destroy_stream(stream)?;
    session.destroy_array(array)
}
