use std::sync::{Arc, atomic::Ordering::SeqCst};

use super::{
    channel::{Channel, Work, WorkKind},
    lock::Holder,
    memory::BLOCK_BYTES,
    process::Slot,
    published::{ListedProcess, ProcessKind},
    samples::Sample,
    *,
};

fn machine() -> (tempfile::TempDir, Arc<Machine>) {
    let directory = tempfile::tempdir().expect("temporary directory");
    let scenario = Scenario::preset("2xA10").expect("preset");
    let machine = Machine::create(directory.path(), &scenario).expect("machine");
    (directory, Arc::new(machine))
}

#[test]
fn an_opened_machine_is_the_created_one() {
    let (directory, created) = machine();
    created.gpu(1).expect("GPU").energy_uj.store(42, SeqCst);
    let opened = Machine::open(directory.path()).expect("machine");
    assert_eq!(opened.scenario(), created.scenario());
    assert_eq!(opened.gpu(1).expect("GPU").energy_uj.load(SeqCst), 42);
    assert_eq!(opened.gpu(0).expect("GPU").power_mw.load(SeqCst), 16_000);
    assert!(opened.gpu(2).is_none());
}

#[test]
fn a_file_of_another_version_is_refused() {
    let (directory, created) = machine();
    created.shared().header.version.store(layout::VERSION + 1, SeqCst);
    let error = Machine::open(directory.path()).expect_err("version differs");
    assert!(matches!(error, MachineError::Layout { key: "version", .. }), "{error}");
}

#[test]
fn a_truncated_file_is_refused() {
    let (directory, _created) = machine();
    let file = OpenOptions::new().write(true).open(directory.path().join(MEMORY_FILE)).expect("file");
    file.set_len(4096).expect("truncate");
    let error = Machine::open(directory.path()).expect_err("file is short");
    assert!(matches!(error, MachineError::Layout { key: "size", found: 4096, .. }), "{error}");
}

#[test]
fn two_claims_of_one_process_get_two_slots() {
    let (_directory, machine) = machine();
    let first = Slot::claim(&machine).expect("slot");
    let second = Slot::claim(&machine).expect("slot");
    assert_eq!((first.index(), second.index()), (0, 1));
    let lock = machine.lock().expect("lock file");
    let own = Holder::Process(Some(std::process::id()));
    assert_eq!([0, 1, 2].map(|slot| lock.slot_holder(slot).expect("holder")), [own, own, Holder::Nobody]);
}

#[test]
fn memory_is_claimed_up_to_the_last_block() {
    let (_directory, machine) = machine();
    let slot = Slot::claim(&machine).expect("slot");
    let free = machine.memory_free_bytes(0);
    assert_eq!(free, (23_028 - 512) * 1024 * 1024);
    slot.claim_memory(0, free - BLOCK_BYTES).expect("fits");
    let error = slot.claim_memory(0, 2 * BLOCK_BYTES).expect_err("one block is left");
    assert_eq!(error.free_bytes, BLOCK_BYTES);
    slot.claim_memory(0, BLOCK_BYTES).expect("fits");
    assert_eq!(machine.memory_free_bytes(0), 0);
    slot.release_memory(0, free);
    assert_eq!(machine.memory_free_bytes(0), free);
    assert_eq!(machine.memory_free_bytes(1), free);
}

#[test]
fn competing_claims_never_exceed_the_total() {
    let (_directory, machine) = machine();
    let slots: Vec<Slot> = (0..4).map(|_| Slot::claim(&machine).expect("slot")).collect();
    let free = machine.memory_free_bytes(0);
    let granted: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = slots
            .iter()
            .map(|slot| {
                scope.spawn(|| (0..6000).filter(|_| slot.claim_memory(0, BLOCK_BYTES).is_ok()).count() as u64)
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("thread")).sum()
    });
    assert_eq!(granted * BLOCK_BYTES, free);
}

#[test]
fn a_process_list_is_copied_whole() {
    let (_directory, machine) = machine();
    let list = &machine.gpu(0).expect("GPU").process_list;
    assert_eq!(list.read(), []);
    let process = ListedProcess { pid: 7, kind: ProcessKind::Compute, used_bytes: BLOCK_BYTES };
    list.publish(&[process, ListedProcess { pid: 8, ..process }]);
    assert_eq!(list.read(), [process, ListedProcess { pid: 8, ..process }]);
    list.publish(&[]);
    assert_eq!(list.read(), []);
}

#[test]
fn samples_are_late_filtered_and_bounded() {
    let (_directory, machine) = machine();
    let ring = &machine.gpu(0).expect("GPU").device_samples;
    let sample =
        Sample { pid: 0, timestamp_us: 0, visible_ns: 0, sm_percent: 50, memory_percent: 0, power_mw: 0 };
    for number in 1..=300 {
        ring.push(&Sample { timestamp_us: number, visible_ns: number + 10, ..sample });
    }
    let stamps = |after, now| ring.read(after, now).iter().map(|s| s.timestamp_us).collect::<Vec<_>>();
    assert_eq!(stamps(0, u64::MAX), (181..=300).collect::<Vec<_>>());
    assert_eq!(stamps(297, 309), [298, 299]);
}

#[test]
fn work_arrives_as_it_was_submitted() {
    let (_directory, machine) = machine();
    let slot = Slot::claim(&machine).expect("slot");
    let channel = Channel::claim(&slot, 1, 5).expect("channel");
    let work =
        Work { kind: WorkKind::Peer, duration_ns: 9, bytes: 8, argument: 7, count: 6, submitted_ns: 0 };
    assert_eq!(channel.submit(work).expect("submitted"), 1);
    let state = &machine.shared().channels[channel.index()];
    let seen = state.work(0).expect("work");
    assert_eq!(Work { submitted_ns: 0, ..seen }, work);
    assert_ne!(seen.submitted_ns, 0);
    assert_eq!((state.gpu.load(SeqCst), state.context.load(SeqCst)), (1, 5));
}

#[test]
fn a_full_queue_blocks_until_one_entry_is_done() {
    let (_directory, machine) = machine();
    machine.shared().header.served.store(1, SeqCst);
    let slot = Slot::claim(&machine).expect("slot");
    let channel = Channel::claim(&slot, 0, 0).expect("channel");
    let work =
        Work { kind: WorkKind::Kernel, duration_ns: 1, bytes: 0, argument: 0, count: 0, submitted_ns: 0 };
    for _ in 0..channel::CAPACITY {
        channel.submit(work).expect("room");
    }
    let state = &machine.shared().channels[channel.index()];
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| channel.submit(work));
        while state.targets() == [None, None] {
            std::thread::yield_now();
        }
        assert_eq!(state.targets(), [None, Some(1)]);
        assert_eq!(channel.submitted(), channel::CAPACITY);
        state.complete(1);
        assert_eq!(blocked.join().expect("thread"), Ok(channel::CAPACITY + 1));
    });
    channel.wait(1).expect("done already");
}
