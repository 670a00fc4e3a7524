//! Faults that a test injects while the machine runs, kept in each GPU's [`FAULT_WORDS`]. All zero is a healthy machine.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::{Machine, layout::FAULT_WORDS};

/// XIDs that the driver keeps for those who wait for them; of a longer burst the first ones are lost.
pub const XID_CAPACITY: usize = 8;

/// A condition that a test sets and clears. Each is one word of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Fault {
    /// The `nvmlReturn_t` that every NVML call about this GPU answers, for example 15 (lost) or 999 (unknown).
    NvmlReturn = 0,
    /// Not 0: NVML calls about this GPU do not return.
    NvmlHang = 1,
    /// Microseconds that every NVML call about this GPU takes.
    NvmlCallTimeUs = 2,
    /// Not 0: amounts are answered as `NVML_VALUE_NOT_AVAILABLE`.
    NotAvailable = 3,
    /// Not 0: the utilisation samples of processes contain what a driver's bug has put there: over 100 percent, without a
    /// process, and dated long ago.
    GarbageSamples = 4,
    /// Corrected ECC errors since the driver was loaded.
    EccCorrected = 5,
    /// Uncorrected ECC errors since the driver was loaded.
    EccUncorrected = 6,
    /// Memory rows that were remapped after corrected errors.
    RowsCorrected = 7,
    /// Memory rows that were remapped after uncorrected errors.
    RowsUncorrected = 8,
    /// Not 0: a remapping waits for a reset.
    RowsPending = 9,
    /// Not 0: a remapping failed.
    RowsFailed = 10,
    /// Bits of `nvmlClocksEventReasons` beyond those that follow from the load.
    ThrottleReasons = 11,
    /// PCIe packets that were sent again.
    PcieReplays = 12,
    /// A bit for each NVLink link that is down.
    NvlinkDown = 13,
    /// NVLink packets that were sent again, on each link.
    NvlinkReplays = 14,
    /// NVLink flits with a wrong checksum, on each link.
    NvlinkCrcErrors = 15,
}

/// A condition of the machine's driver as a whole. It is kept with GPU 0, which every machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum MachineFault {
    /// The `nvmlReturn_t` that every NVML call answers, for example 18 (version mismatch) or 9 (driver not loaded).
    NvmlReturn = 25,
    /// Not 0: NVML's initialisation does not return.
    NvmlHang = 26,
    /// Not 0: NVML calls that take long on real cards (PCIe throughput: 20 ms) take as long here.
    RealTime = 27,
}

/// Number of XIDs so far, then the last [`XID_CAPACITY`] codes.
const XID_COUNT: usize = 16;
const XID_FIRST: usize = 17;

const _: () = assert!(XID_FIRST + XID_CAPACITY <= MachineFault::NvmlReturn as usize);
const _: () = assert!((MachineFault::RealTime as usize) < FAULT_WORDS);

impl Machine {
    /// Sets or (with 0) clears a fault of one GPU.
    pub fn set_fault(&self, gpu: usize, fault: Fault, value: u64) {
        if let Some(word) = self.fault_word(gpu, fault as usize) {
            word.store(value, Release);
        }
    }

    /// A fault of one GPU; 0 when it is healthy.
    pub fn fault(&self, gpu: usize, fault: Fault) -> u64 {
        self.fault_word(gpu, fault as usize).map_or(0, |word| word.load(Acquire))
    }

    /// Sets or (with 0) clears a fault of the driver.
    pub fn set_machine_fault(&self, fault: MachineFault, value: u64) {
        if let Some(word) = self.fault_word(0, fault as usize) {
            word.store(value, Release);
        }
    }

    /// A fault of the driver; 0 when it is healthy.
    pub fn machine_fault(&self, fault: MachineFault) -> u64 {
        self.fault_word(0, fault as usize).map_or(0, |word| word.load(Acquire))
    }

    /// Lets a GPU report a critical error. Only one process at a time calls this.
    pub fn report_xid(&self, gpu: usize, xid: u64) {
        let Some(count) = self.fault_word(gpu, XID_COUNT) else { return };
        let number = count.load(Relaxed);
        if let Some(word) = self.fault_word(gpu, xid_word(number)) {
            word.store(xid, Relaxed);
        }
        count.store(number + 1, Release);
    }

    /// Critical errors that a GPU has reported so far.
    pub fn xid_count(&self, gpu: usize) -> u64 {
        self.fault_word(gpu, XID_COUNT).map_or(0, |word| word.load(Acquire))
    }

    /// The oldest kept XID whose number is `number` or later, with its number.
    pub fn xid_from(&self, gpu: usize, number: u64) -> Option<(u64, u64)> {
        let count = self.xid_count(gpu);
        let number = number.max(count.saturating_sub(XID_CAPACITY as u64));
        if number >= count {
            return None;
        }
        let word = self.fault_word(gpu, xid_word(number))?;
        Some((number, word.load(Relaxed)))
    }

    fn fault_word(&self, gpu: usize, word: usize) -> Option<&AtomicU64> {
        self.gpu(gpu)?.faults.get(word)
    }
}

/// The word that holds the XID of this number.
fn xid_word(number: u64) -> usize {
    // The remainder is less than a `usize`, whatever its width.
    XID_FIRST + usize::try_from(number % XID_CAPACITY as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn faults_of_one_gpu_and_of_the_machine_do_not_touch_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::create(directory.path(), &Scenario::preset("2xA10").unwrap()).unwrap();
        machine.set_fault(1, Fault::NvmlReturn, 15);
        machine.set_machine_fault(MachineFault::NvmlReturn, 18);
        for xid in 0..XID_CAPACITY as u64 {
            machine.report_xid(0, 1000 + xid);
        }
        assert_eq!(machine.fault(0, Fault::NvmlReturn), 0);
        assert_eq!(machine.fault(1, Fault::NvmlReturn), 15);
        assert_eq!(machine.machine_fault(MachineFault::NvmlReturn), 18);
        assert_eq!(machine.machine_fault(MachineFault::NvmlHang), 0);
        assert_eq!(machine.fault(0, Fault::NvlinkCrcErrors), 0);
    }

    #[test]
    fn the_first_xids_of_a_long_burst_are_lost() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::create(directory.path(), &Scenario::preset("1xT4").unwrap()).unwrap();
        assert_eq!(machine.xid_from(0, 0), None);
        for xid in 0..XID_CAPACITY as u64 + 2 {
            machine.report_xid(0, xid);
        }
        let kept: Vec<u64> =
            std::iter::successors(machine.xid_from(0, 0), |(number, _)| machine.xid_from(0, number + 1))
                .map(|(_, xid)| xid)
                .collect();
        assert_eq!(kept, (2..XID_CAPACITY as u64 + 2).collect::<Vec<_>>());
    }
}
