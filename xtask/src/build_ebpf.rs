//! `build-ebpf`: compiles the BPF programs and leaves the objects where the agent's build looks for them.

use std::env;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use xshell::{Cmd, cmd};

use crate::setup::bpf::choice::{Choice, Toolchain, choose};
use crate::setup::bpf::{detect::detect, remedies};
use crate::workspace::{Workspace, cache_folder};

const TARGET: &str = "bpfel-unknown-none";
const PROGRAMS: &str = "gpu-ebpf-programs";
const BASELINE: &str = "gpu-ebpf-baseline";

/// Builds the BPF programs, which the agent's build then embeds.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {}

/// The finished objects.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    /// What the agent embeds.
    pub(crate) programs: PathBuf,
    /// The comparison programs of the probe benchmark.
    pub(crate) baseline: PathBuf,
}

pub(crate) fn run(_: &Options, workspace: &Workspace) -> Result<ExitCode> {
    let Objects { programs, baseline } = build(workspace)?;
    println!("{}\n{}", programs.display(), baseline.display());
    Ok(ExitCode::SUCCESS)
}

/// Builds both objects with whatever toolchain fits, and returns where they are.
///
/// Cargo decides what has changed; an object that came out the same keeps its time stamp, so that the agent is not
/// built again for it.
pub(crate) fn build(workspace: &Workspace) -> Result<Objects> {
    let toolchain = require_toolchain()?;
    let build_folder = build_folder(workspace);
    cargo_build(workspace, &toolchain).run().context("failed to build the BPF programs")?;

    let built = build_folder.join(TARGET).join("release");
    let objects = workspace.bpf_objects();
    fs::create_dir_all(&objects).with_context(|| format!("failed to create `{}`", objects.display()))?;
    let publish = |name: &str| {
        let (from, to) = (built.join(name), objects.join(name));
        copy_if_different(&from, &to)
            .with_context(|| format!("failed to copy `{}` to `{}`", from.display(), to.display()))?;
        Ok::<_, anyhow::Error>(to)
    };
    Ok(Objects { programs: publish(PROGRAMS)?, baseline: publish(BASELINE)? })
}

/// The toolchain for the BPF programs, or an error that names the ways to get one.
pub(crate) fn require_toolchain() -> Result<Toolchain> {
    let cache = cache_folder()?;
    match choose(&detect(&cache)) {
        Choice::Ready(toolchain) => Ok(toolchain),
        lacking => bail!("{}", remedies::explain_with_remedies(&lacking, &cache)),
    }
}

/// Kept apart from the finished objects, which the agent's build script watches.
fn build_folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("bpf-build")
}

/// The cargo command for the BPF crate, with the chosen compiler and none of the settings meant for the host's.
fn cargo_build<'a>(workspace: &'a Workspace, toolchain: &Toolchain) -> Cmd<'a> {
    let (program, target_dir) = (&toolchain.cargo, build_folder(workspace));
    let mut command = cmd!(
        workspace.shell,
        "{program} build -Z build-std=core --release --target {TARGET} --target-dir {target_dir}
         --package gpu-ebpf --bins --features programs"
    )
    .quiet();
    // Cargo and rustup describe the toolchain that runs this command by these; the BPF toolchain is another.
    for inherited in [
        "CARGO",
        "LD_LIBRARY_PATH",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_WRAPPER",
        "RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
    ] {
        command = command.env_remove(inherited);
    }
    let flags = [
        // Which registers hold a probed function's arguments.
        format!("--cfg=bpf_target_arch=\"{}\"", env::consts::ARCH),
        format!("-Clinker={}", toolchain.linker.display()),
        "-Clink-arg=--btf".to_owned(),
    ];
    command
        .env("RUSTC", &toolchain.rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        // bpf-linker optimises the whole program itself; BTF is made from full debug information.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "2")
}

/// Copies a file unless the destination holds the same bytes already.
fn copy_if_different(from: &Path, to: &Path) -> io::Result<()> {
    let fresh = fs::read(from)?;
    match fs::read(to) {
        Ok(present) if present == fresh => return Ok(()),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(_) | Err(_) => {}
    }
    fs::write(to, fresh)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn an_object_that_came_out_the_same_keeps_its_time_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, "object").unwrap();
        copy_if_different(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "object");

        File::options().write(true).open(&to).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        copy_if_different(&from, &to).unwrap();
        assert_eq!(to.metadata().unwrap().modified().unwrap(), SystemTime::UNIX_EPOCH);

        fs::write(&from, "other").unwrap();
        copy_if_different(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "other");
    }
}
