use std::{thread, time::Duration};

use super::*;
use crate::{
    machine::{
        channel::{Channel, Work, WorkKind},
        memory::BLOCK_BYTES,
        process::{Slot, SlotState},
    },
    scenario::Scenario,
};

fn kernel(duration_ns: u64) -> Work {
    Work { kind: WorkKind::Kernel, duration_ns, bytes: 0, argument: 0, count: 0, submitted_ns: 0 }
}

fn serve(test: impl FnOnce(&Arc<Machine>)) {
    let directory = tempfile::tempdir().expect("temporary directory");
    let scenario = Scenario::preset("2xA10").expect("preset");
    let machine = Arc::new(Machine::create(directory.path(), &scenario).expect("machine"));
    let stop = AtomicBool::new(false);
    let mut daemon = Daemon::start(Arc::clone(&machine)).expect("daemon");
    thread::scope(|scope| {
        let running = scope.spawn(|| daemon.run(&stop));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&machine)));
        stop.store(true, SeqCst);
        running.join().expect("thread").expect("daemon");
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
    drop(daemon);
    assert!(!machine.is_served());
}

#[test]
fn submitted_work_completes_and_is_accounted() {
    serve(|machine| {
        let slot = Slot::claim(machine).expect("slot");
        let channel = Channel::claim(&slot, 1, 0).expect("channel");
        let mut last = 0;
        for _ in 0..3000 {
            last = channel.submit(kernel(1_000)).expect("submitted");
        }
        channel.wait(last).expect("done");
        assert_eq!(channel.completed(), 3000);
        let gpu = machine.gpu(1).expect("GPU");
        // The last completion is published after the busy time.
        assert_eq!(gpu.busy_ns.load(SeqCst), 3_000_000);
        assert_eq!(slot.gpu(1).busy_ns.load(SeqCst), 3_000_000);
        assert_eq!(machine.gpu(0).expect("GPU").busy_ns.load(SeqCst), 0);
    });
}

#[test]
fn a_channel_that_was_given_up_can_be_claimed_again() {
    serve(|machine| {
        let slot = Slot::claim(machine).expect("slot");
        let first = Channel::claim(&slot, 0, 0).expect("channel");
        let index = first.index();
        first.submit(kernel(3_600_000_000_000)).expect("submitted");
        drop(first);
        while machine.shared().channels[index].owner.load(SeqCst) != 0 {
            thread::sleep(Duration::from_micros(100));
        }
        let second = Channel::claim(&slot, 0, 0).expect("channel");
        assert_eq!(second.index(), index);
        second.wait(second.submit(kernel(1)).expect("submitted")).expect("done");
    });
}

#[test]
fn a_slot_without_a_living_owner_is_freed() {
    serve(|machine| {
        let slot = Slot::claim(machine).expect("slot");
        slot.claim_memory(0, BLOCK_BYTES).expect("memory");
        slot.gpu(0).counters.launches.fetch_add(5, SeqCst);
        assert_eq!(slot.state().state.load(SeqCst), SlotState::Live as u32);
        // The kernel does this when a process ends.
        machine.lock().expect("lock file").release_slot(slot.index()).expect("released");
        while slot.state().state.load(SeqCst) != SlotState::Free as u32 {
            thread::sleep(Duration::from_micros(100));
        }
        assert_eq!(slot.gpu(0).memory_bytes.load(SeqCst), 0);
        assert_eq!(machine.gpu(0).expect("GPU").ended.launches.load(SeqCst), 5);
    });
}

#[test]
fn a_second_daemon_is_not_started_by_another_process() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let scenario = Scenario::preset("1xT4").expect("preset");
    let machine = Arc::new(Machine::create(directory.path(), &scenario).expect("machine"));
    let _daemon = Daemon::start(Arc::clone(&machine)).expect("daemon");
    assert!(machine.is_served());
}
