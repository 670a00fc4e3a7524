//! What workloads log equals what the library counted, call by call.

use std::collections::BTreeMap;

use gpu_sim::{
    state::{CounterSnapshot, MachineSnapshot},
    truth::{GpuTruth, MemoryKind, Truth, UNKNOWN_GPU},
};

use super::support::{Node, wait_for_phase};

/// What the machine counted for ended processes, in the form of a log without errors by name.
fn counted(state: &MachineSnapshot) -> BTreeMap<String, CounterSnapshot> {
    let used = state.gpus.iter().filter(|gpu| gpu.ended != CounterSnapshot::default());
    used.map(|gpu| (gpu.uuid.clone(), gpu.ended.clone())).collect()
}

/// The same of a log. Failed calls of no GPU are not counted by the machine.
fn logged(truth: &Truth) -> BTreeMap<String, CounterSnapshot> {
    let gpus = truth.gpus.iter().filter(|(uuid, _)| *uuid != UNKNOWN_GPU);
    gpus.map(|(uuid, gpu)| (uuid.clone(), counters(gpu))).collect()
}

fn counters(gpu: &GpuTruth) -> CounterSnapshot {
    let value = serde_json::json!({
        "launches": gpu.launches,
        "graph_launches": gpu.graph_launches,
        "synchronizes": gpu.synchronize.calls,
        "errors": gpu.errors.values().flat_map(BTreeMap::values).sum::<u64>(),
        "memory": gpu.memory,
        "copies": gpu.copies,
        "memset": gpu.memset,
    });
    serde_json::from_value(value).expect("the same shape")
}

#[track_caller]
fn agree(preset: &str, arguments: &[&str]) -> Truth {
    let node = Node::start(preset);
    let truth = node.run(arguments);
    assert!(truth.complete);
    assert_eq!(logged(&truth), counted(&node.state_without_processes()), "{arguments:?}");
    truth
}

#[test]
fn train() {
    let truth = agree("1xT4", &["train", "--iterations", "2"]);
    assert_eq!(truth.gpus.values().next().expect("GPU").launches, 400);
}

#[test]
fn infer() {
    let truth = agree("1xT4", &["infer", "--iterations", "3", "--rate", "1000"]);
    assert_eq!(truth.gpus.values().next().expect("GPU").launches, 60);
}

#[test]
fn saturate_in_several_threads_on_two_devices() {
    let arguments = ["saturate", "--iterations", "50", "--threads", "4", "--device", "1", "--device", "0"];
    let truth = agree("2xA10", &arguments);
    assert_eq!(truth.gpus.values().map(|gpu| gpu.launches).collect::<Vec<_>>(), [100, 100]);
}

#[test]
fn flood() {
    agree("1xT4", &["flood", "--iterations", "3000"]);
}

#[test]
fn alloc_loop() {
    let truth = agree("2xA10", &["alloc-loop", "--iterations", "10"]);
    let gpu = truth.gpus.values().next().expect("GPU");
    for kind in MemoryKind::ALL {
        let memory = gpu.memory[&kind];
        assert!(memory.allocations > 10, "{kind:?}");
        assert_eq!(memory.held_bytes, 0, "{kind:?}");
    }
}

#[test]
fn copy() {
    let truth = agree("2xA10", &["copy", "--iterations", "2"]);
    let kinds = truth.gpus.values().next().expect("GPU").copies.len();
    assert_eq!(kinds, 6, "every kind but host to host");
}

#[test]
fn graph() {
    let truth = agree("2xA10", &["graph", "--iterations", "5"]);
    let gpu = truth.gpus.values().next().expect("GPU");
    // Captured launches are calls of cuLaunchKernel, too.
    assert_eq!((gpu.graph_launches, gpu.launches), (10, 25));
}

#[test]
fn leak_holds_to_the_end() {
    let truth = agree("2xA10", &["leak", "--limit-bytes", "100000000"]);
    let memory = truth.gpus.values().next().expect("GPU").memory[&MemoryKind::Device];
    assert_eq!((memory.held_bytes, memory.frees), (100_000_000, 0));
}

#[test]
fn crash_logs_what_it_holds() {
    let node = Node::start("2xA10");
    let status = node.workload("log", &["crash", "--limit-bytes", "5000000"]).status().expect("workload");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGABRT));
    let truth = node.truth("log");
    assert_eq!(logged(&truth), counted(&node.state_without_processes()));
    assert_eq!(truth.gpus.values().next().expect("GPU").memory[&MemoryKind::Device].held_bytes, 5_000_000);
    assert_eq!(node.gpu(0).memory_used_bytes, 512 << 20);
}

