//! Every fallback is as exact as what it stands in for.

use anyhow::Result;
use node_tests::{agree::agree, cgroup::Cgroup, compare::Lives, node::Node, wait, workload::Plan};

/// Runs two workloads under an agent that must do without a feature.
fn without(feature: &str) -> Result<()> {
    let node = Node::start(&["--disable", feature])?;
    let cgroup = Cgroup::make("tenant")?;
    let plan = Plan::new("mixed", &["--iterations", "150", "--device", "1"]);
    let first = node.run(&cgroup, &plan)?;
    let plan = Plan::new("leak", &["--limit-bytes", "20000000", "--device", "1"]);
    let second = node.run(&cgroup, &plan)?;
    let (first, second) = (first.finish()?.1, second.finish()?.1);
    agree(&node.agent, &[(&cgroup, vec![&first, &second])], Lives::Ended)?;
    node.stop()
}

#[test]
fn perf_event_uprobes_count_exactly() -> Result<()> {
    without("uprobe-multi")
}

#[test]
fn reading_maps_one_by_one_counts_exactly() -> Result<()> {
    without("batch-read")
}

#[test]
fn process_ends_that_nobody_reports_are_found() -> Result<()> {
    without("tracepoints")
}

#[test]
#[expect(clippy::float_cmp, reason = "counts below 2^53 are exact")]
fn without_nvml_the_environment_names_the_gpu_or_nobody_does() -> Result<()> {
    let node = Node::start(&["--disable", "nvml"])?;
    let cgroup = Cgroup::make("tenant")?;
    let plan = Plan::new("train", &["--iterations", "2", "--device", "1"]);
    let (_, truth) = node.run(&cgroup, &plan)?.finish()?;
    let launches: u64 = truth.gpus.values().map(|gpu| gpu.launches).sum();
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53 are exact")]
    let launches = launches as f64;
    wait::until("launches on no known GPU", || {
        let labels = [("gpu_tenant_name", cgroup.name()), ("hw_id", "unknown")];
        Ok(node.agent.metrics()?.sum("gpu_tenant_launches_total", &labels).filter(|seen| *seen == launches))
    })?;
    node.stop()
}

#[test]
fn without_bpf_the_devices_are_still_watched() -> Result<()> {
    let node = Node::start(&["--disable", "bpf"])?;
    let cgroup = Cgroup::make("tenant")?;
    let plan = Plan { gates: &["exit"], ..Plan::new("leak", &["--limit-bytes", "50000000"]) };
    let mut workload = node.run(&cgroup, &plan)?;
    workload.reaches("worked")?;
    wait::until("the driver's word on the tenant", || {
        let labels = [("gpu_tenant_name", cgroup.name())];
        let charged = node.agent.metrics()?.sum("gpu_tenant_memory_footprint_bytes", &labels);
        Ok(charged.filter(|charged| *charged >= 50_000_000.0))
    })?;
    let metrics = node.agent.metrics()?;
    assert_eq!(metrics.series("gpu_tenant_launches_total"), [], "no call is seen, and none is claimed");
    assert_eq!(metrics.series("hw_gpu_memory_usage_bytes").len(), 2);
    assert_eq!(node.agent.status()?["probes"], serde_json::Value::Null);
    workload.allow("exit")?;
    workload.finish()?;
    node.stop()
}
