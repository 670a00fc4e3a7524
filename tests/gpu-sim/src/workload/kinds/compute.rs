//! Workloads that compute: training, inference, saturation.

use std::time::Duration;

use super::Result;
use crate::workload::{
    Options,
    calls::{CopyEnds, Direction},
    pace::{Pace, Random},
    session::Session,
};

/// Kernels of one training step and one request.
const STEP_LAUNCHES: u32 = 200;
const REQUEST_LAUNCHES: u32 = 20;

/// Time that a training step takes on the host, besides its launches.
const HOST_TIME: Duration = Duration::from_millis(4);

/// Requests per second, on average.
const REQUEST_RATE: f64 = 40.0;

const PARAMETER_BYTES: u64 = 256 << 20;
const BATCH_BYTES: u64 = 1 << 20;

/// Steps: a batch goes in, kernels run, the loss comes out. Parameters are held to the end.
pub(super) fn train(session: &Session<'_>, options: &Options) -> Result {
    let parameters = session.alloc(PARAMETER_BYTES)?;
    let batch = session.alloc(BATCH_BYTES)?;
    let host = vec![0_u8; BATCH_BYTES as usize];
    let ends = CopyEnds { host: host.as_ptr() as u64, device: batch, other_device: parameters };
    let mut pace = Pace::new(options, 10, None);
    while pace.next() {
        session.copy(Direction::HostToDevice, ends, BATCH_BYTES)?;
        let activations = session.alloc_async(BATCH_BYTES * 8, 0)?;
        session.memset(activations, BATCH_BYTES * 8, 4, 0)?;
        for _ in 0..STEP_LAUNCHES {
            session.launch(0)?;
        }
        session.free_async(activations, 0)?;
        session.synchronize()?;
        session.copy(Direction::DeviceToHost, ends, 4)?;
        std::thread::sleep(HOST_TIME);
    }
    Ok(())
}

/// Requests at random times: input, kernels, output.
pub(super) fn infer(session: &Session<'_>, options: &Options) -> Result {
    let weights = session.alloc(PARAMETER_BYTES / 2)?;
    let buffer = session.alloc(BATCH_BYTES)?;
    let stream = session.create_stream()?;
    let host = vec![0_u8; BATCH_BYTES as usize];
    let ends = CopyEnds { host: host.as_ptr() as u64, device: buffer, other_device: weights };
    let mut random = Random::new(options.seed.wrapping_add(u64::from(session.number)));
    let mut pace = Pace::new(options, 40, Some(REQUEST_RATE));
    while pace.next_after(random.exponential()) {
        session.copy_async(Direction::HostToDevice, ends, 64 << 10, stream)?;
        for _ in 0..REQUEST_LAUNCHES {
            session.launch(stream)?;
        }
        session.copy_async(Direction::DeviceToHost, ends, 4 << 10, stream)?;
        session.synchronize_stream(stream)?;
    }
    session.destroy_stream(stream)
}

/// Launches without ever waiting, but for the end.
pub(super) fn saturate(session: &Session<'_>, options: &Options) -> Result {
    session.alloc(BATCH_BYTES)?;
    let mut pace = Pace::new(options, 10_000, None);
    while pace.next() {
        session.launch(0)?;
    }
    session.synchronize()
}
