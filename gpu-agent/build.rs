//! Embeds the BPF object that `cargo xtask build-ebpf` has made, where there is one.
//!
//! Without one the agent builds all the same, without any BPF toolchain, and runs without kernel probes.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// The object's path, in place of the one that `cargo xtask build-ebpf` writes.
const OBJECT: &str = "GPU_AGENT_BPF_OBJECT";
/// `1` makes a missing object an error: for CI and images, which must not ship an agent without probes by accident.
const REQUIRE: &str = "GPU_AGENT_REQUIRE_BPF";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rustc-check-cfg=cfg(bpf_object)");
    for variable in [OBJECT, REQUIRE, "CARGO_TARGET_DIR"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }

    let object = match env::var_os(OBJECT) {
        Some(path) if !path.is_empty() => PathBuf::from(path),
        _ => default_object()?,
    };
    if object.is_file() {
        println!("cargo::rerun-if-changed={}", object.display());
        let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?);
        fs::copy(&object, out.join("gpu-ebpf-programs"))
            .map_err(|error| format!("failed to copy `{}`: {error}", object.display()))?;
        println!("cargo::rustc-cfg=bpf_object");
    } else if env::var_os(REQUIRE).is_some_and(|value| value == "1") {
        let path = object.display();
        return Err(format!("{REQUIRE}=1, but there is no `{path}`: run `cargo xtask build-ebpf`").into());
    } else {
        // Cargo takes a missing file for a changed one and would build the agent anew each time, so watch its folder.
        let folder = object.parent().unwrap_or(Path::new("."));
        if fs::create_dir_all(folder).is_ok() {
            println!("cargo::rerun-if-changed={}", folder.display());
        }
    }
    Ok(())
}

/// `bpf/gpu-ebpf-programs` in the target folder, by the same rule as xtask's.
fn default_object() -> Result<PathBuf, Box<dyn Error>> {
    let manifest_dir =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo sets no CARGO_MANIFEST_DIR")?);
    let root = manifest_dir.parent().ok_or("the crate lies in no workspace")?;
    // A relative folder means one below the root, where cargo is started as a rule.
    let target =
        env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty()).unwrap_or("target".into());
    Ok(root.join(target).join("bpf/gpu-ebpf-programs"))
}
