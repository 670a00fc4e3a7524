//! Decides which GPU a context's calls count for: what the rules say, checked against NVML's process lists.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use thiserror::Error;

/// What is known about one context.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// UUIDs that the process's ordinals stand for by [`super::visible_devices`]; `None` where that is not
    /// knowable.
    pub visible: Option<&'a [String]>,
    /// The context's device ordinal; `None` for a context whose creation was not seen.
    pub ordinal: Option<u32>,
    /// When the context was first seen.
    pub since: Instant,
    /// NVML's newest answer about the process; `None` without NVML or before its first sample.
    pub nvml: Option<NvmlSample<'a>>,
}

/// On which GPUs NVML lists the process.
#[derive(Clone, Copy, Debug)]
pub struct NvmlSample<'a> {
    /// UUIDs; of the MIG devices where MIG is on.
    pub gpus: &'a BTreeSet<String>,
    /// When the lists were read.
    pub sampled_at: Instant,
}

/// Which GPU it is, and how certain that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment<'a> {
    /// NVML lists the process on this GPU, and nothing speaks for another one.
    Confirmed(&'a str),
    /// The rules name this GPU; NVML does not know the process yet.
    Inferred(&'a str),
    /// It cannot be told, and is not guessed.
    Unknown(UnknownGpu),
}

/// Why a GPU cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnknownGpu {
    /// The context's creation was not seen, and the process may use several GPUs.
    #[error("the context's creation was not seen, and the process may use several GPUs")]
    UntrackedContext,
    /// The process's environment does not determine what its ordinals stand for.
    #[error("the process's environment does not determine its GPUs")]
    NotKnowable,
    /// The ordinal is higher than the rules allow, so they do not hold for this process.
    #[error("the process uses a device ordinal that its environment does not allow")]
    OrdinalOutOfRange,
    /// NVML lists the process on other GPUs than the rules name.
    #[error("NVML lists the process on other GPUs than its environment names")]
    Contradicted,
}

impl UnknownGpu {
    /// The reason as a label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UntrackedContext => "untracked_context",
            Self::NotKnowable => "not_knowable",
            Self::OrdinalOutOfRange => "ordinal_out_of_range",
            Self::Contradicted => "contradicted",
        }
    }
}

/// Decides. `lag` is how long the driver's process list may be behind: a list read earlier than that after the
/// context was first seen proves nothing against a GPU that is missing in it.
pub fn assign<'a>(evidence: &Evidence<'a>, lag: Duration) -> Assignment<'a> {
    let rule = by_rule(evidence);
    let Some(nvml) = evidence.nvml else { return unconfirmed(rule) };
    if let Ok(uuid) = rule
        && nvml.gpus.contains(uuid)
    {
        return Assignment::Confirmed(uuid);
    }
    let is_current = evidence.since.checked_add(lag).is_some_and(|settled| nvml.sampled_at >= settled);
    let mut gpus = nvml.gpus.iter();
    match (is_current, gpus.next(), gpus.next()) {
        // NVML lists no process that it cannot see, for instance behind MPS, so an empty list proves nothing.
        (false, ..) | (true, None, _) => unconfirmed(rule),
        (true, Some(only), None) => Assignment::Confirmed(only),
        (true, Some(_), Some(_)) => match rule {
            Ok(_) => Assignment::Unknown(UnknownGpu::Contradicted),
            Err(reason) => Assignment::Unknown(reason),
        },
    }
}

fn unconfirmed(rule: Result<&str, UnknownGpu>) -> Assignment<'_> {
    rule.map_or_else(Assignment::Unknown, Assignment::Inferred)
}

