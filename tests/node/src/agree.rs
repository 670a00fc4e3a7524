//! Waiting until the agent agrees with the logs.

use anyhow::{Result, bail};
use gpu_sim::truth::Truth;

use crate::{
    agent::Agent,
    cgroup::Cgroup,
    compare::{self, Lives, Row},
    metrics::Metrics,
    wait,
};

/// Waits until what the agent reports equals what the logs say, number by number, and that nothing was lost.
///
/// # Errors
/// Names every number that differs, or every loss.
pub fn agree(agent: &Agent, tenants: &[(&Cgroup, Vec<&Truth>)], lives: Lives) -> Result<Metrics> {
    nothing_lost(agree_with_losses(agent, tenants, lives)?)
}

/// The same where a loss is expected, such as calls that were under way when probes were attached.
///
/// # Errors
/// Names every number that differs.
pub fn agree_with_losses(agent: &Agent, tenants: &[(&Cgroup, Vec<&Truth>)], lives: Lives) -> Result<Metrics> {
    until_equal("the agent", tenants, lives, || agent.metrics())
}

/// The same for somebody who has the agent's metrics at second hand.
///
/// # Errors
/// Names every number that differs, or every loss; whatever `ask` fails with.
pub fn agree_at_second_hand(
    who: &str,
    tenants: &[(&Cgroup, Vec<&Truth>)],
    lives: Lives,
    ask: impl FnMut() -> Result<Metrics>,
) -> Result<Metrics> {
    nothing_lost(until_equal(who, tenants, lives, ask)?)
}

fn nothing_lost(metrics: Metrics) -> Result<Metrics> {
    let losses = compare::losses(&metrics);
    if !losses.is_empty() {
        bail!("the numbers agree, but the agent says that it lost something: {losses:?}");
    }
    Ok(metrics)
}

fn until_equal(
    who: &str,
    tenants: &[(&Cgroup, Vec<&Truth>)],
    lives: Lives,
    mut ask: impl FnMut() -> Result<Metrics>,
) -> Result<Metrics> {
    let mut last: Vec<Row> = Vec::new();
    let agreed = wait::until("agreement", || {
        let metrics = ask()?;
        last = tenants
            .iter()
            .flat_map(|(cgroup, truths)| compare::tenant(&metrics, cgroup.name(), truths, lives))
            .collect();
        Ok(compare::mismatches(&last).is_empty().then_some(metrics))
    });
    agreed.or_else(|error| {
        let rows: Vec<String> = compare::mismatches(&last).iter().map(ToString::to_string).collect();
        bail!("{error:#}; {who} and the logs differ:\n{}", rows.join("\n"))
    })
}
