//! What the agent reports equals what the workloads logged, exactly.

use anyhow::Result;
use node_tests::{
    agree::agree,
    cgroup::Cgroup,
    compare::Lives,
    node::Node,
    workload::{Plan, Workload},
};

#[test]
fn four_processes_in_three_cgroups_on_two_gpus_are_counted_exactly() -> Result<()> {
    let node = Node::start(&[])?;
    let (first, second, third) = (Cgroup::make("first")?, Cgroup::make("second")?, Cgroup::make("third")?);
    let start = |cgroup, plan| node.run(cgroup, &plan);

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
            &[
                "--iterations",
                "150",
                "--seed",
                "3",
                "--threads",
                "4",
                "--per-thread-streams",
                "--device",
                "1",
            ],
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
        assert!(truth.gpus.values().any(|gpu| !gpu.errors.is_empty()));
    }
    let tenants =
        [(&first, vec![&plain]), (&second, vec![&reordered]), (&third, vec![&threaded, &by_address])];
    agree(&node.agent, &tenants, Lives::Ended)?;
    node.stop()
}

#[test]
fn every_other_workload_is_counted_exactly() -> Result<()> {
    let node = Node::start(&[])?;
    let kinds: &[(&str, &[&str])] = &[
        ("train", &["--iterations", "3"]),
        ("infer", &["--iterations", "20", "--rate", "200"]),
        ("saturate", &["--iterations", "2000"]),
        ("flood", &["--iterations", "3000", "--threads", "3"]),
        ("alloc-loop", &["--iterations", "200", "--threads", "3"]),
        ("copy", &["--iterations", "50"]),
        ("graph", &["--iterations", "20"]),
        ("leak", &["--limit-bytes", "67108864"]),
        ("fork", &[]),
        ("crash", &["--limit-bytes", "67108864"]),
    ];
    let cgroups: Vec<Cgroup> = kinds.iter().map(|(kind, _)| Cgroup::make(kind)).collect::<Result<_>>()?;
    let running: Vec<Workload> = kinds
        .iter()
        .zip(&cgroups)
        .map(|((kind, arguments), cgroup)| node.run(cgroup, &Plan::new(kind, arguments)))
        .collect::<Result<_>>()?;
    let mut truths = Vec::new();
    for ((kind, _), workload) in kinds.iter().zip(running) {
        // The child of `fork` keeps a log of its own.
        let (status, family) = workload.finish_family()?;
        assert_eq!(status.success(), *kind != "crash", "{kind} ends with {status}");
        assert_eq!(family.len(), if *kind == "fork" { 2 } else { 1 }, "logs of {kind}");
        truths.push(family);
    }
    let tenants: Vec<_> =
        cgroups.iter().zip(&truths).map(|(cgroup, family)| (cgroup, family.iter().collect())).collect();
    agree(&node.agent, &tenants, Lives::Ended)?;
    node.stop()
}

#[test]
fn what_is_held_is_said_while_it_is_held() -> Result<()> {
    let node = Node::start(&[])?;
    let cgroup = Cgroup::make("holder")?;
    let inner = cgroup.child("nested")?;
    let plan =
        Plan { gates: &["exit"], ..Plan::new("leak", &["--limit-bytes", "100000000", "--device", "1"]) };
    let mut holder = node.run(&inner, &plan)?;
    holder.reaches("worked")?;
    let truth = holder.truth()?;
    let held: u64 =
        truth.gpus.values().flat_map(|gpu| gpu.memory.values()).map(|memory| memory.held_bytes).sum();
    assert!(held > 90_000_000, "the workload holds {held} bytes");
    let metrics = agree(&node.agent, &[(&inner, vec![&truth])], Lives::Running)?;
    let tenant = [("gpu_tenant_name", inner.name())];
    let charged = metrics.sum("gpu_tenant_memory_footprint_bytes", &tenant);
    assert!(charged.is_some_and(|charged| charged >= 90_000_000.0), "the driver charges {charged:?}");
    assert_eq!(metrics.sum("gpu_tenant_processes", &tenant), Some(1.0));

    holder.allow("exit")?;
    let (_, truth) = holder.finish()?;
    agree(&node.agent, &[(&inner, vec![&truth])], Lives::Ended)?;
    node.stop()
}

#[test]
fn a_context_through_private_functions_is_unknown_and_not_guessed() -> Result<()> {
    let node = Node::start(&[])?;
    let cgroup = Cgroup::make("private")?;
    let plan = Plan::new("export-table", &["--iterations", "50", "--device", "0", "--device", "1"]);
    let (_, truth) = node.run(&cgroup, &plan)?.finish()?;
    let launches: u64 = truth.gpus.values().map(|gpu| gpu.launches).sum();
    assert!(launches > 0);
    let tenant = [("gpu_tenant_name", cgroup.name())];
    node_tests::wait::until("launches on no known GPU", || {
        let metrics = node.agent.metrics()?;
        let all = metrics.sum("gpu_tenant_launches_total", &tenant);
        let unknown = metrics.sum("gpu_tenant_launches_total", &[tenant[0], ("hw_id", "unknown")]);
        #[expect(clippy::cast_precision_loss, reason = "counts below 2^53 are exact")]
        let expected = Some(launches as f64);
        Ok((all == expected && unknown == expected).then_some(()))
    })?;
    node.stop()
}