/// The GPU of the context's ordinal, or the only visible one.
fn by_rule<'a>(evidence: &Evidence<'a>) -> Result<&'a str, UnknownGpu> {
    match (evidence.visible, evidence.ordinal) {
        (Some([only]), None) => Ok(only),
        (_, None) => Err(UnknownGpu::UntrackedContext),
        (None, Some(_)) => Err(UnknownGpu::NotKnowable),
        (Some(visible), Some(ordinal)) => usize::try_from(ordinal)
            .ok()
            .and_then(|ordinal| visible.get(ordinal))
            .map(String::as_str)
            .ok_or(UnknownGpu::OrdinalOutOfRange),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Assignment::{Confirmed, Inferred, Unknown},
        UnknownGpu::{Contradicted, NotKnowable, OrdinalOutOfRange, UntrackedContext},
        *,
    };

    const LAG: Duration = Duration::from_secs(2);

    /// What is visible, the ordinal, the seconds after the context at which NVML was read, and its list.
    type Case = (
        Option<&'static [&'static str]>,
        Option<u32>,
        Option<(u64, &'static [&'static str])>,
        Assignment<'static>,
    );

    #[test]
    fn every_combination_has_its_answer() {
        const FRESH: u64 = 2;
        const STALE: u64 = 1;
        let cases: &[Case] = &[
            // No NVML.
            (Some(&["a", "b"]), Some(1), None, Inferred("b")),
            (Some(&["a"]), None, None, Inferred("a")),
            (Some(&["a", "b"]), None, None, Unknown(UntrackedContext)),
            (Some(&["a", "b"]), Some(2), None, Unknown(OrdinalOutOfRange)),
            (Some(&[]), None, None, Unknown(UntrackedContext)),
            (None, Some(0), None, Unknown(NotKnowable)),
            (None, None, None, Unknown(UntrackedContext)),
            // NVML lists one GPU.
            (Some(&["a", "b"]), Some(1), Some((FRESH, &["b"])), Confirmed("b")),
            (Some(&["a", "b"]), Some(1), Some((FRESH, &["a"])), Confirmed("a")),
            (Some(&["a", "b"]), None, Some((FRESH, &["a"])), Confirmed("a")),
            (None, Some(0), Some((FRESH, &["c"])), Confirmed("c")),
            (None, None, Some((FRESH, &["c"])), Confirmed("c")),
            // NVML lists several.
            (Some(&["a", "b"]), Some(1), Some((FRESH, &["a", "b"])), Confirmed("b")),
            (Some(&["a", "b"]), Some(1), Some((FRESH, &["a", "c"])), Unknown(Contradicted)),
            (Some(&["a", "b"]), None, Some((FRESH, &["a", "b"])), Unknown(UntrackedContext)),
            (Some(&["a", "b"]), Some(7), Some((FRESH, &["a", "b"])), Unknown(OrdinalOutOfRange)),
            (None, Some(0), Some((FRESH, &["a", "b"])), Unknown(NotKnowable)),
            // NVML lists nothing.
            (Some(&["a", "b"]), Some(1), Some((FRESH, &[])), Inferred("b")),
            (None, Some(0), Some((FRESH, &[])), Unknown(NotKnowable)),
            // NVML was read too early to prove an absence, though not a presence.
            (Some(&["a", "b"]), Some(1), Some((STALE, &["a"])), Inferred("b")),
            (Some(&["a", "b"]), Some(1), Some((STALE, &["a", "b"])), Confirmed("b")),
            (Some(&["a", "b"]), None, Some((STALE, &["a"])), Unknown(UntrackedContext)),
            (None, Some(0), Some((STALE, &["a"])), Unknown(NotKnowable)),
        ];
        let since = Instant::now();
        for (visible, ordinal, nvml, expected) in cases {
            let visible: Option<Vec<String>> =
                visible.map(|uuids| uuids.iter().map(ToString::to_string).collect());
            let gpus: Option<(u64, BTreeSet<String>)> =
                nvml.map(|(after, uuids)| (after, uuids.iter().map(ToString::to_string).collect()));
            let nvml = gpus
                .as_ref()
                .map(|(after, gpus)| NvmlSample { gpus, sampled_at: since + Duration::from_secs(*after) });
            let evidence = Evidence { visible: visible.as_deref(), ordinal: *ordinal, since, nvml };
            assert_eq!(assign(&evidence, LAG), *expected, "{evidence:?}");
        }
    }
}
