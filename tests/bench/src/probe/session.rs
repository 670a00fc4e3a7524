//! Everything that one run needs: the machine, the process, our programs and those they are compared with.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
};

use anyhow::{Context as _, Result};
use gpu_agent::{
    kernel::loader::Mechanism,
    probe::{
        elf,
        library::{AttachPoint, LibraryId},
    },
};
use gpu_ebpf::call::Call as Function;
use node_tests::{binaries::Binaries, machine::Machine};

use super::{
    Sabotage,
    baseline::{Baseline, ENTER_EMPTY, ENTER_EVENT, LEAVE_EMPTY},
    rounds::Variant,
    subject::Subject,
    workload::{Call, Workload},
};

/// Calls after an attach that do not count: the first ones of a thread make what later ones find.
const WARM_UP: u64 = 64;
/// Calls of each kind over which events are counted.
const EVENT_CALLS: u64 = 1000;

/// One run's resources. The process ends before the machine that it runs on.
pub(super) struct Session {
    pub(super) subject: Subject,
    pub(super) baseline: Baseline,
    workload: Workload,
    /// Every function of the library.
    pub(super) points: Vec<AttachPoint>,
    launch_point: AttachPoint,
    /// Whether our programs should be attached.
    observed: bool,
    /// Launches made while they should have been.
    launches_made: u64,
    _machine: Machine,
}

/// Records per call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Events {
    pub(super) launch: f64,
    pub(super) copy: f64,
    pub(super) synchronize: f64,
}

impl Session {
    /// Starts a machine and the process, and loads all programs.
    pub(super) fn start(baseline: &[u8], uprobe_multi: bool, sabotage: Option<Sabotage>) -> Result<Self> {
        let machine = Machine::start(&Binaries::find()?, "1xT4")?;
        // A copy under a name that no agent looks for: one that runs on this machine would attach its own probes.
        let file = machine.directory().join("lib/bench-cuda.so");
        fs::copy(machine.libcuda(), &file).context("cannot copy the library")?;
        let opened = File::open(&file).context("cannot open the library")?;
        let metadata = opened.metadata().context("cannot open the library")?;
        let library = LibraryId { device: metadata.dev(), inode: metadata.ino() };
        let points = elf::functions(&opened)?.points;
        // The first launch function that is looked for is the one that the process calls.
        let launch_point = points
            .iter()
            .find(|point| point.call == Function::Launch)
            .copied()
            .context("no launch function")?;

        let subject = Subject::load(uprobe_multi, library, file, sabotage)?;
        let baseline = Baseline::load(baseline, subject.mechanism().0)?;
        let workload = Workload::start(&machine, subject.file())?;
        Ok(Self {
            subject,
            baseline,
            workload,
            points,
            launch_point,
            observed: false,
            launches_made: 0,
            _machine: machine,
        })
    }

    pub(super) fn mechanism(&self) -> (Mechanism, Option<&str>) {
        self.subject.mechanism()
    }

    /// Attaches a variant, warms up, runs something and detaches.
    pub(super) fn with<T>(
        &mut self,
        variant: Variant,
        run: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let programs: &[&str] = match variant {
            Variant::Ours => {
                self.subject.attach(&mut self.baseline, &[self.launch_point])?;
                self.observed = true;
                let result = self.launches(WARM_UP).and_then(|_| run(self));
                self.observed = false;
                self.subject.detach();
                return result;
            }
            Variant::Empty => &[ENTER_EMPTY, LEAVE_EMPTY],
            Variant::Event => &[ENTER_EVENT, LEAVE_EMPTY],
            Variant::Plain => &[],
        };
        let _links = self.baseline.attach(programs, self.subject.file(), self.launch_point.offset)?;
        self.launches(WARM_UP)?;
        run(self)
    }

    /// Makes launches; returns nanoseconds per launch.
    pub(super) fn launches(&mut self, launches: u64) -> Result<f64> {
        if self.observed {
            self.launches_made += launches;
        }
        self.workload.make(Call::Launch, launches)
    }

    /// Records in the agent's rings for each call of the three kinds that must not send any.
    pub(super) fn events_per_call(&mut self) -> Result<Events> {
        let hot = [Function::Launch, Function::CopyHostToDevice, Function::Synchronize];
        let points: Vec<AttachPoint> =
            self.points.iter().filter(|point| hot.contains(&point.call)).copied().collect();
        self.subject.attach(&mut self.baseline, &points)?;
        let events = Events {
            launch: self.events_of(Call::Launch)?,
            copy: self.events_of(Call::Copy)?,
            synchronize: self.events_of(Call::Synchronize)?,
        };
        self.subject.detach();
        Ok(events)
    }

    /// Launches made while our programs should have been attached, and launches that they counted.
    pub(super) fn launches_made_and_seen(&self) -> Result<(u64, u64)> {
        Ok((self.launches_made, self.subject.launches()?))
    }

    fn events_of(&mut self, call: Call) -> Result<f64> {
        self.workload.make(call, WARM_UP)?;
        let before = self.subject.records(&self.baseline);
        self.workload.make(call, EVENT_CALLS)?;
        let records = self.subject.records(&self.baseline) - before;
        if call == Call::Launch {
            self.launches_made += WARM_UP + EVENT_CALLS;
        }
        Ok(records as f64 / EVENT_CALLS as f64)
    }
}
