//! The compiler and linker that build the BPF programs.

pub(crate) mod choice;
pub(crate) mod detect;
pub(crate) mod remedies;

use std::path::Path;

use self::choice::{Choice, choose};
use self::detect::detect;
use super::machine::Machine;
use super::need::{Need, Plan};

/// A Rust that can build `core` for the BPF target.
pub(crate) struct BpfCompiler;

impl Need for BpfCompiler {
    fn name(&self) -> &'static str {
        "BPF compiler"
    }

    fn purpose(&self) -> &'static str {
        "a Rust with the sources of its own standard library compiles the BPF programs"
    }

    fn find(&self, machine: &Machine) -> Result<String, String> {
        match choose(&detect(&machine.cache)) {
            Choice::Ready(toolchain) => Ok(format!("{} ({})", toolchain.origin, toolchain.version)),
            Choice::NeedsLinker { compiler, .. } => Ok(format!("{} ({})", compiler.origin, compiler.version)),
            lacking @ Choice::NeedsCompiler { .. } => {
                let (why, rustup) = (remedies::explain(&lacking), remedies::RUSTUP_COMPILER);
                Err(format!("{why} (where rustup is in use, `{rustup}` brings one)"))
            }
        }
    }

    fn plan(&self, machine: &Machine) -> Plan {
        if machine.apt {
            Plan::Steps(remedies::install_compiler())
        } else {
            Plan::ByHand(vec![remedies::RUSTUP_COMPILER.to_owned()])
        }
    }
}

/// A bpf-linker for the compiler's LLVM.
pub(crate) struct BpfLinker;

impl Need for BpfLinker {
    fn name(&self) -> &'static str {
        "bpf-linker"
    }

    fn purpose(&self) -> &'static str {
        "links the BPF programs; it must use the same LLVM as the compiler"
    }

    fn find(&self, machine: &Machine) -> Result<String, String> {
        match choose(&detect(&machine.cache)) {
            Choice::Ready(toolchain) => {
                Ok(format!("{} (LLVM {})", toolchain.linker.display(), toolchain.llvm_major))
            }
            lacking @ Choice::NeedsLinker { .. } => Err(remedies::explain(&lacking)),
            Choice::NeedsCompiler { .. } => Err("there is no compiler to fit it to".to_owned()),
        }
    }

    fn plan(&self, machine: &Machine) -> Plan {
        let llvm_major = match choose(&detect(&machine.cache)) {
            Choice::Ready(toolchain) => toolchain.llvm_major,
            Choice::NeedsLinker { compiler, .. } => compiler.llvm_major,
            Choice::NeedsCompiler { .. } => remedies::DEBIAN_LLVM_MAJOR,
        };
        let build = remedies::build_linker(&machine.cache, llvm_major);
        if llvm_is_installed(llvm_major) {
            Plan::Steps(vec![build])
        } else if machine.apt {
            Plan::Steps(remedies::install_linker(&machine.cache, llvm_major))
        } else {
            let llvm =
                format!("install LLVM {llvm_major} with its headers and libpolly, then with its folder:");
            Plan::ByHand(vec![llvm, build.to_string()])
        }
    }
}

/// Whether the packages are there that bpf-linker is built with.
fn llvm_is_installed(llvm_major: u32) -> bool {
    let prefix = Path::new("/usr/lib").join(format!("llvm-{llvm_major}"));
    let of_llvm = ["lib/libLLVM.so", "include/llvm-c/Core.h", "lib/libPolly.a"];
    let of_others = ["/usr/include/zlib.h", "/usr/include/zstd.h"];
    of_llvm
        .iter()
        .map(|file| prefix.join(file))
        .chain(of_others.iter().map(Into::into))
        .all(|file| file.exists())
}
