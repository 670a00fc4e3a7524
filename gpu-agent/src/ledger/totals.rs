//! What calls add up to, for a row of the kernel's counters or for a whole tenant.

use std::collections::BTreeMap;

use gpu_ebpf::{
    abi::{Counters, MemoryFlow},
    call::MemoryKind,
};
use serde::{Deserialize, Serialize};

/// Memory that went back to the driver without a call that frees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    pub allocations: u64,
    pub bytes: u64,
}

/// A call class and a `CUresult`, as on the wire.
pub type ErrorKind = (u32, i32);

/// Sums that only grow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    #[serde(with = "counter_words")]
    pub counters: Counters,
    /// Freed by the end of a context.
    pub with_context: [Returned; MemoryKind::COUNT],
    /// Taken back at the end of a process.
    pub reclaimed: [Returned; MemoryKind::COUNT],
    /// Failed calls.
    #[serde(with = "error_list")]
    pub errors: BTreeMap<ErrorKind, u64>,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            counters: Counters::ZERO,
            with_context: Default::default(),
            reclaimed: Default::default(),
            errors: BTreeMap::new(),
        }
    }
}

impl Totals {
    /// Adds another row's totals.
    pub fn add(&mut self, other: &Self) {
        self.counters = self.counters.plus(other.counters);
        for (sum, more) in self.with_context.iter_mut().zip(other.with_context) {
            sum.add(more);
        }
        for (sum, more) in self.reclaimed.iter_mut().zip(other.reclaimed) {
            sum.add(more);
        }
        for (kind, count) in &other.errors {
            let sum = self.errors.entry(*kind).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut with_context = self.with_context;
        for (part, before) in with_context.iter_mut().zip(earlier.with_context) {
            part.subtract(before);
        }
        let mut reclaimed = self.reclaimed;
        for (part, before) in reclaimed.iter_mut().zip(earlier.reclaimed) {
            part.subtract(before);
        }
        let errors = self
            .errors
            .iter()
            .map(|(kind, count)| {
                let before = earlier.errors.get(kind).copied().unwrap_or_default();
                (*kind, count.saturating_sub(before))
            })
            .collect();
        Self { counters: self.counters.since(earlier.counters), with_context, reclaimed, errors }
    }

    /// Allocations and frees of one kind.
    pub fn flow(&self, kind: MemoryKind) -> MemoryFlow {
        self.counters.memory[kind as usize]
    }

    /// Bytes of one kind that were freed by a call or with their context.
    pub fn freed_bytes(&self, kind: MemoryKind) -> u64 {
        self.flow(kind).freed_bytes.saturating_add(self.with_context[kind as usize].bytes)
    }

    /// What is held of one kind.
    pub fn held(&self, kind: MemoryKind) -> Returned {
        let (flow, context, end) =
            (self.flow(kind), self.with_context[kind as usize], self.reclaimed[kind as usize]);
        Returned {
            allocations: flow
                .allocations
                .saturating_sub(flow.frees)
                .saturating_sub(context.allocations)
                .saturating_sub(end.allocations),
            bytes: flow
                .allocated_bytes
                .saturating_sub(flow.freed_bytes)
                .saturating_sub(context.bytes)
                .saturating_sub(end.bytes),
        }
    }

    /// What is held on the device for certain: managed memory may reside elsewhere, pinned host memory does.
    pub fn held_on_device_bytes(&self) -> u64 {
        [MemoryKind::Device, MemoryKind::Pool, MemoryKind::Virtual, MemoryKind::Array]
            .into_iter()
            .fold(0, |sum, kind| sum.saturating_add(self.held(kind).bytes))
    }

    /// Records that the process is gone: what it held, the driver has taken back.
    pub fn reclaim_all(&mut self) {
        for kind in MemoryKind::ALL {
            let held = self.held(kind);
            self.reclaimed[kind as usize].add(held);
        }
    }
}

impl Returned {
    fn add(&mut self, more: Self) {
        self.allocations = self.allocations.saturating_add(more.allocations);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }

    fn subtract(&mut self, less: Self) {
        self.allocations = self.allocations.saturating_sub(less.allocations);
        self.bytes = self.bytes.saturating_sub(less.bytes);
    }
}

/// Counters as the list of their words, whatever the structure is called inside.
mod counter_words {
    use gpu_ebpf::abi::Counters;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(counters: &Counters, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(counters.words())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Counters, D::Error> {
        let words = Vec::<u64>::deserialize(deserializer)?;
        words.try_into().map(Counters::from_words).map_err(|words: Vec<u64>| {
            D::Error::custom(format!("expected {} counters, found {}", Counters::WORDS, words.len()))
        })
    }
}

/// Errors as a list: JSON keys are text.
mod error_list {
    use std::collections::BTreeMap;

    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::ErrorKind;

    pub(super) fn serialize<S: Serializer>(
        errors: &BTreeMap<ErrorKind, u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(errors)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<ErrorKind, u64>, D::Error> {
        Ok(Vec::<(ErrorKind, u64)>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Totals {
        let mut totals = Totals::default();
        totals.counters.launch.calls = 3;
        totals.counters.memory[MemoryKind::Device as usize] =
            MemoryFlow { allocations: 4, allocated_bytes: 400, frees: 1, freed_bytes: 100 };
        totals.with_context[MemoryKind::Device as usize] = Returned { allocations: 1, bytes: 50 };
        totals.errors.insert((5, 2), 7);
        totals
    }

    #[test]
    fn held_is_what_was_neither_freed_nor_returned() {
        let mut totals = sample();
        assert_eq!(totals.held(MemoryKind::Device), Returned { allocations: 2, bytes: 250 });
        assert_eq!(totals.freed_bytes(MemoryKind::Device), 150);
        totals.reclaim_all();
        assert_eq!(totals.held(MemoryKind::Device), Returned::default());
        assert_eq!(totals.reclaimed[MemoryKind::Device as usize], Returned { allocations: 2, bytes: 250 });
        assert_eq!(totals.freed_bytes(MemoryKind::Device), 150, "reclaimed is not freed");
    }

    #[test]
    fn adding_and_subtracting_are_inverse() {
        let mut sum = sample();
        sum.add(&sample());
        assert_eq!(sum.counters.launch.calls, 6);
        assert_eq!(sum.errors[&(5, 2)], 14);
        assert_eq!(sum.since(&sample()), sample());
    }

    #[test]
    fn totals_survive_being_stored() {
        let text = serde_json::to_string(&sample()).unwrap();
        assert_eq!(serde_json::from_str::<Totals>(&text).unwrap(), sample());
        let short = text.replacen("\"counters\":[3,", "\"counters\":[", 1);
        let error = serde_json::from_str::<Totals>(&short).unwrap_err().to_string();
        assert!(error.contains("expected 94 counters, found 93"), "{error}");
    }
}
