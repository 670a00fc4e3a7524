//! The workload that does a bit of everything, errors included, in an order that follows from its seed.

use super::Result;
use crate::workload::{
    Options, WorkloadError,
    calls::{CopyEnds, Direction, PHYSICAL_GRANULE_BYTES, Shaped},
    pace::{Pace, Random},
    session::Session,
};

const BUFFER_BYTES: u64 = 1 << 20;

/// A handle that the driver never gave out.
const NO_HANDLE: u64 = 0xdead_beef_0000;

/// More than any GPU has.
const TOO_MANY_BYTES: u64 = 1 << 44;

/// What the steps share.
struct Bench<'a> {
    session: &'a Session<'a>,
    ends: CopyEnds,
    stream: u64,
    array: u64,
    graph: u64,
}

/// Random steps. Buffers are left to be freed with the context.
pub(super) fn run(session: &Session<'_>, options: &Options) -> Result {
    let host = vec![0_u8; BUFFER_BYTES as usize];
    let ends = CopyEnds {
        host: host.as_ptr() as u64,
        device: session.alloc(BUFFER_BYTES)?,
        other_device: session.alloc(BUFFER_BYTES)?,
    };
    let stream = session.create_stream()?;
    let array = session.create_array(128, 128)?;
    let graph = session.build_graph(3)?;
    let bench = Bench { session, ends, stream, array, graph };
    let mut random = Random::new(options.seed ^ u64::from(session.number) << 32);
    let mut pace = Pace::new(options, 200, None);
    while pace.next() {
        bench.step(&mut random)?;
    }
    session.synchronize()?;
    session.destroy_graph(graph)?;
    session.destroy_stream(stream)
}

