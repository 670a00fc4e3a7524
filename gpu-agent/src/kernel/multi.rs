//! The uprobe programs, loaded so that one link attaches one of them to many functions.
//!
//! aya 0.14 cannot load a program for `uprobe_multi`. Detaching hundreds of perf-event uprobes takes many
//! seconds, one such link some milliseconds, so the programs are taken from the object a second time here,
//! bound to the maps that aya has made, and loaded with the other attach type. This file goes when the
//! project can move to an aya that does it.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd},
    path::Path,
};

use aya_obj::Object;
use thiserror::Error;

use super::syscall;

/// Why the programs could not be loaded.
#[derive(Debug, Error)]
pub enum MultiError {
    #[error("the BPF object cannot be read")]
    Parse(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the BPF object cannot be bound to its maps")]
    Relocate(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the BPF object has no program `{0}`")]
    Missing(&'static str),
    #[error("the kernel refuses program `{program}` for uprobe_multi")]
    Load {
        program: &'static str,
        #[source]
        source: io::Error,
    },
}

/// Programs ready to be attached, by name.
#[derive(Debug)]
pub struct MultiPrograms {
    programs: BTreeMap<&'static str, OwnedFd>,
}

impl MultiPrograms {
    /// Loads the named programs; `maps` are the descriptors of all maps of the object, by name.
    pub fn load(
        object: &[u8],
        names: &[&'static str],
        maps: &BTreeMap<String, RawFd>,
    ) -> Result<Self, MultiError> {
        let mut object = Object::parse(object).map_err(|error| MultiError::Parse(Box::new(error)))?;
        let text_sections: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        let definitions = object.maps.clone();
        let bound = definitions
            .iter()
            .filter_map(|(name, definition)| Some((name.as_str(), *maps.get(name)?, definition)));
        object.relocate_maps(bound, &text_sections).map_err(|error| MultiError::Relocate(Box::new(error)))?;
        object.relocate_calls(&text_sections).map_err(|error| MultiError::Relocate(Box::new(error)))?;

        let license = object.license.to_string_lossy().into_owned();
        let mut programs = BTreeMap::new();
        for &name in names {
            let program = object.programs.get(name).ok_or(MultiError::Missing(name))?;
            let function = object.functions.get(&program.function_key()).ok_or(MultiError::Missing(name))?;
            let descriptor = syscall::load_uprobe_multi(name, &license, &function.instructions)
                .map_err(|source| MultiError::Load { program: name, source })?;
            programs.insert(name, descriptor);
        }
        Ok(Self { programs })
    }

    /// The programs' descriptors.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.programs.values().map(OwnedFd::as_fd)
    }

    /// The descriptor of one program; `None` for a program that was not loaded.
    pub fn descriptor(&self, program: &str) -> Option<BorrowedFd<'_>> {
        self.programs.get(program).map(OwnedFd::as_fd)
    }

    /// Attaches one program to every offset of a file, with a cookie for each.
    ///
    /// # Errors
    /// The kernel's refusal, or `NotFound` for a program that was not loaded.
    pub fn attach(
        &self,
        program: &str,
        file: &Path,
        offsets: &[u64],
        cookies: &[u64],
        at_return: bool,
    ) -> io::Result<OwnedFd> {
        let descriptor = self.descriptor(program).ok_or(io::ErrorKind::NotFound)?;
        syscall::link_uprobe_multi(descriptor, file, offsets, cookies, at_return)
    }
}

/// The raw descriptor of a map, which stays owned by aya.
pub fn raw_descriptor(map: BorrowedFd<'_>) -> RawFd {
    map.as_raw_fd()
}
