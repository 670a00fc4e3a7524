//! What the agent reports equals what the workloads logged, exactly.

use std::collections::BTreeMap;

use anyhow::Result;
use gpu_sim::truth::Truth;
use node_tests::{
    agent::{Agent, Site},
    binaries::Binaries,
    cgroup::Cgroup,
    compare::{self, Lives, Row},
    machine::Machine,
    metrics::Metrics,
    wait,
    workload::{Plan, Workload},
};

/// Waits until the agent agrees with the logs, or says what it does not agree on.
fn agree(agent: &Agent, tenants: &[(&Cgroup, Vec<&Truth>)], lives: Lives) -> Result<Metrics> {
    let mut last: (Metrics, Vec<Row>) = Default::default();
    let agreed = wait::until("agreement", || {
        let metrics = agent.metrics()?;
        let rows: Vec<Row> = tenants
            .iter()
            .flat_map(|(cgroup, truths)| compare::tenant(&metrics, cgroup.name(), truths, lives))
            .collect();
        let agrees = compare::mismatches(&rows).is_empty();
        last = (metrics, rows);
        Ok(agrees.then_some(()))
    });
    let (metrics, rows) = last;
    if agreed.is_err() {
        let rows: Vec<String> = compare::mismatches(&rows).iter().map(ToString::to_string).collect();
        panic!("the agent and the logs differ:\n{}", rows.join("\n"));
    }
    assert_eq!(compare::losses(&metrics), BTreeMap::new());
    Ok(metrics)
}

#[test]
fn four_processes_in_three_cgroups_on_two_gpus_are_counted_exactly() -> Result<()> {
    let binaries = Binaries::find()?;
    let machine = Machine::start(&binaries, "2xA10")?;
    let site = Site::new()?;
    let libcuda = machine.libcuda();
    let agent =
        Agent::start(&binaries, &site, &machine, &["--probe-library-paths", &libcuda.to_string_lossy()])?;
    let (first, second, third) = (Cgroup::make("first")?, Cgroup::make("second")?, Cgroup::make("third")?);
    let start = |cgroup, plan| Workload::start(&binaries, &machine, Some(cgroup), &plan);

    let plain = start(&first, Plan::new("mixed", &["--iterations", "400", "--seed", "1"]))?;
    let reordered = start(
        &second,
        Plan {
            visible_devices: Some("1,0"),
            ..Plan::new("mixed", &["--iterations", "400", "--seed", "2", "--device", "0", "--device", "1"])
        },
    )?;
    let threaded = start(
        &third,
        Plan::new(
            "mixed",
            &["--iterations", "150", "--seed", "3", "--threads", "1", "--per-thread-streams", "--device", "1"],
        ),
    )?;
    let by_address = start(
        &third,
        Plan::new("mixed", &["--iterations", "400", "--seed", "4", "--via", "get-proc-address"]),
    )?;

    let plain = plain.finish()?.1;
    let reordered = reordered.finish()?.1;
    let threaded = threaded.finish()?.1;
    let by_address = by_address.finish()?.1;
    for truth in [&plain, &reordered, &threaded, &by_address] {
        assert!(truth.complete);
        assert!(truth.gpus.values().any(|gpu| gpu.launches > 0 && gpu.graph_launches > 0));
    }
    let tenants =
        [(&first, vec![&plain]), (&second, vec![&reordered]), (&third, vec![&threaded, &by_address])];
    agree(&agent, &tenants, Lives::Ended)?;
    agent.stop()
}