#[test]
fn a_forked_child_cannot_use_the_driver() {
    let node = Node::start("2xA10");
    let truth = node.run(&["fork", "--iterations", "5"]);
    assert_eq!(logged(&truth), counted(&node.state_without_processes()));
    let child = node.truth("log.child");
    let errors: Vec<&str> =
        child.gpus[UNKNOWN_GPU].errors.values().flat_map(|names| names.keys()).map(String::as_str).collect();
    assert_eq!(errors, ["CUDA_ERROR_NOT_INITIALIZED"; 4]);
}

#[test]
fn export_table_uses_both_devices() {
    let truth = agree("2xA10", &["export-table", "--iterations", "3", "--device", "0", "--device", "1"]);
    assert_eq!(truth.gpus.values().map(|gpu| gpu.launches).collect::<Vec<_>>(), [3, 3]);
}

#[test]
fn mixed_by_exported_names() {
    for seed in ["1", "2", "3"] {
        agree("2xA10", &["mixed", "--iterations", "100", "--seed", seed, "--threads", "2"]);
    }
}

#[test]
fn mixed_by_proc_address_with_streams_of_threads_own() {
    for seed in ["4", "5"] {
        let arguments = ["--seed", seed, "--via", "get-proc-address", "--per-thread-streams"];
        let work = ["mixed", "--iterations", "100", "--threads", "3", "--device", "1", "--device", "0"];
        agree("2xA10", &[&work[..], &arguments[..]].concat());
    }
}

#[test]
fn mixed_provokes_the_errors_that_it_is_meant_to() {
    let truth = agree("1xT4", &["mixed", "--iterations", "400"]);
    let gpu = truth.gpus.values().next().expect("GPU");
    let names: std::collections::BTreeSet<&str> =
        gpu.errors.values().flat_map(BTreeMap::keys).map(String::as_str).collect();
    let expected = [
        "CUDA_ERROR_INVALID_HANDLE",
        "CUDA_ERROR_INVALID_VALUE",
        "CUDA_ERROR_NOT_FOUND",
        "CUDA_ERROR_OUT_OF_MEMORY",
    ];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
    assert!(gpu.memory.values().all(|memory| memory.held_bytes == 0), "{gpu:?}");
}

#[test]
fn visible_devices_choose_the_gpu() {
    let node = Node::start("2xA10");
    let mut command = node.workload("log", &["idle"]);
    let status = command.env("CUDA_VISIBLE_DEVICES", "").status().expect("workload");
    assert!(!status.success());
    let status = node
        .workload("log", &["saturate", "--iterations", "7"])
        .env("CUDA_VISIBLE_DEVICES", "1,0")
        .status()
        .expect("workload");
    assert!(status.success());
    let truth = node.truth("log");
    assert_eq!(truth.gpus[&node.gpu(1).uuid].launches, 7);
    assert_eq!(truth.gpus.len(), 1);
}

#[test]
fn phases_and_waits_steer_a_workload() {
    let node = Node::start("1xT4");
    let (phases, load, work, exit) =
        (node.path("phases"), node.path("load"), node.path("work"), node.path("exit"));
    let mut command = node.workload("log", &["saturate", "--iterations", "5"]);
    command.arg("--phase-file").arg(&phases).arg("--wait-before-load").arg(&load);
    command.arg("--wait-before-work").arg(&work).arg("--wait-before-exit").arg(&exit);
    let mut child = command.spawn().expect("workload");
    let touch = |path| std::fs::write(path, "").expect("file");
    wait_for_phase(&phases, "started");
    touch(&load);
    wait_for_phase(&phases, "ready");
    let state = node.state_when(|state| state.gpus[0].processes.iter().any(|process| process.pid.is_some()));
    let process = &state.gpus[0].processes[0];
    assert_eq!((process.pid, process.contexts, process.counters.launches), (Some(child.id()), 1, 0));
    touch(&work);
    wait_for_phase(&phases, "worked");
    let truth = node.truth("log");
    let gpu = truth.gpus.values().next().expect("GPU");
    assert!(!truth.complete);
    assert_eq!((gpu.launches, gpu.memory[&MemoryKind::Device].held_bytes), (5, 1 << 20));
    touch(&exit);
    assert!(child.wait().expect("workload").success());
    let reached = std::fs::read_to_string(&phases).expect("phases");
    assert_eq!(reached, "started\nloaded\ninitialised\nready\nworked\nended\n");
}
