//! Looks for compilers and linkers that could build the BPF programs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::choice::{Compiler, Found, Linker, Origin, Sources, Version};
use crate::workspace::find_in_path;

/// Searches rustup's toolchains, the distribution's Rust, the cache folder and `PATH`.
///
/// What cannot be read or started is left out: it is then no use for building either.
pub(crate) fn detect(cache: &Path) -> Found {
    let mut compilers: Vec<_> =
        rustup_toolchains().into_iter().filter_map(|folder| rustup_compiler(&folder)).collect();
    compilers.extend(system_compiler());

    let mut linkers = cached_linkers(cache);
    linkers.extend(find_in_path("bpf-linker").map(|path| {
        let llvm_major = linked_llvm_major(&path);
        Linker { path, llvm_major }
    }));
    Found { compilers, linkers }
}

/// How the folders of the cache begin that hold a bpf-linker; the major of its LLVM follows.
const LINKER_FOLDER: &str = "bpf-linker-llvm";

/// The folder of the cache that holds a bpf-linker for this LLVM.
pub(crate) fn linker_root(cache: &Path, llvm_major: u32) -> PathBuf {
    cache.join(format!("{LINKER_FOLDER}{llvm_major}"))
}

fn rustup_toolchains() -> Vec<PathBuf> {
    let home = env::var_os("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".rustup")));
    let Some(Ok(entries)) = home.map(|home| fs::read_dir(home.join("toolchains"))) else {
        return Vec::new();
    };
    let mut folders: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    folders
}

fn rustup_compiler(folder: &Path) -> Option<Compiler> {
    let name = folder.file_name()?.to_str()?.to_owned();
    let rustc = folder.join("bin/rustc");
    let about = ask_rustc(&rustc)?;
    // rustup installs rust-src only as a part of the toolchain, so it is always of the compiler's version.
    let sources = if folder.join("lib/rustlib/src/rust/library/core/Cargo.toml").is_file() {
        Sources::Of(about.version)
    } else {
        Sources::Absent
    };
    let cargo = Some(folder.join("bin/cargo")).filter(|cargo| cargo.is_file());
    Some(about.into_compiler(Origin::Rustup(name), rustc, cargo, sources))
}

fn system_compiler() -> Option<Compiler> {
    let rustc = PathBuf::from("/usr/bin/rustc");
    let about = ask_rustc(&rustc)?;
    let sources = Path::new("/usr/lib/rustlib/src/rust");
    // Debian packages compiler and sources apart, so their versions can differ; the sources carry theirs in a file.
    let sources = if sources.join("library/core/Cargo.toml").is_file() {
        let version = fs::read_to_string(sources.join("src/version")).ok();
        version.and_then(|text| Version::parse(&text)).map_or(Sources::Absent, Sources::Of)
    } else {
        Sources::Absent
    };
    let cargo = Some(PathBuf::from("/usr/bin/cargo")).filter(|cargo| cargo.is_file());
    Some(about.into_compiler(Origin::System, rustc, cargo, sources))
}

/// What `rustc -vV` says.
#[derive(Debug, PartialEq, Eq)]
struct About {
    version: Version,
    nightly: bool,
    llvm_major: u32,
}

impl About {
    fn parse(output: &str) -> Option<Self> {
        let field = |name: &str| output.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let release = field("release:")?;
        Some(Self {
            version: Version::parse(release)?,
            nightly: release.contains("nightly") || release.contains("-dev"),
            llvm_major: field("LLVM version:")?.split('.').next()?.parse().ok()?,
        })
    }

    fn into_compiler(
        self,
        origin: Origin,
        rustc: PathBuf,
        cargo: Option<PathBuf>,
        sources: Sources,
    ) -> Compiler {
        let Self { version, nightly, llvm_major } = self;
        Compiler { origin, rustc, cargo, version, nightly, llvm_major, sources }
    }
}

fn ask_rustc(rustc: &Path) -> Option<About> {
    // LD_LIBRARY_PATH names the libraries of the toolchain that runs this command, which are not this compiler's.
    let output = Command::new(rustc).arg("-vV").env_remove("LD_LIBRARY_PATH").output().ok()?;
    About::parse(std::str::from_utf8(&output.stdout).ok()?)
}

fn cached_linkers(cache: &Path) -> Vec<Linker> {
    let Ok(entries) = fs::read_dir(cache) else { return Vec::new() };
    let mut linkers: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let llvm_major = entry.file_name().to_str()?.strip_prefix(LINKER_FOLDER)?.parse().ok()?;
            let path = entry.path().join("bin/bpf-linker");
            path.is_file().then_some(Linker { path, llvm_major: Some(llvm_major) })
        })
        .collect();
    linkers.sort_by_key(|linker| linker.llvm_major);
    linkers
}

