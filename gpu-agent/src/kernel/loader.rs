//! Loading the object, adopting what an earlier agent left, attaching and detaching.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use aya::{
    Ebpf, EbpfLoader,
    maps::{Map, MapData, RingBuf},
    programs::{
        RawTracePoint, UProbe,
        links::FdLink,
        raw_trace_point::RawTracePointLink,
        uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeLink, UProbeScope},
    },
};
use gpu_ebpf::{
    abi::maps,
    call::{Call, Family},
};
use thiserror::Error;

use super::{
    adopt::{discard_unusable, warn_of_other_sizes},
    btf::TaskOffsets,
    diagnostics::Diagnostics,
    multi::{self, MultiError, MultiPrograms},
    pins::{self, LinkTarget, Pins},
    syscall,
};
use crate::{
    chain::Chain,
    probe::{
        library::{AttachPoint, LibraryId},
        open,
    },
};

/// A uprobe program.
struct Probe {
    name: &'static str,
    at_return: bool,
    /// The calls that it is for; `None` for all that no other entry program takes.
    family: Option<Family>,
}

const fn probe(name: &'static str, at_return: bool, family: Option<Family>) -> Probe {
    Probe { name, at_return, family }
}

const PROBES: [Probe; 6] = [
    probe("enter_launch", false, Some(Family::Launch)),
    probe("leave_launch", true, Some(Family::Launch)),
    probe("enter_call", false, None),
    probe("leave_work", true, Some(Family::Work)),
    probe("leave_memory", true, Some(Family::Memory)),
    probe("leave_context", true, Some(Family::Context)),
];

impl Probe {
    fn is_for(&self, call: Call) -> bool {
        self.family.map_or(call.family() != Family::Launch, |family| call.family() == family)
    }
}

/// The raw tracepoint programs and their tracepoints.
const TRACEPOINTS: [(&str, &str); 4] = [
    ("process_exit", "sched_process_exit"),
    ("process_exec", "sched_process_exec"),
    ("process_fork", "sched_process_fork"),
    ("cgroup_attach", "cgroup_attach_task"),
];

/// Maps that carry state over a restart.
pub(super) const PINNED_MAPS: [&str; 14] = [
    maps::PROCESSES,
    maps::THREADS,
    maps::SLOTS,
    maps::SLOT_OWNERS,
    maps::CGROUP_MOVES,
    maps::CONTEXTS,
    maps::PRIMARY_CONTEXTS,
    maps::ALLOCATIONS,
    maps::COUNTERS,
    maps::ERRORS,
    maps::RETURNED,
    maps::STATS,
    maps::EVENTS,
    maps::EXITS,
];

/// Levels of the programs' own diagnostics; what is below is not in the loaded programs at all.
const ALL_LEVELS: u8 = u8::MAX;
const NO_LEVEL: u8 = 0;

/// How the object is to be loaded.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    pub object: &'a [u8],
    /// Where to pin; `None` leaves everything to end with the agent.
    pub pins: Option<Pins>,
    /// Whether to try `uprobe_multi` links before perf-event uprobes.
    pub uprobe_multi: bool,
    /// Whether to be told of processes that end; without it they are found by looking.
    pub tracepoints: bool,
    /// Whether the programs say what they do, for whoever looks for a fault.
    pub diagnostics: bool,
    /// Map sizes that differ from the object's own, by map name.
    pub map_entries: BTreeMap<&'static str, u32>,
}

