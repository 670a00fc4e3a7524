//! `gpu-agent check`: what this node allows, found by trying, and what that means for a user.

use std::{fmt::Write as _, path::Path};

use serde::Serialize;

use crate::{
    chain::Chain,
    config::{Config, Feature},
    device::{backend::GpuBackend as _, nvml::NvmlBackend},
    kernel::{
        btf::TaskOffsets,
        loader::{Kernel, Mechanism, Options},
        mounts::ensure_bpffs,
        pins::Pins,
        reader::Reader,
    },
    probe::object::BPF_OBJECT,
    tenant::Host,
};

/// One thing that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What was tried, a stable name.
    pub what: &'static str,
    pub available: bool,
    /// What was found.
    pub detail: String,
    /// What a user gets, or does without.
    pub meaning: &'static str,
}

/// Everything that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub kernel_release: String,
    pub findings: Vec<Finding>,
}

impl Report {
    /// The report for people.
    pub fn table(&self) -> String {
        let mut text = format!("kernel {}\n", self.kernel_release);
        for finding in &self.findings {
            let mark = if finding.available { "yes" } else { "no" };
            // Writing to a string cannot fail.
            _ = writeln!(text, "  {:<16} {mark:<4} {}", finding.what, finding.detail);
            _ = writeln!(text, "  {:<16}      {}", "", finding.meaning);
        }
        text
    }
}

/// Tries everything, on the side: a running agent is not disturbed.
pub fn check(config: &Config) -> Report {
    let mut findings = vec![object()];
    findings.extend(kernel(config));
    findings.push(type_information());
    findings.push(pinning(config));
    findings.push(batched_reads(config));
    findings.push(cgroups(config));
    findings.push(nvml(config));
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    Report { kernel_release: release, findings }
}

fn object() -> Finding {
    let available = BPF_OBJECT.is_some();
    Finding {
        what: "bpf-object",
        available,
        detail: if available {
            "the BPF programs are part of this binary".to_owned()
        } else {
            "this binary was built without them: run `cargo xtask build-ebpf`, then build again".to_owned()
        },
        meaning: "without it no call is seen; device metrics remain",
    }
}

fn kernel(config: &Config) -> Vec<Finding> {
    const PROBES: &str = "calls are counted in the kernel; without it device metrics remain";
    const MULTI: &str = "probes detach in milliseconds; without it in a tenth of a second for each function";
    const ENDS: &str = "process ends are reported at once; without it they are found within ten seconds";
    let Some(object) = BPF_OBJECT else { return Vec::new() };
    let options = |tracepoints| Options {
        object,
        pins: None,
        uprobe_multi: !config.disable.contains(&Feature::UprobeMulti),
        tracepoints,
        diagnostics: false,
        map_entries: [(gpu_ebpf::abi::maps::COUNTERS, 64)].into(),
    };
    let finding = |what, available, detail, meaning| Finding { what, available, detail, meaning };
    match Kernel::load(&options(false)) {
        Err(error) => vec![finding("uprobes", false, Chain(&error).to_string(), PROBES)],
        Ok(kernel) => {
            let (mechanism, reason) = kernel.mechanism();
            let multi = mechanism == Mechanism::UprobeMulti;
            let detail = reason.map_or("one link for each program and library".to_owned(), str::to_owned);
            drop(kernel);
            let ends = Kernel::load(&options(true));
            let ends_detail = ends
                .as_ref()
                .map_or_else(|error| Chain(error).to_string(), |_| "raw tracepoints attach".to_owned());
            vec![
                finding("uprobes", true, "the programs load and pass the verifier".to_owned(), PROBES),
                finding("uprobe-multi", multi, detail, MULTI),
                finding("tracepoints", ends.is_ok(), ends_detail, ENDS),
            ]
        }
    }
}

fn type_information() -> Finding {
    let offsets = TaskOffsets::of_running_kernel();
    let available = offsets.signal != 0 && offsets.signal_live != 0;
    Finding {
        what: "kernel-btf",
        available,
        detail: if available {
            "/sys/kernel/btf/vmlinux"
        } else {
            "the kernel has none, or lacks what is needed"
        }
        .to_owned(),
        meaning: "process identity by start time, ends of multi-threaded processes; without it ends are found by looking",
    }
}

fn pinning(config: &Config) -> Finding {
    let result = ensure_bpffs(&config.bpffs).and_then(|()| {
        let probe = Pins::root(&config.bpffs).join(format!("check-{}", std::process::id()));
        std::fs::create_dir_all(&probe)?;
        std::fs::remove_dir(&probe)
    });
    let available = result.is_ok() && !config.disable.contains(&Feature::Pinning);
    Finding {
        what: "pinning",
        available,
        detail: match result {
            Ok(()) => format!("{} is a BPF file system", config.bpffs.display()),
            Err(error) => format!("{}: {error}", config.bpffs.display()),
        },
        meaning: "observation goes on while the agent restarts; without it that time is blind, and exported as such",
    }
}

fn batched_reads(config: &Config) -> Finding {
    let available = !config.disable.contains(&Feature::BatchRead) && Reader::new(true).is_ok();
    Finding {
        what: "batch-read",
        available,
        detail: if available { "maps are read many elements at a time" } else { "disabled by configuration" }
            .to_owned(),
        meaning: "costs less; without it each element is a system call",
    }
}

fn cgroups(config: &Config) -> Finding {
    let host = Host::open(config.cgroup_root.as_deref(), &config.proc_root);
    let root = host.as_ref().ok().and_then(Host::cgroup_root).map(Path::to_owned);
    Finding {
        what: "cgroup2",
        available: root.is_some(),
        detail: match (&host, &root) {
            (_, Some(root)) => root.display().to_string(),
            (Ok(_), None) => "no cgroup2 mount".to_owned(),
            (Err(error), None) => Chain(error).to_string(),
        },
        meaning: "calls are told apart by cgroup; without it by /proc while the process lives",
    }
}

fn nvml(config: &Config) -> Finding {
    let backend = NvmlBackend::new(config.nvml.library.clone().map(std::path::PathBuf::into_os_string));
    let opened = backend.with_session(&mut |_| ());
    Finding {
        what: "nvml",
        available: opened.is_ok(),
        detail: opened.map_or_else(|error| Chain(&error).to_string(), |()| "the library opens".to_owned()),
        meaning: "device metrics, and the driver's word on which process is on which GPU",
    }
}