impl Bench<'_> {
    fn step(&self, random: &mut Random) -> Result {
        match random.below(7) {
            0 => self.launches(random),
            1 => self.memory(random),
            2 => self.copies(random),
            3 => self.graphs(random),
            4 => self.synchronisation(random),
            5 => self.contexts(random),
            _ => self.errors(random),
        }
    }

    fn launches(&self, random: &mut Random) -> Result {
        for _ in 0..random.below(20) {
            let stream = if random.below(2) == 0 { 0 } else { self.stream };
            match random.below(3) {
                0 => self.session.launch(stream)?,
                1 => self.session.launch_ex(stream)?,
                _ => self.session.launch_cooperative(stream)?,
            }
        }
        Ok(())
    }

    fn memory(&self, random: &mut Random) -> Result {
        let session = self.session;
        let bytes = 1 + random.below(4 << 20);
        match random.below(9) {
            0 => session.free(session.alloc(bytes)?),
            1 => session.free(session.alloc_pitch(1 + bytes % 5000, 1 + bytes % 50)?),
            2 => session.free(session.alloc_managed(bytes)?),
            3 => session.free_async(session.alloc_async(bytes, self.stream)?, self.stream),
            4 => session.free_async(session.alloc_from_pool(bytes, 0)?, 0),
            5 => {
                let bytes = PHYSICAL_GRANULE_BYTES * (1 + bytes % 4);
                let handle = session.create_physical(bytes)?;
                session.map_and_unmap(handle, bytes)?;
                session.release_physical(handle)
            }
            6 => session.free_host(session.alloc_host(bytes)?),
            7 => session.destroy_array(session.create_array_3d(1 + bytes % 100, bytes % 10, bytes % 5)?),
            // Left to be freed with the context.
            _ => session.alloc(1 + bytes % 10_000).map(drop),
        }
    }

    fn copies(&self, random: &mut Random) -> Result {
        let Self { session, ends, stream, array, .. } = *self;
        let bytes = 1 + random.below(BUFFER_BYTES);
        let direction = match random.below(3) {
            0 => Direction::HostToDevice,
            1 => Direction::DeviceToHost,
            _ => Direction::DeviceToDevice,
        };
        let rectangle = (1 + bytes % 1000, 1 + bytes % 1000);
        match random.below(11) {
            0 => session.copy(direction, ends, bytes),
            1 => session.copy_async(direction, ends, bytes, stream),
            2 => session.copy_2d(direction, ends, rectangle, Shaped::Waiting),
            3 => session.copy_2d(direction, ends, rectangle, Shaped::Queued(stream)),
            4 => session.copy_3d(direction, ends, (1 + bytes % 100, 1 + bytes % 10, 5), Some(stream)),
            5 => session.copy_unified(ends.device, ends.host, bytes),
            6 => session.copy_unified_async(ends.host, ends.device, bytes, stream),
            7 => session.copy_peer(ends.other_device, session.context, ends.device, bytes),
            8 => {
                let sizes = [1 + bytes as usize % 100, 7];
                session.copy_batch(ends.other_device, ends.device, &sizes, stream, bytes.is_multiple_of(2))
            }
            9 => session.copy_array(array, ends, 1 + bytes % 4096, stream),
            _ => session.memset(ends.device, 4 * (1 + bytes % 1000), bytes % 7, stream),
        }
    }

    fn graphs(&self, random: &mut Random) -> Result {
        for _ in 0..random.below(3) {
            self.session.launch_graph(self.graph, self.stream)?;
        }
        let captured = self.session.capture_graph(1 + random.below(4) as usize, self.stream)?;
        self.session.launch_graph(captured, 0)?;
        self.session.destroy_graph(captured)
    }

    fn synchronisation(&self, random: &mut Random) -> Result {
        match random.below(3) {
            0 => self.session.synchronize(),
            1 => self.session.synchronize_stream(self.stream),
            _ => self.session.event_between(self.stream, 0),
        }
    }

    /// Another context on the same device, destroyed with what is in it.
    fn contexts(&self, random: &mut Random) -> Result {
        let context = self.session.create_context()?;
        let inner = self.session.in_context(context)?;
        let first = inner.alloc(1 + random.below(100_000))?;
        inner.alloc(1 + random.below(100_000))?;
        inner.launch(0)?;
        self.session.push_context(self.session.context)?;
        self.session.launch(0)?;
        self.session.pop_context()?;
        inner.synchronize()?;
        // Addresses are valid in every context of the process.
        inner.free(first)?;
        self.session.destroy_context(context)
    }

    fn errors(&self, random: &mut Random) -> Result {
        let Self { session, ends, stream, .. } = *self;
        match random.below(9) {
            0 => fails("cuMemAlloc", "out of memory", session.alloc(TOO_MANY_BYTES).map(drop)),
            1 => fails("cuMemAlloc", "invalid value", session.alloc(0).map(drop)),
            2 => fails("cuMemFree", "invalid value", session.free(NO_HANDLE)),
            3 => fails("cuLaunchKernel", "invalid handle", session.launch_function(NO_HANDLE, 1, stream)),
            4 => {
                fails("cuLaunchKernel", "invalid value", session.launch_function(session.function, 0, stream))
            }
            5 => fails("cuGraphLaunch", "invalid value", session.launch_graph(NO_HANDLE, stream)),
            6 => {
                let wrong = CopyEnds { device: NO_HANDLE, ..ends };
                fails("cuMemcpyHtoD", "invalid value", session.copy(Direction::HostToDevice, wrong, 16))
            }
            7 => fails("cuStreamSynchronize", "invalid handle", session.synchronize_stream(NO_HANDLE)),
            _ => fails("cuModuleGetFunction", "not found", session.get_function("sim_missing").map(drop)),
        }
    }
}

/// A call that must fail; the failure has been logged.
fn fails(call: &'static str, expected: &'static str, result: Result) -> Result {
    match result {
        Ok(()) => Err(WorkloadError::UnexpectedSuccess { call, expected }),
        Err(WorkloadError::Call { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}
