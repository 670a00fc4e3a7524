//! What is measured: the agent's programs, loaded and attached by the agent's own code.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use gpu_agent::{
    kernel::{
        loader::{Kernel, Mechanism, Options},
        reader::Reader,
        syscall::{self, ProgramRuns},
    },
    probe::{
        library::{AttachPoint, LibraryId},
        object::BPF_OBJECT,
    },
};
use gpu_ebpf::{abi::maps, call::Call};

use super::{
    Sabotage,
    baseline::{Baseline, ENTER_EVENT, ENTER_SLOW, Link},
    ring::Ring,
};

const LAUNCH_PROGRAMS: [&str; 2] = ["enter_launch", "leave_launch"];

/// The agent's programs on one library.
pub(super) struct Subject {
    kernel: Kernel,
    reader: Reader,
    rings: [Ring; 2],
    library: LibraryId,
    file: PathBuf,
    sabotage: Option<Sabotage>,
    /// What the sabotage adds to the launch functions.
    added: Vec<Link>,
}

/// Loads the agent's programs; nothing is pinned, everything ends with this process.
pub(super) fn load_kernel(uprobe_multi: bool) -> Result<Kernel> {
    let object = BPF_OBJECT.context(
        "this program was built without the BPF object: run `cargo xtask build-ebpf`, then build again",
    )?;
    let options = Options {
        object,
        pins: None,
        uprobe_multi,
        tracepoints: true,
        diagnostics: false,
        map_entries: BTreeMap::new(),
    };
    Kernel::load(&options).context("the agent's programs cannot be loaded")
}

impl Subject {
    pub(super) fn load(
        uprobe_multi: bool,
        library: LibraryId,
        file: PathBuf,
        sabotage: Option<Sabotage>,
    ) -> Result<Self> {
        let mut kernel = load_kernel(uprobe_multi)?;
        let rings = [Ring::new(kernel.take_ring(maps::EVENTS)?), Ring::new(kernel.take_ring(maps::EXITS)?)];
        let reader = Reader::new(true).context("cannot read the number of possible CPUs")?;
        Ok(Self { kernel, reader, rings, library, file, sabotage, added: Vec::new() })
    }

    pub(super) fn mechanism(&self) -> (Mechanism, Option<&str>) {
        self.kernel.mechanism()
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Attaches the agent's programs, as spoilt as they are to be.
    pub(super) fn attach(&mut self, baseline: &mut Baseline, points: &[AttachPoint]) -> Result<()> {
        if self.sabotage == Some(Sabotage::NoProgram) {
            return Ok(());
        }
        self.attach_unspoilt(points)?;
        if let Some(program) = self.added_program() {
            for point in points.iter().filter(|point| point.call == Call::Launch) {
                self.added.extend(baseline.attach(&[program], &self.file, point.offset)?);
            }
        }
        Ok(())
    }

    /// Attaches the agent's programs.
    pub(super) fn attach_unspoilt(&mut self, points: &[AttachPoint]) -> Result<()> {
        let file = File::open(&self.file).context("the library cannot be opened")?;
        self.kernel.attach(self.library, &file, points).context("the agent's programs cannot be attached")
    }

    pub(super) fn detach(&mut self) {
        self.added.clear();
        self.kernel.detach(self.library);
    }

    /// Statistics of every program that runs at a launch.
    pub(super) fn launch_runs(&self, baseline: &Baseline) -> Result<Vec<ProgramRuns>> {
        let mut runs = Vec::new();
        for name in LAUNCH_PROGRAMS {
            let program = self.kernel.program(name)?;
            runs.push(syscall::program_runs(program).with_context(|| format!("`{name}` has no statistics"))?);
        }
        if let Some(program) = self.added_program() {
            runs.push(baseline.runs(program)?);
        }
        Ok(runs)
    }

    /// Records sent so far.
    pub(super) fn records(&self, baseline: &Baseline) -> u64 {
        let own: u64 = self.rings.iter().map(Ring::records).sum();
        let added = if self.added_program() == Some(ENTER_EVENT) { baseline.events() } else { 0 };
        own + added
    }

    /// Launches counted so far.
    pub(super) fn launches(&self) -> Result<u64> {
        let rows = self.reader.counters(&self.kernel)?;
        Ok(rows.iter().map(|(_, counters)| counters.launch.calls).sum())
    }

    fn added_program(&self) -> Option<&'static str> {
        match self.sabotage? {
            Sabotage::NoProgram => None,
            Sabotage::SlowProgram => Some(ENTER_SLOW),
            Sabotage::EventPerLaunch => Some(ENTER_EVENT),
        }
    }
}
