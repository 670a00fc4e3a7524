//! Workloads that allocate.

use super::Result;
use crate::workload::{
    Options,
    calls::PHYSICAL_GRANULE_BYTES,
    pace::{Pace, Random},
    session::Session,
};

const LEAK_BYTES: u64 = 16 << 20;

/// Allocates and frees memory of every kind; some is left to be freed at the end.
pub(super) fn every_kind(session: &Session<'_>, options: &Options) -> Result {
    let mut random = Random::new(options.seed.wrapping_add(u64::from(session.number)));
    let mut pace = Pace::new(options, 50, None);
    while pace.next() {
        one_of_each(session, &mut random)?;
    }
    session.alloc(3 << 20)?;
    session.alloc_managed(5 << 20)?;
    session.alloc_host(64 << 10)?;
    session.create_array(64, 64)?;
    session.create_physical(PHYSICAL_GRANULE_BYTES)?;
    Ok(())
}

fn one_of_each(session: &Session<'_>, random: &mut Random) -> Result {
    let small = session.alloc(1 + random.below(4096))?;
    let large = session.alloc(1 + random.below(64 << 20))?;
    let pitched = session.alloc_pitch(1 + random.below(4000), 1 + random.below(100))?;
    let managed = session.alloc_managed(1 + random.below(1 << 20))?;
    let pooled = session.alloc_async(1 + random.below(8 << 20), 0)?;
    let from_pool = session.alloc_from_pool(1 + random.below(8 << 20), 0)?;
    let physical_bytes = PHYSICAL_GRANULE_BYTES * (1 + random.below(8));
    let physical = session.create_physical(physical_bytes)?;
    session.map_and_unmap(physical, physical_bytes)?;
    let host = session.alloc_host(1 + random.below(64 << 10))?;
    let host_v2 = session.alloc_host_v2(1 + random.below(64 << 10))?;
    let own = vec![0_u8; 4096];
    session.register_host(&own)?;
    let array = session.create_array(1 + random.below(512), random.below(64))?;
    let cube = session.create_array_3d(1 + random.below(64), 1 + random.below(64), random.below(16))?;
    session.mipmapped_array(1 + random.below(1024))?;
    session.free(0)?;
    for address in [large, small, pitched, managed] {
        session.free(address)?;
    }
    session.free_async(pooled, 0)?;
    session.free(from_pool)?;
    session.release_physical(physical)?;
    session.free_host(host)?;
    session.free_host(host_v2)?;
    session.unregister_host(&own)?;
    session.destroy_array(array)?;
    session.destroy_array(cube)?;
    session.synchronize()
}

/// Allocates without freeing, up to the limit of the options.
pub(super) fn leak(session: &Session<'_>, options: &Options) -> Result {
    let mut pace = Pace::new(options, options.limit_bytes.div_ceil(LEAK_BYTES), None);
    let mut held_bytes = 0;
    while held_bytes < options.limit_bytes && pace.next() {
        let bytes = LEAK_BYTES.min(options.limit_bytes - held_bytes);
        session.alloc(bytes)?;
        held_bytes += bytes;
        session.launch(0)?;
    }
    session.synchronize()
}
