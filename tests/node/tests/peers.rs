//! Real peers get from the agent what the workloads logged, exactly.

use anyhow::Result;
use gpu_sim::truth::Truth;
use node_tests::{
    agent::{Agent, Site},
    agree::agree_at_second_hand,
    binaries::Binaries,
    cgroup::Cgroup,
    compare::Lives,
    machine::Machine,
    metrics::Metrics,
    peers::{
        self, Peer,
        otlp_relay::OtlpRelay,
        prometheus::Prometheus,
        promtool::{self, Verdict},
        rotel::Rotel,
    },
    wait,
    workload::{Plan, Workload},
};

/// A node with an agent and nothing running.
struct Node {
    binaries: Binaries,
    machine: Machine,
    _site: Site,
    agent: Agent,
}

impl Node {
    fn start(arguments: &[&str]) -> Result<Self> {
        let binaries = Binaries::find()?;
        let machine = Machine::start(&binaries, "2xA10")?;
        let site = Site::new()?;
        let libcuda = machine.libcuda();
        let probed = ["--probe-library-paths", &libcuda.to_string_lossy()];
        let agent = Agent::start(&binaries, &site, &machine, &[&probed, arguments].concat())?;
        Ok(Self { binaries, machine, _site: site, agent })
    }

    fn workload(&self, cgroup: &Cgroup, plan: &Plan<'_>) -> Result<Workload> {
        Workload::start(&self.binaries, &self.machine, Some(cgroup), plan)
    }

    /// A tenant that has used both GPUs, and met errors, until its process ended.
    fn finished(&self, name: &str, seed: &str) -> Result<Tenant> {
        let cgroup = Cgroup::make(name)?;
        let arguments = ["--iterations", "150", "--seed", seed, "--device", "0", "--device", "1"];
        let (status, truth) = self.workload(&cgroup, &Plan::new("mixed", &arguments))?.finish()?;
        assert!(status.success(), "{status}");
        assert!(truth.complete);
        assert_eq!(truth.gpus.len(), 2);
        assert!(truth.gpus.values().all(|gpu| gpu.launches > 0 && !gpu.copies.is_empty()));
        assert!(truth.gpus.values().any(|gpu| !gpu.errors.is_empty()));
        Ok(Tenant { cgroup, truth })
    }
}

/// A tenant whose processes have ended, and what they logged.
struct Tenant {
    cgroup: Cgroup,
    truth: Truth,
}

/// Waits until somebody who has the agent's metrics agrees with the logs.
fn agree(who: &str, tenants: &[&Tenant], ask: impl FnMut() -> Result<Metrics>) -> Result<Metrics> {
    let tenants: Vec<_> = tenants.iter().map(|tenant| (&tenant.cgroup, vec![&tenant.truth])).collect();
    agree_at_second_hand(who, &tenants, Lives::Ended, ask)
}

/// What a push by the agent said last.
fn latest(rotel: &Rotel) -> Result<Metrics> {
    Ok(rotel.pushes()?.pop().unwrap_or_default())
}

const SCRAPED: &str = r#"{__name__=~"(gpu|hw)_.+",job="scraped"}"#;
const PUSHED: &str = r#"{__name__=~"(gpu|hw)_.+",service_name="gpu-agent"}"#;

#[test]
fn promtool_objects_to_nothing_while_tenants_are_busy() -> Result<()> {
    let Some([promtool]) = peers::find([Peer::Promtool])? else { return Ok(()) };
    let node = Node::start(&[])?;
    let ended = node.finished("ended", "1")?;
    agree("the agent", &[&ended], || node.agent.metrics())?;
    let busy = Cgroup::make("busy")?;
    let plan = Plan { gates: &["exit"], ..Plan::new("mixed", &["--iterations", "200", "--seed", "2"]) };
    let mut workload = node.workload(&busy, &plan)?;
    workload.reaches("worked")?;
    let exposition = wait::until("series of the busy tenant", || {
        let text = node.agent.scrape()?;
        Ok(text.contains(busy.name()).then_some(text))
    })?;
    assert_eq!(promtool::check(&promtool, &exposition)?, Verdict { code: Some(0), output: String::new() });
    workload.allow("exit")?;
    workload.finish()?;
    node.agent.stop()
}

