//! The comparison programs, attached by the same mechanism as ours.

use std::{
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
};

use anyhow::{Context as _, Result};
use aya::{
    Ebpf,
    maps::{Map, RingBuf},
    programs::{
        UProbe,
        uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeLink, UProbeScope},
    },
};
use gpu_agent::kernel::{
    loader::Mechanism,
    multi::{self, MultiPrograms},
    syscall::{self, ProgramRuns},
};

use super::ring::{Consumer, Ring};

/// Does nothing at an entry.
pub(super) const ENTER_EMPTY: &str = "enter_empty";
/// Does nothing at a return.
pub(super) const LEAVE_EMPTY: &str = "leave_empty";
/// Sends an event at an entry.
pub(super) const ENTER_EVENT: &str = "enter_event";
/// Wastes time at an entry.
pub(super) const ENTER_SLOW: &str = "enter_slow";

const PROGRAMS: [&str; 4] = [ENTER_EMPTY, LEAVE_EMPTY, ENTER_EVENT, ENTER_SLOW];
const EVENTS: &str = "CALLS";

/// The loaded programs.
pub(super) struct Baseline {
    ebpf: Ebpf,
    multi: Option<MultiPrograms>,
    events: Ring,
    _consumer: Consumer,
}

/// What is attached for as long as it is held.
#[expect(dead_code, reason = "held for their destructors")]
pub(super) enum Link {
    Multi(OwnedFd),
    Perf(UProbeLink),
}

impl Baseline {
    /// Loads the programs.
    ///
    /// # Errors
    /// The kernel's refusal, or an object that is not this one.
    pub(super) fn load(object: &[u8], mechanism: Mechanism) -> Result<Self> {
        let mut ebpf = Ebpf::load(object).context("the comparison programs cannot be loaded")?;
        let multi = match mechanism {
            Mechanism::UprobeMulti => {
                let maps = ebpf.maps().filter_map(|(name, map)| {
                    let (Map::Array(data) | Map::RingBuf(data)) = map else { return None };
                    Some((name.to_owned(), multi::raw_descriptor(data.fd().as_fd())))
                });
                Some(MultiPrograms::load(object, &PROGRAMS, &maps.collect())?)
            }
            Mechanism::PerfEvent => {
                for name in PROGRAMS {
                    uprobe(&mut ebpf, name)?.load().with_context(|| format!("`{name}` cannot be loaded"))?;
                }
                None
            }
        };
        let events = ebpf.take_map(EVENTS).context("the object has no ring")?;
        let events = Ring::new(RingBuf::try_from(events)?);
        let consumer = Consumer::start(&events)?;
        Ok(Self { ebpf, multi, events, _consumer: consumer })
    }

    /// Attaches programs to one function.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn attach(&mut self, programs: &[&str], file: &Path, offset: u64) -> Result<Vec<Link>> {
        let attach = |name: &&str| {
            let Some(multi) = &self.multi else {
                let program = uprobe(&mut self.ebpf, name)?;
                let location = UProbeAttachLocation::AbsoluteOffset(offset);
                let point = UProbeAttachPoint { location, cookie: None };
                let id = program.attach(point, file, UProbeScope::AllProcesses)?;
                return Ok(Link::Perf(program.take_link(id)?));
            };
            let at_return = *name == LEAVE_EMPTY;
            Ok(Link::Multi(multi.attach(name, file, &[offset], &[0], at_return)?))
        };
        programs
            .iter()
            .map(attach)
            .collect::<Result<_>>()
            .context("the comparison programs cannot be attached")
    }

    /// How often a program ran.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub(super) fn runs(&self, name: &str) -> Result<ProgramRuns> {
        let descriptor = match &self.multi {
            Some(multi) => multi.descriptor(name),
            None => {
                self.ebpf.program(name).and_then(|program| program.fd().ok()).map(|program| program.as_fd())
            }
        };
        let descriptor = descriptor.with_context(|| format!("the object has no program `{name}`"))?;
        syscall::program_runs(descriptor).with_context(|| format!("`{name}` has no statistics"))
    }

    /// Events sent so far.
    pub(super) fn events(&self) -> u64 {
        self.events.records()
    }
}

fn uprobe<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut UProbe> {
    let program = ebpf.program_mut(name).with_context(|| format!("the object has no program `{name}`"))?;
    Ok(program.try_into()?)
}
