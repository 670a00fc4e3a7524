//! What the configuration accepts, refuses and says.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use clap::Parser;
use proptest::prelude::{Strategy, proptest};

use super::*;

/// A command that takes the flags, as the agent's own do.
#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    flags: Flags,
}

fn flags(arguments: &[&str]) -> Flags {
    Command::try_parse_from([&["gpu-agent"], arguments].concat()).expect("flags parse").flags
}

fn file(text: &str) -> ConfigFile {
    ConfigFile { path: PathBuf::from("agent.toml"), text: text.to_owned() }
}

fn load_file(text: &str) -> Result<Loaded, ConfigErrors> {
    load(&Flags::default(), |_| None, Some(&file(text)))
}

fn messages(text: &str) -> Vec<String> {
    load_file(text).err().map_or_else(Vec::new, |errors| errors.iter().map(ToString::to_string).collect())
}

fn load_environment(variables: &[(&str, &str)]) -> Result<Loaded, ConfigErrors> {
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    load(&Flags::default(), |name| variables.get(name).map(|value| (*value).to_owned()), None)
}

/// A value that each key accepts, in TOML and as a word, and one that it refuses.
const VALUES: &[(&str, &str, &str, &str)] = &[
    ("interval", r#""2s""#, "2s", r#""2""#),
    ("listen", r#""0.0.0.0:0""#, "0.0.0.0:0", r#""localhost""#),
    ("cgroup_root", r#""/mnt/cgroup""#, "/mnt/cgroup", r#""cgroup""#),
    ("proc_root", r#""/host/proc""#, "/host/proc", r#""/host/../proc""#),
    ("bpffs", r#""/bpf""#, "/bpf", "1"),
    ("state_dir", r#""/var/lib/gpu-agent""#, "/var/lib/gpu-agent", r#""./state""#),
    ("disable", r#"["bpf", "nvml"]"#, "bpf,nvml", r#"["warp"]"#),
    ("nvml.library", r#""libnvidia-ml.so.1""#, "libnvidia-ml.so.1", r#""lib/libnvidia-ml.so""#),
    ("nvml.deadline", r#""500ms""#, "500ms", r#""1ms""#),
    ("nvml.interval", r#""200ms""#, "200ms", r#""0s""#),
    ("probe.library_paths", r#"["/opt/libcuda.so.1"]"#, "/opt/libcuda.so.1", r#"["libcuda.so.1"]"#),
    ("probe.rescan_interval", r#""3s""#, "3s", r#""1d""#),
    ("probe.maps.threads", "4096", "4096", "-1"),
    ("probe.maps.processes", "4096", "4096", "63"),
    ("probe.maps.contexts", "4096", "4096", "16777217"),
    ("probe.maps.allocations", "0", "0", r#""many""#),
    ("probe.maps.counters", "4096", "4096", "1.5"),
    ("probe.maps.errors", "4096", "4096", "99999999999999999999"),
    ("probe.ring_bytes", r#""512KiB""#, "512KiB", r#""300KiB""#),
    ("otlp.endpoint", r#""https://[::1]:4317""#, "https://[::1]:4317", r#""collector:4317""#),
    ("otlp.protocol", r#""http""#, "http", r#""HTTP""#),
    ("otlp.headers", r#"{ x-token = "a" }"#, "x-token=a", r#"{ "x token" = "a" }"#),
    ("otlp.tls.ca_file", r#""/ca.pem""#, "/ca.pem", r#""ca.pem""#),
    ("otlp.tls.cert_file", r#""/cert.pem""#, "/cert.pem", "true"),
    ("otlp.tls.key_file", r#""/key.pem""#, "/key.pem", "[]"),
    ("otlp.gzip", "false", "false", r#""false""#),
    ("otlp.timeout", r#""3s""#, "3s", r#""3 s s""#),
    ("otlp.interval", r#""30s""#, "30s", r#""2h""#),
    ("otlp.queue_bytes", "65536", "65536", "0"),
    ("metrics.max_series_per_family", "500", "500", "15"),
    ("metrics.cgroup_path_label", "true", "true", r#""yes""#),
    ("metrics.ended_retention", r#""5m""#, "5m", r#""0s""#),
    ("log.level", r#""debug""#, "debug", r#""verbose""#),
    ("log.format", r#""json""#, "json", r#""xml""#),
    (
        "tenant",
        r#"[{ name = "a", match = { cgroup = "/a" } }]"#,
        "a=cgroup:/a",
        r#"[{ name = "a", match = {} }]"#,
    ),
];

/// What must be set too for the value to make sense.
fn companion(key: &str) -> &'static str {
    match key {
        "otlp.tls.cert_file" => "otlp.tls.key_file = \"/key.pem\"\n",
        "otlp.tls.key_file" => "otlp.tls.cert_file = \"/cert.pem\"\n",
        _ => "",
    }
}

#[test]
fn the_table_of_this_test_has_every_key() {
    let tested: Vec<&str> = VALUES.iter().map(|(key, ..)| *key).collect();
    let known: Vec<&str> = keys().iter().map(|key| key.name).collect();
    let sorted = |mut names: Vec<&'static str>| {
        names.sort_unstable();
        names
    };
    assert_eq!(sorted(tested), sorted(known));
}

#[test]
fn every_key_can_be_set_by_file_variable_and_flag_alike() {
    for (key, toml, word, _) in VALUES {
        let rest = companion(key);
        let by_file = load_file(&format!("{rest}{key} = {toml}")).expect(key);
        let info = keys().into_iter().find(|info| info.name == *key).expect("key is known");
        let env = |name: &str| (*name == info.variable).then(|| (*word).to_owned());
        let by_variable = load(&Flags::default(), env, Some(&file(rest))).expect(key);
        let flag = format!("{}={word}", info.flag);
        let by_flag = load(&flags(&[&flag]), |_| None, Some(&file(rest))).expect(key);

        let default = load_file(rest);
        if *key != "probe.maps.allocations" && rest.is_empty() {
            assert_ne!(by_file.config, default.expect("default is valid").config, "{key} has an effect");
        }
        assert_eq!(by_file.config, by_variable.config, "{key}");
        assert_eq!(by_file.config, by_flag.config, "{key}");
        let origin = |loaded: &Loaded| {
            loaded
                .settings
                .iter()
                .find(|setting| setting.key == *key)
                .map(|setting| setting.origin.to_string())
        };
        let line = rest.lines().count() + 1;
        let column = key.len() + 4;
        assert_eq!(origin(&by_file), Some(format!("agent.toml:{line}:{column}")), "{key}");
        assert_eq!(origin(&by_variable), Some(format!("environment variable {}", info.variable)));
        assert_eq!(origin(&by_flag), Some(format!("flag {}", info.flag)));
    }
}

#[test]
fn every_key_refuses_a_bad_value_and_names_itself() {
    for (key, _, _, bad) in VALUES {
        let rest = companion(key);
        let errors = load_file(&format!("{rest}{key} = {bad}")).expect_err(key);
        let line = rest.lines().count() + 1;
        let message = errors.to_string();
        assert!(message.starts_with(&format!("agent.toml:{line}:")), "{message}");
        assert!(message.contains(&format!("`{key}")), "{message}");
        assert!(message.contains("expected "), "{message}");
    }
}

#[test]
fn flags_go_before_variables_before_the_file_before_defaults() {
    let config = file("interval = \"2s\"\nnvml.interval = \"2s\"\notlp.timeout = \"2s\"");
    let env = |name: &str| {
        ["GPU_AGENT_INTERVAL", "GPU_AGENT_NVML_INTERVAL"].contains(&name).then(|| "3s".to_owned())
    };
    let Config { interval, nvml, otlp, probe, .. } =
        load(&flags(&["--interval", "4s"]), env, Some(&config)).expect("all are valid").config;
    let seconds = [interval, nvml.interval, otlp.timeout, probe.rescan_interval].map(|it| it.as_secs());
    assert_eq!(seconds, [4, 3, 2, 1]);
}

#[test]
fn an_empty_variable_counts_as_absent() {
    let loaded = load_environment(&[("GPU_AGENT_INTERVAL", ""), ("GPU_AGENT_DISABLE", "")]).expect("empty");
    assert_eq!(loaded.config, Config::default());
}

#[test]
fn list_flags_may_be_repeated_and_others_may_not() {
    let repeated =
        flags(&["--disable", "bpf", "--disable", "nvml,pinning", "--tenant=a=unit:a", "--tenant=b=unit:b"]);
    let config = load(&repeated, |_| None, None).expect("flags are valid").config;
    assert_eq!(config.disable, [Feature::Bpf, Feature::Nvml, Feature::Pinning].into());
    assert_eq!(config.tenants.len(), 2);
    assert!(Command::try_parse_from(["gpu-agent", "--interval=1s", "--interval=2s"]).is_err());
}

#[test]
fn every_mistake_is_reported_with_its_place_and_remedy() {
    let text = r#"intervall = "1s"
nvml = { dedline = "1s", interval = "soon" }
otlp = "collector"

[probe]
deadline = "1s"
disable = ["uprobe"]

[[tenant]]
name = "host"
match = { cgroup = "jobs", claims = { gid = 1 } }
"#;
    assert_eq!(
        messages(text),
        [
            "agent.toml:1:1: unknown key `intervall`: write `interval` if that is what is meant, or remove it",
            "agent.toml:2:10: unknown key `nvml.dedline`: write `nvml.deadline` if that is what is meant, or remove it",
            "agent.toml:3:1: `otlp` is \"collector\", expected a table: write a `[otlp]` section",
            "agent.toml:6:1: unknown key `probe.deadline`: write `nvml.deadline` if that is what is meant, or remove it",
            "agent.toml:7:1: unknown key `probe.disable`: write `disable` if that is what is meant, or remove it",
            "agent.toml:2:37: `nvml.interval` is \"soon\", expected a duration from 100ms to 10m: begin with a whole \
             number, then a time unit: ns, us, ms, s, m or h, as in `200ms`",
            "agent.toml:11:20: `tenant[0].match.cgroup` is \"jobs\", expected a pattern of names, `*`, `?` and `**`: \
             begin it with `/`",
            "agent.toml:11:45: `tenant[0].match.claims.gid` is 1, expected only `exe` and `uid` here: correct the \
             name or remove it",
            "agent.toml:10:8: `tenant[0].name` is \"host\", expected a tenant name: choose another name: `host` \
             stands for the root cgroup",
        ]
    );
}

#[test]
fn several_syntax_errors_are_reported_together() {
    let lines: Vec<String> = messages("interval = soon\nlisten = here\nlog.level = \"info\"\n");
    assert!(lines.len() >= 2, "{lines:?}");
    assert!(lines[0].starts_with("agent.toml:1:"), "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("not valid TOML")), "{lines:?}");
}

#[test]
fn an_unknown_feature_is_answered_with_the_known_ones() {
    let errors = load(&flags(&["--disable", "bpf,warp"]), |_| None, None).expect_err("`warp` is unknown");
    assert_eq!(
        errors.to_string(),
        "flag --disable: `disable[1]` is \"warp\", expected one of `batch-read`, `bpf`, `nvml`, `pinning`, \
         `tracepoints`, `uprobe-multi`: write one of these names, in lower case"
    );
}

#[test]
fn values_that_exclude_each_other_are_refused() {
    let text = "interval = \"20s\"\notlp.endpoint = \"http://c:4317\"\notlp.tls.key_file = \"/k\"";
    assert_eq!(
        messages(text),
        [
            "default: `otlp.interval` is \"10s\", which is shorter than `interval`: push no oftener than metrics \
             are refreshed",
            "agent.toml:3:21: `otlp.tls.key_file` is \"/k\", which needs a certificate: set `otlp.tls.cert_file` too",
            "agent.toml:3:21: `otlp.tls.key_file` is \"/k\", which needs an `https://` endpoint: begin \
             `otlp.endpoint` with `https://`, or remove this key",
        ]
    );
}

#[test]
fn header_values_are_never_repeated() {
    let loaded = load_file("otlp.headers = { Authorization = \"hunter2\" }").expect("headers are valid");
    assert_eq!(loaded.config.otlp.headers.get("authorization").map(String::as_str), Some("hunter2"));
    assert!(!loaded.to_string().contains("hunter2"));
    assert!(loaded.to_string().contains("otlp.headers = { authorization = \"<secret>\" } # agent.toml:1:16"));
    for bad in ["otlp.headers = { a = \"hunter2\\u0000\" }", "otlp.headers = \"hunter2\""] {
        let message = load_file(bad).expect_err(bad).to_string();
        assert!(!message.contains("hunter2"), "{message}");
    }
    let message = load_environment(&[("GPU_AGENT_OTLP_HEADERS", "hunter2")]).expect_err("no `=`").to_string();
    assert!(!message.contains("hunter2"), "{message}");
}

#[test]
fn endpoints_need_a_scheme_a_host_and_a_port_in_range() {
    for good in ["http://c", "https://c:4317", "http://[::1]:4318/v1/metrics", "http://10.0.0.1:1"] {
        assert!(load_file(&format!("otlp.endpoint = \"{good}\"")).is_ok(), "{good}");
    }
    for bad in [
        "c:4317",
        "ftp://c",
        "http://",
        "http://:4317",
        "http://c:0",
        "http://c:70000",
        "http://c:",
        "http://user:secret@c",
        "http://c/?a",
        "http://c d",
    ] {
        assert!(load_file(&format!("otlp.endpoint = \"{bad}\"")).is_err(), "{bad}");
    }
    let disabled = load_file("otlp.endpoint = \"\"").expect("an empty endpoint switches the push off");
    assert_eq!(disabled.config.otlp.endpoint, None);
}

#[test]
fn tenants_are_read_in_order_with_every_condition() {
    let text = r#"
[[tenant]]
name = "training"
match = { cgroup = "/jobs/**", unit = "train-*.service" }

[[tenant]]
name = "serving"
[tenant.match]
container_id = "4bae4a8e7430"
pod_uid = "9c64c5bf-298f-46c4-ad63-e2270a2ff44c"
claims = { exe = "/usr/bin/python*", uid = 1000 }
"#;
    let by_file = load_file(text).expect("tenants are valid").config.tenants;
    let word = "training=cgroup:/jobs/**,unit:train-*.service; serving=container_id:4bae4a8e7430,\
                pod_uid:9c64c5bf-298f-46c4-ad63-e2270a2ff44c,claims.exe:/usr/bin/python*,claims.uid:1000";
    let by_variable =
        load_environment(&[("GPU_AGENT_TENANT", word)]).expect("tenants are valid").config.tenants;
    assert_eq!(by_file, by_variable);
    assert_eq!(by_file.iter().map(|rule| rule.name.as_str()).collect::<Vec<_>>(), ["training", "serving"]);
    assert_eq!(by_file[1].matches.claims.uid, Some(1000));
}

#[test]
fn bad_tenants_are_refused() {
    for bad in [
        "{ name = \"\", match = { unit = \"a\" } }",
        "{ name = \"a\\nb\", match = { unit = \"a\" } }",
        "{ name = \"a\" }",
        "{ match = { unit = \"a\" } }",
        "{ name = \"a\", match = { unit = \"/a/b\" } }",
        "{ name = \"a\", match = { cgroup = \"/\" } }",
        "{ name = \"a\", match = { cgroup = \"/a/\" } }",
        "{ name = \"a\", match = { cgroup = \"/a**\" } }",
        "{ name = \"a\", match = { container_id = \"docker-4bae4a8e\" } }",
        "{ name = \"a\", match = { container_id = \"4bae\" } }",
        "{ name = \"a\", match = { pod_uid = \"9c64c5bf\" } }",
        "{ name = \"a\", match = { claims = { uid = -1 } } }",
        "{ name = \"a\", match = { claims = {} } }",
        "{ name = \"a\", match = { exe = \"/bin/sh\" } }",
        "{ name = \"a\", match = \"/a\" }",
        "{ name = \"a\", match = { unit = \"a\" }, weight = 1 }",
        "\"a\"",
    ] {
        assert!(load_file(&format!("tenant = [{bad}]")).is_err(), "{bad}");
    }
    for bad in ["a", "a=", "a=unit", "=unit:a", "a=what:x"] {
        assert!(load_environment(&[("GPU_AGENT_TENANT", bad)]).is_err(), "{bad}");
    }
}

#[test]
fn the_printed_configuration_reads_back_as_the_same() {
    let lines: Vec<String> = VALUES
        .iter()
        .filter(|(key, ..)| *key != "otlp.headers")
        .map(|(key, toml, ..)| format!("{key} = {toml}"))
        .collect();
    let first = load_file(&lines.join("\n")).expect("values are valid");
    let second = load_file(&first.to_string()).expect("printed configuration is valid");
    assert_eq!(first.config, second.config);
}

#[test]
fn only_probable_misspellings_are_unknown_variables() {
    let names = [
        "GPU_AGENT_INTERVAL",
        "GPU_AGENT_CONFIG",
        "GPU_AGENT_INTERVALL",
        "GPU_AGENT_SERVICE_HOST",
        "GPU_AGENT_PORT",
        "GPU_AGENT_PORT_9464_TCP_ADDR",
        "PATH",
    ];
    assert_eq!(unknown_variables(names.map(str::to_owned)), ["GPU_AGENT_INTERVALL"]);
    let shadowed = |key: &KeyInfo| {
        key.variable.starts_with("GPU_AGENT_PORT") || key.variable.starts_with("GPU_AGENT_SERVICE")
    };
    assert!(!keys().iter().any(shadowed), "Kubernetes sets such variables for a Service named gpu-agent");
}

#[test]
fn a_named_file_must_exist() {
    let missing = flags(&["--config", "/nonexistent/agent.toml"]);
    let errors = ConfigFile::read(&missing, |_| None).expect_err("file is missing");
    assert_eq!(
        errors.to_string(),
        "cannot read configuration file `/nonexistent/agent.toml`: give a readable TOML file with --config"
    );
    let by_variable = |name: &str| (name == "GPU_AGENT_CONFIG").then(|| "/nonexistent/agent.toml".to_owned());
    assert!(ConfigFile::read(&Flags::default(), by_variable).is_err());
}

#[test]
fn a_file_is_found_by_flag() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = directory.path().join("agent.toml");
    std::fs::write(&path, "interval = \"3s\"").expect("file is written");
    let flags = flags(&["--config", path.to_str().expect("path is UTF-8")]);
    let found = ConfigFile::read(&flags, |_| None).expect("file is readable");
    let config = load(&flags, |_| None, found.as_ref()).expect("file is valid").config;
    assert_eq!(config.interval, Duration::from_secs(3));
}

#[test]
fn the_documentation_names_every_key_flag_variable_and_default() {
    let text = include_str!("../../../docs/configuration.md");
    for key in keys() {
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| `{}` |", key.name)))
            .unwrap_or_else(|| panic!("no row for `{}`", key.name));
        let default = key.default.as_deref().unwrap_or("absent");
        for part in [&key.flag, &key.variable, default] {
            assert!(row.contains(&format!("`{part}`")), "{row} lacks {part}");
        }
        assert!(row.contains(key.help), "{row} lacks the help: {}", key.help);
    }
}

#[test]
fn the_help_names_every_flag() {
    let help = <Command as clap::CommandFactory>::command().render_long_help().to_string();
    for key in keys() {
        assert!(help.contains(&format!("{} <VALUE>", key.flag)), "{}", key.flag);
    }
}

/// Lines of real keys with fitting and unfitting values, and lines of anything.
fn lines() -> impl Strategy<Value = Vec<String>> {
    let known = (0..VALUES.len(), 0..4_usize).prop_map(|(at, form)| {
        let (key, good, _, bad) = VALUES[at];
        match form {
            0 => format!("{key} = {bad}"),
            1 => format!("{key}x = {good}"),
            _ => format!("{key} = {good}"),
        }
    });
    let line = proptest::strategy::Union::new([known.boxed(), "\\PC{0,30}".boxed()]);
    proptest::collection::vec(line, 0..6)
}

proptest! {
    #[test]
    fn any_file_is_taken_or_every_refusal_has_a_place(lines in lines()) {
        let text = lines.join("\n");
        match load_file(&text) {
            Ok(loaded) => assert_eq!(loaded.settings.len(), VALUES.len()),
            Err(errors) => {
                assert!(errors.iter().count() > 0);
                for error in &errors {
                    let place = error.to_string();
                    assert!(place.starts_with("agent.toml:") || place.starts_with("default: "), "{place}");
                }
            }
        }
    }
}