#[test]
fn prometheus_has_what_was_logged_by_scraping_and_by_otlp() -> Result<()> {
    let Some([prometheus, relay]) = peers::find([Peer::Prometheus, Peer::OtlpRelay])? else { return Ok(()) };
    let prometheus = Prometheus::start(&prometheus)?;
    let relay = OtlpRelay::start(&relay, &prometheus)?;
    let node = Node::start(&[
        "--otlp-endpoint",
        &relay.endpoint(),
        "--otlp-protocol",
        "http",
        "--otlp-interval",
        "1s",
    ])?;
    prometheus.scrape("scraped", node.agent.address())?;
    let (first, second) = (node.finished("first", "1")?, node.finished("second", "2")?);
    let tenants = [&first, &second];
    agree("the agent", &tenants, || node.agent.metrics())?;
    let scraped = agree("Prometheus' scrape", &tenants, || prometheus.query(SCRAPED))?;
    let pushed = agree("Prometheus by OTLP", &tenants, || prometheus.query(PUSHED))?;
    // The relay calls every number of unit 1 a ratio, Prometheus itself only gauges.
    let names = |metrics: &Metrics| -> Vec<String> {
        metrics.names().map(|name| name.trim_end_matches("_ratio").to_owned()).collect()
    };
    assert_eq!(names(&scraped), names(&pushed));
    node.agent.stop()
}

#[test]
fn rotel_gets_what_was_logged_over_grpc() -> Result<()> {
    let Some([rotel]) = peers::find([Peer::Rotel])? else { return Ok(()) };
    let rotel = Rotel::start(&rotel)?;
    rotel_agrees(&rotel, "grpc", &rotel.grpc_endpoint())
}

#[test]
fn rotel_gets_what_was_logged_over_http() -> Result<()> {
    let Some([rotel]) = peers::find([Peer::Rotel])? else { return Ok(()) };
    let rotel = Rotel::start(&rotel)?;
    rotel_agrees(&rotel, "http", &rotel.http_endpoint())
}

fn rotel_agrees(rotel: &Rotel, protocol: &str, endpoint: &str) -> Result<()> {
    let node =
        Node::start(&["--otlp-endpoint", endpoint, "--otlp-protocol", protocol, "--otlp-interval", "1s"])?;
    let (first, second) = (node.finished("first", "1")?, node.finished("second", "2")?);
    let tenants = [&first, &second];
    agree("the agent", &tenants, || node.agent.metrics())?;
    let pushed = agree("rotel", &tenants, || latest(rotel))?;
    assert_eq!(pushed.sum("gpu_agent_otlp_points_dropped_total", &[]), Some(0.0));
    node.agent.stop()
}

#[test]
fn the_series_of_an_ended_tenant_end_at_every_peer() -> Result<()> {
    let Some([prometheus, rotel]) = peers::find([Peer::Prometheus, Peer::Rotel])? else { return Ok(()) };
    let prometheus = Prometheus::start(&prometheus)?;
    let rotel = Rotel::start(&rotel)?;
    let node = Node::start(&[
        "--metrics-ended-retention",
        "2s",
        "--otlp-endpoint",
        &rotel.grpc_endpoint(),
        "--otlp-interval",
        "1s",
    ])?;
    prometheus.scrape("scraped", node.agent.address())?;
    let (staying, ending) = (node.finished("staying", "1")?, node.finished("ending", "2")?);
    let tenants = [&staying, &ending];
    agree("Prometheus' scrape", &tenants, || prometheus.query(SCRAPED))?;
    agree("rotel", &tenants, || latest(&rotel))?;

    // The agent keeps the series of a tenant whose cgroup is still there.
    let Tenant { cgroup, truth: _ } = ending;
    let (gone, stays) = (cgroup.name().to_owned(), staying.cgroup.name());
    drop(cgroup);
    let only_staying_is_in = |metrics: &Metrics| {
        metrics.mention("gpu_tenant_name", stays) && !metrics.mention("gpu_tenant_name", &gone)
    };
    wait::until("end of the tenant's series in the agent", || {
        Ok(only_staying_is_in(&node.agent.metrics()?).then_some(()))
    })?;

    // Prometheus would repeat the last value for five minutes had the series not been marked as ended.
    wait::until("end of the tenant's series in Prometheus", || {
        Ok(only_staying_is_in(&prometheus.query(SCRAPED)?).then_some(()))
    })?;
    let history = format!(r#"last_over_time(gpu_tenant_launches_total{{gpu_tenant_name="{gone}"}}[5m])"#);
    assert!(prometheus.query(&history)?.mention("gpu_tenant_name", &gone));

    // One push may have been under way when the agent was asked.
    let before = rotel.pushes()?.len();
    let later = wait::until("pushes after the end", || {
        let mut pushes = rotel.pushes()?;
        Ok((pushes.len() >= before + 4).then(|| pushes.split_off(before + 2)))
    })?;
    assert_eq!(later.iter().map(only_staying_is_in).collect::<Vec<_>>(), vec![true; later.len()]);
    node.agent.stop()
}
