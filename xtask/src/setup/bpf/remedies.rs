//! How to get what the BPF programs are built with.

use std::collections::HashSet;
use std::path::Path;

use super::choice::{Choice, Compiler, Refused};
use super::detect::linker_root;
use crate::setup::machine::apt_install;
use crate::setup::step::Step;

/// The release of bpf-linker that is installed.
const LINKER_VERSION: &str = "0.13.0";

/// The Debian packages with a compiler, its cargo and the sources of its standard library, all of one version.
const DEBIAN_COMPILER: [&str; 3] = ["rustc-web", "rust-web-src", "cargo-web"];

/// The way to a compiler where rustup is in use, for people; setup itself leaves rustup's toolchains alone.
pub(crate) const RUSTUP_COMPILER: &str =
    "rustup toolchain install nightly --profile minimal --component rust-src";

/// The commands that install Debian's compiler.
pub(crate) fn install_compiler() -> Vec<Step> {
    apt_install(&DEBIAN_COMPILER.map(str::to_owned))
}

/// The LLVM major of that compiler.
pub(crate) const DEBIAN_LLVM_MAJOR: u32 = 22;

/// The commands that install Debian's LLVM and build bpf-linker against it.
pub(crate) fn install_linker(cache: &Path, llvm_major: u32) -> Vec<Step> {
    let mut steps = apt_install(&[
        format!("llvm-{llvm_major}-dev"),
        format!("libpolly-{llvm_major}-dev"),
        "zlib1g-dev".to_owned(),
        "libzstd-dev".to_owned(),
    ]);
    steps.push(build_linker(cache, llvm_major));
    steps
}

/// The command that builds bpf-linker against the LLVM in Debian's place for it.
pub(crate) fn build_linker(cache: &Path, llvm_major: u32) -> Step {
    let prefix = format!("/usr/lib/llvm-{llvm_major}");
    let root = linker_root(cache, llvm_major);
    let feature = format!("llvm-{llvm_major}");
    let (root, feature) = (root.to_string_lossy(), feature.as_str());
    Step::new("cargo", ["install", "bpf-linker", "--version", LINKER_VERSION, "--locked"])
        .and(["--no-default-features", "--features", feature, "--root", &root])
        .with("RUSTFLAGS", format!("-L {prefix}/lib"))
        .with("LLVM_PREFIX", prefix)
}

/// Says what is missing, one line a reason.
pub(crate) fn explain(choice: &Choice) -> String {
    match choice {
        Choice::Ready(toolchain) => {
            format!("{} ({}) with `{}`", toolchain.origin, toolchain.version, toolchain.linker.display())
        }
        Choice::NeedsLinker { compiler, seen } => {
            let Compiler { origin, version, llvm_major, .. } = compiler;
            let seen = seen.iter().map(|linker| {
                let links = linker
                    .llvm_major
                    .map_or_else(|| "none that can be told".to_owned(), |major| format!("LLVM {major}"));
                format!("; `{}` links {links}", linker.path.display())
            });
            let seen: String = seen.collect();
            format!("{origin} ({version}) needs a bpf-linker that links LLVM {llvm_major}{seen}")
        }
        Choice::NeedsCompiler { refused } => {
            let refused: Vec<_> = refused.iter().map(Refused::to_string).collect();
            let seen = if refused.is_empty() { "no Rust at all".to_owned() } else { refused.join("; ") };
            format!("no Rust that can build its own `core` library: found {seen}")
        }
    }
}

/// The error text for a command that needs the BPF programs: what is missing and every way to get it.
pub(crate) fn explain_with_remedies(choice: &Choice, cache: &Path) -> String {
    let why = explain(choice);
    let mut lines = match choice {
        Choice::Ready(_) => Vec::new(),
        Choice::NeedsLinker { compiler, .. } => {
            install_linker(cache, compiler.llvm_major).iter().map(|step| format!("  {step}")).collect()
        }
        Choice::NeedsCompiler { .. } => {
            let mut lines: Vec<_> = vec!["with Debian's packages:".to_owned()];
            let steps = install_compiler().into_iter().chain(install_linker(cache, DEBIAN_LLVM_MAJOR));
            let mut printed = HashSet::new();
            lines.extend(steps.map(|step| format!("  {step}")).filter(|line| printed.insert(line.clone())));
            lines.push(
                "with rustup, and then `cargo xtask setup` once more for a bpf-linker of its LLVM:"
                    .to_owned(),
            );
            lines.push(format!("  {RUSTUP_COMPILER}"));
            lines
        }
    };
    lines.insert(
        0,
        format!("cannot build the BPF programs: {why}\n`cargo xtask setup` sees to it, or do it yourself:"),
    );
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::choice::{Lack, Linker, Origin, Sources, Version};
    use super::*;

    #[test]
    fn without_a_compiler_both_ways_are_named() {
        let refused = Refused {
            origin: Origin::Rustup("nightly".to_owned()),
            version: Version { major: 1, minor: 97 },
            why: Lack::Sources,
        };
        let text =
            explain_with_remedies(&Choice::NeedsCompiler { refused: vec![refused] }, Path::new("/cache"));
        let expected = "\
cannot build the BPF programs: no Rust that can build its own `core` library: found rustup toolchain `nightly` (1.97) has no sources of the standard library (rust-src)
`cargo xtask setup` sees to it, or do it yourself:
with Debian's packages:
  sudo DEBIAN_FRONTEND=noninteractive apt-get update --quiet
  sudo DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends rustc-web rust-web-src cargo-web
  sudo DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends llvm-22-dev libpolly-22-dev zlib1g-dev libzstd-dev
  RUSTFLAGS='-L /usr/lib/llvm-22/lib' LLVM_PREFIX=/usr/lib/llvm-22 cargo install bpf-linker --version 0.13.0 --locked --no-default-features --features llvm-22 --root /cache/bpf-linker-llvm22
with rustup, and then `cargo xtask setup` once more for a bpf-linker of its LLVM:
  rustup toolchain install nightly --profile minimal --component rust-src";
        assert_eq!(text, expected);
    }

    #[test]
    fn without_a_linker_its_build_is_named() {
        let compiler = Compiler {
            origin: Origin::System,
            rustc: "/usr/bin/rustc".into(),
            cargo: Some("/usr/bin/cargo".into()),
            version: Version { major: 1, minor: 96 },
            nightly: false,
            llvm_major: 22,
            sources: Sources::Of(Version { major: 1, minor: 96 }),
        };
        let seen = vec![Linker { path: "/bin/bpf-linker".into(), llvm_major: Some(21) }];
        let text = explain_with_remedies(&Choice::NeedsLinker { compiler, seen }, Path::new("/cache"));
        let expected = "\
cannot build the BPF programs: the distribution's Rust (1.96) needs a bpf-linker that links LLVM 22; `/bin/bpf-linker` links LLVM 21
`cargo xtask setup` sees to it, or do it yourself:
  sudo DEBIAN_FRONTEND=noninteractive apt-get update --quiet
  sudo DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends llvm-22-dev libpolly-22-dev zlib1g-dev libzstd-dev
  RUSTFLAGS='-L /usr/lib/llvm-22/lib' LLVM_PREFIX=/usr/lib/llvm-22 cargo install bpf-linker --version 0.13.0 --locked --no-default-features --features llvm-22 --root /cache/bpf-linker-llvm22";
        assert_eq!(text, expected);
    }
}