/// The major of the LLVM that a bpf-linker links, which its `--version` does not tell.
fn linked_llvm_major(path: &Path) -> Option<u32> {
    let libraries = Command::new("ldd").arg(path).env_remove("LD_LIBRARY_PATH").output().ok()?;
    let libraries = String::from_utf8_lossy(&libraries.stdout);
    match shared_llvm(&libraries) {
        SharedLlvm::Found(major) => Some(major),
        // Such a linker cannot start.
        SharedLlvm::Broken => None,
        SharedLlvm::None => llvm_inside(&fs::read(path).ok()?),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum SharedLlvm {
    None,
    Broken,
    Found(u32),
}

/// Reads the LLVM library from what `ldd` prints.
fn shared_llvm(ldd_output: &str) -> SharedLlvm {
    let Some(line) = ldd_output.lines().map(str::trim_start).find(|line| line.starts_with("libLLVM")) else {
        return SharedLlvm::None;
    };
    let version = line.trim_start_matches("libLLVM").trim_start_matches(['-', '.']).trim_start_matches("so.");
    match leading_number(version.as_bytes()) {
        Some(major) if !line.ends_with("not found") => SharedLlvm::Found(major),
        _ => SharedLlvm::Broken,
    }
}

/// Reads the version that LLVM writes into every program that it is linked into.
fn llvm_inside(binary: &[u8]) -> Option<u32> {
    const MARK: &[u8] = b"LLVM version ";
    let mut rest = binary;
    while let Some(at) = rest.iter().position(|byte| *byte == MARK[0]) {
        rest = &rest[at..];
        if let Some(major) = rest.strip_prefix(MARK).and_then(leading_number) {
            return Some(major);
        }
        rest = &rest[1..];
    }
    None
}

fn leading_number(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rustc_describes_itself() {
        let debian = "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)\nbinary: rustc\n\
            release: 1.96.0\nLLVM version: 22.1.8\n";
        let about = About { version: Version { major: 1, minor: 96 }, nightly: false, llvm_major: 22 };
        assert_eq!(About::parse(debian), Some(about));

        let nightly = "release: 1.97.0-nightly\nLLVM version: 23.0.0\n";
        let about = About { version: Version { major: 1, minor: 97 }, nightly: true, llvm_major: 23 };
        assert_eq!(About::parse(nightly), Some(about));

        assert_eq!(About::parse("rustc: not found"), None);
    }

    #[test]
    fn the_shared_llvm_is_read_from_ldd() {
        let line =
            "\tlibz.so.1 => /lib/libz.so.1 (0x1)\n\tlibLLVM.so.22.1 => /usr/lib/libLLVM.so.22.1 (0x7f)\n";
        assert_eq!(shared_llvm(line), SharedLlvm::Found(22));
        assert_eq!(
            shared_llvm("\tlibLLVM-19.so.1 => /usr/lib/libLLVM-19.so.1 (0x7f)"),
            SharedLlvm::Found(19)
        );
        assert_eq!(shared_llvm("\tlibLLVM.so.22.1 => not found"), SharedLlvm::Broken);
        assert_eq!(shared_llvm("\tstatically linked"), SharedLlvm::None);
    }

    #[test]
    fn an_llvm_inside_the_binary_is_found() {
        assert_eq!(llvm_inside(b"\0LLVM LLVM version 23.0.0git\0"), Some(23));
        assert_eq!(llvm_inside(b"\0LLVM version \0"), None);
        assert_eq!(llvm_inside(b"LLV"), None);
    }
}
