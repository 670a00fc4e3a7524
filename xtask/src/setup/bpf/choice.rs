//! Which compiler and linker build the BPF programs: a pure decision over what a machine has.
//!
//! rustc has a BPF back end but ships no `core` for it, so `core` is built from source. Those sources must be of the
//! compiler's own version (lang items change between releases), and bpf-linker must link the same LLVM major as
//! rustc, or it cannot read rustc's bitcode.

use std::fmt;
use std::path::PathBuf;

/// The oldest Rust that builds the programs: the workspace's `rust-version`.
pub(crate) const OLDEST_RUST: Version = Version { major: 1, minor: 88 };

/// A Rust release without its patch number, which does not matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl Version {
    /// Reads the first two numbers of texts such as `1.96.0` and `1.97.0-nightly`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        Some(Self { major, minor })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// Where a compiler comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A rustup toolchain, by its folder name.
    Rustup(String),
    /// The distribution's packages, in `/usr`.
    System,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rustup(name) => write!(formatter, "rustup toolchain `{name}`"),
            Self::System => write!(formatter, "the distribution's Rust"),
        }
    }
}

/// The sources of the standard library that lie beside a compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sources {
    Absent,
    Of(Version),
}

/// A compiler found on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Compiler {
    pub(crate) origin: Origin,
    pub(crate) rustc: PathBuf,
    /// Absent where a distribution packages cargo apart and only rustc is installed.
    pub(crate) cargo: Option<PathBuf>,
    pub(crate) version: Version,
    pub(crate) nightly: bool,
    pub(crate) llvm_major: u32,
    pub(crate) sources: Sources,
}

/// A bpf-linker found on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Linker {
    pub(crate) path: PathBuf,
    /// `None` where the binary does not show which LLVM it links.
    pub(crate) llvm_major: Option<u32>,
}

/// All that [`choose`] needs to know about a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) compilers: Vec<Compiler>,
    pub(crate) linkers: Vec<Linker>,
}

/// A compiler and linker that fit each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Toolchain {
    pub(crate) origin: Origin,
    pub(crate) rustc: PathBuf,
    pub(crate) cargo: PathBuf,
    pub(crate) version: Version,
    pub(crate) llvm_major: u32,
    pub(crate) linker: PathBuf,
}

/// What [`choose`] found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The programs can be built.
    Ready(Toolchain),
    /// A compiler is there, but no bpf-linker for its LLVM.
    NeedsLinker { compiler: Compiler, seen: Vec<Linker> },
    /// No compiler will do; each one seen, with what it lacks.
    NeedsCompiler { refused: Vec<Refused> },
}

/// A compiler that cannot build the programs, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) origin: Origin,
    pub(crate) version: Version,
    pub(crate) why: Lack,
}

/// What a compiler lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lack {
    TooOld,
    Cargo,
    Sources,
    SourcesOfItsVersion(Version),
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, version, why } = self;
        write!(formatter, "{origin} ({version}) ")?;
        match why {
            Lack::TooOld => write!(formatter, "is older than {OLDEST_RUST}"),
            Lack::Cargo => write!(formatter, "has no cargo"),
            Lack::Sources => write!(formatter, "has no sources of the standard library (rust-src)"),
            Lack::SourcesOfItsVersion(found) => {
                write!(formatter, "has sources of another release, {found}")
            }
        }
    }
}

/// Picks a compiler and a linker that fit each other.
///
/// Among usable compilers one with a fitting linker goes first; then nightlies, which build `core` without
/// `RUSTC_BOOTSTRAP`; then rustup's other toolchains; then the distribution's.
pub(crate) fn choose(found: &Found) -> Choice {
    let mut usable = Vec::new();
    let mut refused = Vec::new();
    for compiler in &found.compilers {
        match usable_cargo(compiler) {
            Ok(cargo) => usable.push((compiler, cargo)),
            Err(why) => {
                refused.push(Refused { origin: compiler.origin.clone(), version: compiler.version, why });
            }
        }
    }
    usable.sort_by_key(|(compiler, _)| (!compiler.nightly, compiler.origin == Origin::System));

    for (compiler, cargo) in &usable {
        let fitting = found.linkers.iter().find(|linker| linker.llvm_major == Some(compiler.llvm_major));
        if let Some(linker) = fitting {
            return Choice::Ready(Toolchain {
                origin: compiler.origin.clone(),
                rustc: compiler.rustc.clone(),
                cargo: cargo.clone(),
                version: compiler.version,
                llvm_major: compiler.llvm_major,
                linker: linker.path.clone(),
            });
        }
    }
    match usable.first() {
        Some((compiler, _)) => {
            Choice::NeedsLinker { compiler: (*compiler).clone(), seen: found.linkers.clone() }
        }
        None => Choice::NeedsCompiler { refused },
    }
}

/// The compiler's cargo, or what the compiler lacks.
fn usable_cargo(compiler: &Compiler) -> Result<PathBuf, Lack> {
    if compiler.version < OLDEST_RUST {
        return Err(Lack::TooOld);
    }
    match compiler.sources {
        Sources::Absent => return Err(Lack::Sources),
        Sources::Of(version) if version != compiler.version => {
            return Err(Lack::SourcesOfItsVersion(version));
        }
        Sources::Of(_) => {}
    }
    compiler.cargo.clone().ok_or(Lack::Cargo)
}

#[cfg(test)]
mod tests;
