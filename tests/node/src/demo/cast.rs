//! Who works on the simulated node, and at what.

use crate::workload::Plan;

/// A tenant of the demo.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tenant {
    /// What the agent's configuration calls it.
    pub(super) name: &'static str,
    /// Its processes.
    pub(super) jobs: &'static [Job],
}

/// One process, or one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// `gpu-sim run <kind>`.
    kind: &'static str,
    arguments: &'static [&'static str],
    visible_devices: Option<&'static str>,
    /// How it ends its work.
    pub(super) ending: Ending,
}

/// How a job ends its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// When it is told to; it keeps its memory until it is let go.
    Told,
    /// By a crash with memory held; it is started again for as long as the demo runs.
    Crashes,
}

impl Job {
    const fn new(kind: &'static str, arguments: &'static [&'static str]) -> Self {
        Self { kind, arguments, visible_devices: None, ending: Ending::Told }
    }

    /// How it is started.
    pub(super) fn plan(&self) -> Plan<'static> {
        let gates: &[&str] = match self.ending {
            Ending::Told => &["exit"],
            Ending::Crashes => &[],
        };
        Plan { visible_devices: self.visible_devices, gates, ..Plan::new(self.kind, self.arguments) }
    }
}

/// Without a number of rounds the workloads would end by themselves.
const ENDLESS: &str = "1000000000000";

/// Each way of working once: together about 2500 launches per second, which leaves two cores room for a person to watch.
pub(super) const TENANTS: [Tenant; 4] = [
    Tenant { name: "training", jobs: &[Job::new("train", &["--rate", "4", "--iterations", ENDLESS])] },
    Tenant {
        name: "inference",
        jobs: &[
            // Its device 0 is the node's GPU 1, and it finds the driver's functions as libcudart does.
            Job {
                visible_devices: Some("1,0"),
                ..Job::new("infer", &["--rate", "25", "--via", "get-proc-address", "--iterations", ENDLESS])
            },
            Job::new("graph", &["--rate", "10", "--device", "1", "--iterations", ENDLESS]),
        ],
    },
    Tenant {
        name: "notebook",
        jobs: &[
            // Calls of every kind, wrong ones among them.
            Job::new("mixed", &["--rate", "12", "--iterations", ENDLESS]),
            Job {
                ending: Ending::Crashes,
                ..Job::new("crash", &["--rate", "5", "--limit-bytes", "536870912", "--device", "1"])
            },
        ],
    },
    Tenant {
        name: "batch",
        jobs: &[
            // More work than a GPU can do: the queue fills, and launches wait.
            Job::new(
                "saturate",
                &["--rate", "1100", "--kernel", "sim_us_1000", "--device", "1", "--iterations", ENDLESS],
            ),
            Job::new("copy", &["--rate", "1", "--device", "0", "--device", "1", "--iterations", ENDLESS]),
        ],
    },
];
