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
    let metrics = agree_with_losses(agent, tenants, lives)?;
    let losses = compare::losses(&metrics);
    if !losses.is_empty() {
        bail!("the numbers agree, but the agent says that it lost something: {losses:?}");
    }
    Ok(metrics)
}

/// The same where a loss is expected, such as calls that were under way when probes were attached.
///
/// # Errors
/// Names every number that differs.
pub fn agree_with_losses(agent: &Agent, tenants: &[(&Cgroup, Vec<&Truth>)], lives: Lives) -> Result<Metrics> {
    let mut last: Vec<Row> = Vec::new();
    let agreed = wait::until("agreement", || {
        let metrics = agent.metrics()?;
        last = tenants
            .iter()
            .flat_map(|(cgroup, truths)| compare::tenant(&metrics, cgroup.name(), truths, lives))
            .collect();
        Ok(compare::mismatches(&last).is_empty().then_some(metrics))
    });
    agreed.or_else(|error| {
        let rows: Vec<String> = compare::mismatches(&last).iter().map(ToString::to_string).collect();
        bail!("{error:#}; the agent and the logs differ:\n{}", rows.join("\n"))
    })
}