/// Why the kernel side is not available.
#[derive(Debug, Error)]
pub enum KernelError {
    #[error("the BPF object cannot be loaded")]
    Load(#[source] Box<aya::EbpfError>),
    #[error("the BPF object lacks `{0}`")]
    Missing(&'static str),
    #[error("BPF program `{program}` cannot be {action}")]
    Program {
        program: &'static str,
        action: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("tracepoint `{tracepoint}` cannot be attached to")]
    Tracepoint {
        tracepoint: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("map `{map}` cannot be opened")]
    Map {
        map: &'static str,
        #[source]
        source: Box<aya::maps::MapError>,
    },
    #[error("the pin directory cannot be used")]
    Pins(#[source] io::Error),
    #[error("the probes cannot be attached")]
    Attach(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// How uprobes are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// One link per program and library.
    UprobeMulti,
    /// One perf event per function and program.
    PerfEvent,
}

impl Mechanism {
    /// The label that the mechanism is exported under.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UprobeMulti => "uprobe_multi",
            Self::PerfEvent => "perf_event",
        }
    }
}

/// Something that stays attached for as long as it is held.
#[derive(Debug)]
#[expect(dead_code, reason = "held for their destructors")]
enum Held {
    Multi(OwnedFd),
    Perf(UProbeLink),
    Tracepoint(RawTracePointLink),
}

/// The links on one library.
#[derive(Debug, Default)]
struct Attached {
    held: Vec<Held>,
    pinned: Vec<PathBuf>,
    /// Links that there are when all are attached; 0 for adopted ones, to which none is added.
    total: usize,
}

/// The loaded programs, their maps and what they are attached to.
#[derive(Debug)]
pub struct Kernel {
    ebpf: Ebpf,
    multi: Option<MultiPrograms>,
    multi_refusal: Option<String>,
    pins: Option<Pins>,
    object_hash: u32,
    libraries: BTreeMap<LibraryId, Attached>,
    tracepoints: Attached,
    stale: Vec<PathBuf>,
    adopted: bool,
    diagnostics: Option<Diagnostics>,
}

impl Kernel {
    /// Loads the object, or adopts the maps and links that an earlier agent pinned.
    pub fn load(options: &Options<'_>) -> Result<Self, KernelError> {
        if let Some(pins) = &options.pins {
            discard_unusable(pins, options.object)?;
            warn_of_other_sizes(pins, &options.map_entries);
        }
        let adopted = options.pins.as_ref().is_some_and(|pins| pins.map(maps::COUNTERS).exists());
        let mut ebpf = load_object(options)?;
        for (name, _) in TRACEPOINTS {
            let program: &mut RawTracePoint = program(&mut ebpf, name)?;
            program.load().map_err(|error| program_error(name, "loaded", error))?;
        }
        let diagnostics = options.diagnostics.then(|| Diagnostics::of(&mut ebpf)).flatten();
        let (multi, multi_refusal) = load_probes(&mut ebpf, options)?;
        let mut kernel = Self {
            ebpf,
            multi,
            multi_refusal,
            pins: options.pins.clone(),
            object_hash: object_hash(options.object),
            libraries: BTreeMap::new(),
            tracepoints: Attached::default(),
            stale: Vec::new(),
            adopted,
            diagnostics,
        };
        kernel.adopt_links()?;
        if options.tracepoints {
            kernel.attach_tracepoints()?;
        }
        Ok(kernel)
    }

    /// Whether maps of an earlier agent were taken over.
    pub fn adopted(&self) -> bool {
        self.adopted
    }

    /// Whether what is attached outlives the agent.
    pub fn pinned(&self) -> bool {
        self.pins.is_some()
    }

    /// Writes what the programs have said to the log.
    pub fn flush_diagnostics(&mut self) {
        if let Some(diagnostics) = &mut self.diagnostics {
            diagnostics.flush();
        }
    }

    /// How uprobes are attached, and why not by `uprobe_multi` where they are not.
    pub fn mechanism(&self) -> (Mechanism, Option<&str>) {
        let mechanism = if self.multi.is_some() { Mechanism::UprobeMulti } else { Mechanism::PerfEvent };
        (mechanism, self.multi_refusal.as_deref())
    }

    /// Libraries that carry probes.
    pub fn libraries(&self) -> impl Iterator<Item = LibraryId> {
        self.libraries.keys().copied()
    }

    /// A map's descriptor, for reads in batches.
    pub fn map(&self, name: &'static str) -> Result<BorrowedFd<'_>, KernelError> {
        self.ebpf.map(name).and_then(map_data).map(|data| data.fd().as_fd()).ok_or(KernelError::Missing(name))
    }

    /// The descriptor of a uprobe program, for its statistics.
    pub fn program(&self, name: &'static str) -> Result<BorrowedFd<'_>, KernelError> {
        let loaded = match &self.multi {
            Some(multi) => multi.descriptor(name),
            None => {
                self.ebpf.program(name).and_then(|program| program.fd().ok()).map(|program| program.as_fd())
            }
        };
        loaded.ok_or(KernelError::Missing(name))
    }

    /// Takes a ring buffer out; the second call for one ring fails.
    pub fn take_ring(&mut self, name: &'static str) -> Result<RingBuf<MapData>, KernelError> {
        let map = self.ebpf.take_map(name).ok_or(KernelError::Missing(name))?;
        RingBuf::try_from(map).map_err(|source| KernelError::Map { map: name, source: Box::new(source) })
    }

    /// Attaches every program to a library, unless it is attached already.
    ///
    /// `file` is the very file that the points were found in: the kernel is given no name that could have come
    /// to mean another file. All points or none: a failure half way detaches what was attached.
    pub fn attach(
        &mut self,
        library: LibraryId,
        file: &File,
        points: &[AttachPoint],
    ) -> Result<(), KernelError> {
        if self.libraries.contains_key(&library) {
            return Ok(());
        }
        let file = &open::path_of(file);
        let chosen: Vec<(Probe, Vec<&AttachPoint>)> = PROBES
            .into_iter()
            .map(|probe| {
                let points = points.iter().filter(|point| probe.is_for(point.call)).collect();
                (probe, points)
            })
            .filter(|(_, points): &(Probe, Vec<&AttachPoint>)| !points.is_empty())
            .collect();
        let total = match self.mechanism().0 {
            Mechanism::UprobeMulti => chosen.len(),
            Mechanism::PerfEvent => chosen.iter().map(|(_, points)| points.len()).sum(),
        };
        let mut attached = Attached { total, ..Attached::default() };
        for (probe, points) in &chosen {
            let result = match self.mechanism().0 {
                Mechanism::UprobeMulti => self.attach_multi(&mut attached, library, file, probe, points),
                Mechanism::PerfEvent => self.attach_perf(&mut attached, library, file, probe.name, points),
            };
            if let Err(source) = result {
                detach(&attached);
                return Err(KernelError::Attach(source));
            }
        }
        self.libraries.insert(library, attached);
        Ok(())
    }

    /// Detaches every program from a library.
    pub fn detach(&mut self, library: LibraryId) {
        if let Some(attached) = self.libraries.remove(&library) {
            detach(&attached);
        }
    }

    /// Runs that the kernel skipped because a program was already running on that CPU, over this agent's
    /// programs. Programs adopted from an earlier agent are asked through their links.
    pub fn recursion_misses(&self) -> u64 {
        let own = self.multi.iter().flat_map(MultiPrograms::descriptors).map(syscall::program_runs);
        let pinned = self.libraries.values().flat_map(|attached| attached.pinned.iter().take(PROBES.len()));
        let adopted = pinned.filter(|_| self.multi.is_none() || self.adopted).map(|path| {
            let link = syscall::open_pinned(path)?;
            let program = syscall::link_program(link.as_fd())?;
            syscall::program_runs(program.as_fd())
        });
        own.chain(adopted).filter_map(Result::ok).map(|runs| runs.recursion_misses).sum()
    }

    /// Whether the kernel tells of processes and threads that end.
    pub fn sees_ends(&self) -> bool {
        !self.tracepoints.held.is_empty() || !self.tracepoints.pinned.is_empty()
    }

    /// Whether detaching takes milliseconds rather than a tenth of a second for each function.
    pub fn detaches_quickly(&self) -> bool {
        self.multi.is_some()
    }

    /// Detaches every program from every library and tracepoint.
    pub fn detach_all(&mut self) {
        for (_, attached) in std::mem::take(&mut self.libraries) {
            detach(&attached);
        }
        detach(&std::mem::take(&mut self.tracepoints));
    }

    /// Removes the links of another version of the object, once this one's are in place. Until then both
    /// count, which is harmless: an entry that is reported twice is one call.
    pub fn drop_stale_links(&mut self) {
        for path in std::mem::take(&mut self.stale) {
            remove_pin(&path);
        }
    }

    fn attach_multi(
        &self,
        attached: &mut Attached,
        library: LibraryId,
        file: &Path,
        probe: &Probe,
        points: &[&AttachPoint],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let Some(multi) = &self.multi else { return Err("uprobe_multi programs are not loaded".into()) };
        let offsets: Vec<u64> = points.iter().map(|point| point.offset).collect();
        let cookies: Vec<u64> = points.iter().map(|point| u64::from(point.call as u32)).collect();
        let link = multi.attach(probe.name, file, &offsets, &cookies, probe.at_return)?;
        match self.pin_path(library, probe.name, 0, attached.total) {
            Some(path) => {
                syscall::pin(link.as_fd(), &path)?;
                attached.pinned.push(path);
            }
            None => attached.held.push(Held::Multi(link)),
        }
        Ok(())
    }

    fn attach_perf(
        &mut self,
        attached: &mut Attached,
        library: LibraryId,
        file: &Path,
        name: &'static str,
        points: &[&AttachPoint],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        for (index, point) in points.iter().enumerate() {
            let path = self.pin_path(library, name, index, attached.total);
            let program: &mut UProbe = program(&mut self.ebpf, name)?;
            let at = UProbeAttachPoint {
                location: UProbeAttachLocation::AbsoluteOffset(point.offset),
                cookie: Some(u64::from(point.call as u32)),
            };
            let id = program.attach(at, file, UProbeScope::AllProcesses)?;
            let link = program.take_link(id)?;
            match path {
                Some(path) => {
                    FdLink::try_from(link)?.pin(&path)?;
                    attached.pinned.push(path);
                }
                None => attached.held.push(Held::Perf(link)),
            }
        }
        Ok(())
    }

    fn pin_path(&self, library: LibraryId, program: &str, index: usize, total: usize) -> Option<PathBuf> {
        let target = LinkTarget::Library { library, program: program.to_owned(), index, total };
        self.pins.as_ref().map(|pins| pins.link(self.object_hash, &target))
    }

    /// Takes over the links that this very object has, and remembers the others as stale.
    fn adopt_links(&mut self) -> Result<(), KernelError> {
        let Some(pins) = &self.pins else { return Ok(()) };
        let links = pins.existing_links().map_err(KernelError::Pins)?;
        let complete = pins::complete(&links, self.object_hash);
        for link in links {
            match link.target {
                LinkTarget::Tracepoint(_) if link.object == self.object_hash => {
                    self.tracepoints.pinned.push(link.path);
                }
                LinkTarget::Library { library, .. }
                    if link.object == self.object_hash && complete.contains(&library) =>
                {
                    self.libraries.entry(library).or_default().pinned.push(link.path);
                }
                // Half attached by an agent that was killed: begin anew.
                LinkTarget::Library { .. } if link.object == self.object_hash => remove_pin(&link.path),
                LinkTarget::Library { .. } | LinkTarget::Tracepoint(_) => self.stale.push(link.path),
            }
        }
        Ok(())
    }

    fn attach_tracepoints(&mut self) -> Result<(), KernelError> {
        for (name, tracepoint) in TRACEPOINTS {
            let path = self
                .pins
                .as_ref()
                .map(|pins| pins.link(self.object_hash, &LinkTarget::Tracepoint(name.to_owned())));
            if path.as_ref().is_some_and(|path| self.tracepoints.pinned.contains(path)) {
                continue;
            }
            let program: &mut RawTracePoint = program(&mut self.ebpf, name)?;
            let id = program
                .attach(tracepoint)
                .map_err(|error| KernelError::Tracepoint { tracepoint, source: Box::new(error) })?;
            let link = program.take_link(id).map_err(|error| program_error(name, "attached", error))?;
            match path {
                Some(path) => {
                    FdLink::from(link).pin(&path).map_err(|error| program_error(name, "pinned", error))?;
                    self.tracepoints.pinned.push(path);
                }
                None => self.tracepoints.held.push(Held::Tracepoint(link)),
            }
        }
        Ok(())
    }
}

fn load_object(options: &Options<'_>) -> Result<Ebpf, KernelError> {
    let offsets = TaskOffsets::of_running_kernel();
    let mut loader = EbpfLoader::new();
    loader
        .override_global("TASK_GROUP_LEADER", &offsets.group_leader, true)
        .override_global("TASK_START_BOOTTIME", &offsets.start_boottime, true)
        .override_global("TASK_SIGNAL", &offsets.signal, true)
        .override_global("TASK_TGID", &offsets.tgid, true)
        .override_global("SIGNAL_LIVE", &offsets.signal_live, true)
        .override_global("CGROUP_MOVES_ARE_SEEN", if options.tracepoints { &1_u32 } else { &0_u32 }, true)
        .override_global(aya_log::LEVEL, if options.diagnostics { &ALL_LEVELS } else { &NO_LEVEL }, true);
    for (map, entries) in &options.map_entries {
        loader.map_max_entries(map, *entries);
    }
    if let Some(pins) = &options.pins {
        for name in PINNED_MAPS {
            loader.map_pin_path(name, pins.map(name));
        }
    }
    loader.load(options.object).map_err(|error| KernelError::Load(Box::new(error)))
}

/// Loads the uprobe programs one way or the other, and says why not the first way.
fn load_probes(
    ebpf: &mut Ebpf,
    options: &Options<'_>,
) -> Result<(Option<MultiPrograms>, Option<String>), KernelError> {
    let refusal = if options.uprobe_multi {
        match load_multi(ebpf, options.object) {
            Ok(multi) => return Ok((Some(multi), None)),
            Err(error) => Chain(&error).to_string(),
        }
    } else {
        "disabled by configuration".to_owned()
    };
    for Probe { name, .. } in PROBES {
        let program: &mut UProbe = program(ebpf, name)?;
        program.load().map_err(|error| program_error(name, "loaded", error))?;
    }
    Ok((None, Some(refusal)))
}

fn load_multi(ebpf: &Ebpf, object: &[u8]) -> Result<MultiPrograms, MultiError> {
    let maps = ebpf
        .maps()
        .filter_map(|(name, map)| Some((name.to_owned(), multi::raw_descriptor(map_data(map)?.fd().as_fd()))))
        .collect();
    let names = PROBES.map(|probe| probe.name);
    MultiPrograms::load(object, &names, &maps)
}

fn program<'a, T>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut T, KernelError>
where
    &'a mut T: TryFrom<&'a mut aya::programs::Program>,
{
    ebpf.program_mut(name).and_then(|program| program.try_into().ok()).ok_or(KernelError::Missing(name))
}

fn program_error<E>(program: &'static str, action: &'static str, source: E) -> KernelError
where
    E: std::error::Error + Send + Sync + 'static,
{
    KernelError::Program { program, action, source: Box::new(source) }
}

fn map_data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::PerCpuArray(data)
        | Map::PerCpuHashMap(data)
        | Map::RingBuf(data) => Some(data),
        _ => None,
    }
}

/// Removes the pins; what is held goes with the value.
fn detach(attached: &Attached) {
    for path in &attached.pinned {
        remove_pin(path);
    }
}

fn remove_pin(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "a pinned link could not be removed");
    }
}

/// FNV-1a: tells two builds of the object apart, nothing more.
fn object_hash(object: &[u8]) -> u32 {
    object.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
