//! Processes that share a GPU: its time, its memory, and what ends with a process.

use std::process::Child;

use gpu_sim::machine::memory::BLOCK_BYTES;

use super::support::{Node, wait_for_phase};

const MIB: u64 = 1 << 20;

/// What the driver keeps for itself on an A10, and what a context costs there.
const RESERVED_BYTES: u64 = 512 * MIB;
const CONTEXT_BYTES: u64 = 250 * MIB;

fn signal(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).expect("pid");
    // SAFETY: sends a signal to a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn kernels_take_the_time_that_they_ask_for() {
    let node = Node::start("2xA10");
    let mut children: Vec<Child> = ["a", "b"]
        .map(|log| {
            let arguments = ["saturate", "--iterations", "100", "--kernel", "sim_ms_1"];
            node.workload(log, &arguments).spawn().expect("workload")
        })
        .into();
    for child in &mut children {
        assert!(child.wait().expect("workload").success());
    }
    let state = node.state_without_processes();
    assert_eq!(state.gpus[0].busy_ns, 200_000_000);
    assert_eq!(state.gpus[1].busy_ns, 0);
}

#[test]
fn a_stopped_process_does_not_stop_its_queued_work() {
    let node = Node::start("2xA10");
    let phases = node.path("phases");
    let mut command = node.workload("log", &["saturate", "--iterations", "200", "--kernel", "sim_ms_1"]);
    let mut child = command.arg("--phase-file").arg(&phases).spawn().expect("workload");
    node.state_when(|state| state.gpus[0].processes.iter().any(|process| process.counters.launches == 200));
    signal(&child, libc::SIGSTOP);
    node.state_when(|state| state.gpus[0].busy_ns == 200_000_000);
    signal(&child, libc::SIGCONT);
    assert!(child.wait().expect("workload").success());
}

#[test]
fn a_full_queue_blocks_the_launch() {
    let node = Node::start("2xA10");
    let arguments = ["saturate", "--iterations", "5000", "--kernel", "sim_ms_3600000"];
    let mut child = node.workload("log", &arguments).spawn().expect("workload");
    // The hour-long first kernel keeps its place: 1024 launches succeed and the next one blocks. The counter of the
    // library is behind the queue by at most the launch that is on its way.
    let state = node
        .state_when(|state| state.gpus[0].processes.iter().any(|process| process.counters.launches == 1024));
    assert_eq!(state.gpus[0].processes[0].counters.launches, 1024);
    child.kill().expect("workload");
    child.wait().expect("workload");
    assert_eq!(node.state_without_processes().gpus[0].ended.launches, 1024);
}

#[test]
fn the_queue_and_the_memory_of_a_killed_process_are_freed() {
    let node = Node::start("2xA10");
    let arguments = ["saturate", "--iterations", "100", "--kernel", "sim_ms_3600000"];
    let mut child = node.workload("log", &arguments).spawn().expect("workload");
    let state = node
        .state_when(|state| state.gpus[0].processes.iter().any(|process| process.counters.launches == 100));
    assert_eq!(state.gpus[0].memory_used_bytes, RESERVED_BYTES + CONTEXT_BYTES + BLOCK_BYTES);
    assert_eq!(state.gpus[0].processes[0].memory_bytes, CONTEXT_BYTES + BLOCK_BYTES);
    child.kill().expect("workload");
    child.wait().expect("workload");
    assert_eq!(node.state_without_processes().gpus[0].memory_used_bytes, RESERVED_BYTES);
    // The GPU serves others again.
    assert_eq!(node.run(&["saturate", "--iterations", "3"]).gpus.values().next().expect("GPU").launches, 3);
}

#[test]
fn memory_runs_out_for_the_last_to_come() {
    let node = Node::start("1xT4");
    let (phases, exit) = (node.path("phases"), node.path("exit"));
    let mut command = node.workload("first", &["leak", "--limit-bytes", "15000000000"]);
    command.arg("--phase-file").arg(&phases).arg("--wait-before-exit").arg(&exit);
    let mut first = command.spawn().expect("workload");
    wait_for_phase(&phases, "worked");
    let second =
        node.workload("second", &["leak", "--limit-bytes", "1000000000"]).output().expect("workload");
    assert!(!second.status.success());
    let message = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(message, "gpu-sim: cuMemAlloc returned CUDA_ERROR_OUT_OF_MEMORY (2)\n");
    std::fs::write(exit, "").expect("file");
    assert!(first.wait().expect("workload").success());
}

#[test]
fn the_process_list_follows_the_process() {
    let node = Node::start("2xA10");
    let (phases, exit) = (node.path("phases"), node.path("exit"));
    let mut command = node.workload("log", &["idle"]);
    command.arg("--phase-file").arg(&phases).arg("--wait-before-exit").arg(&exit);
    let mut child = command.spawn().expect("workload");
    let machine = gpu_sim::machine::Machine::open(&node.path("")).expect("machine");
    let list = || machine.gpu(0).expect("GPU").process_list.read();
    while list().is_empty() {
        std::thread::yield_now();
    }
    let listed: Vec<(u32, u64)> = list().iter().map(|process| (process.pid, process.used_bytes)).collect();
    assert_eq!(listed, [(child.id(), CONTEXT_BYTES)]);
    std::fs::write(exit, "").expect("file");
    assert!(child.wait().expect("workload").success());
    while !list().is_empty() {
        std::thread::yield_now();
    }
}
