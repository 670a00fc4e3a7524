//! Real programs that the tests let the agent talk to: Prometheus and an OpenTelemetry collector.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::machine::{Machine, apt_install};
use super::need::{Need, Plan};
use super::sid;
use super::step::Step;
use crate::workspace::{find_in_path, is_executable};

/// The release of rotel that is installed; all of its releases are marked as early ones.
const ROTEL: &str = "rotel==0.0.1a15";

/// The oldest Prometheus that the tests are written for.
const OLDEST_PROMETHEUS: u32 = 3;

/// Prometheus itself.
pub(crate) const PROMETHEUS: PrometheusTool = PrometheusTool {
    program: "prometheus",
    purpose: "scrapes the agent in tests and takes its OTLP push from vmagent",
};

/// Prometheus' checker.
pub(crate) const PROMTOOL: PrometheusTool = PrometheusTool {
    program: "promtool",
    purpose: "checks the agent's metrics and the alert rules in tests",
};

/// A program of the Prometheus release that the tests need.
pub(crate) struct PrometheusTool {
    program: &'static str,
    purpose: &'static str,
}

impl PrometheusTool {
    /// The program, in the cache or on `PATH`, if its release will do; otherwise why not.
    pub(crate) fn locate(&self, cache: &Path) -> Result<PathBuf, String> {
        let program = self.program;
        let mut why = format!("found no `{program}`");
        let cached = sid::unpacked(cache, program, program);
        for path in
            [Some(cached).filter(|path| is_executable(path)), find_in_path(program)].into_iter().flatten()
        {
            let output = Command::new(&path).arg("--version").output();
            let output = output.map_err(|error| format!("`{}` does not start: {error}", path.display()))?;
            // 2.x prints to standard error.
            let text = [output.stdout, output.stderr].concat();
            match major_of(&String::from_utf8_lossy(&text)) {
                Some(major) if major >= OLDEST_PROMETHEUS => return Ok(path),
                Some(major) => {
                    why = format!("`{}` is {major}.x, older than {OLDEST_PROMETHEUS}", path.display());
                }
                None => why = format!("`{}` does not tell its release", path.display()),
            }
        }
        Err(why)
    }
}

impl Need for PrometheusTool {
    fn name(&self) -> &'static str {
        self.program
    }

    fn purpose(&self) -> &'static str {
        self.purpose
    }

    fn find(&self, machine: &Machine) -> Result<String, String> {
        self.locate(&machine.cache).map(|path| path.display().to_string())
    }

    fn plan(&self, machine: &Machine) -> Plan {
        match sid::unpack_steps(machine, self.program, self.program) {
            Ok(steps) => Plan::Steps(steps),
            Err(why) => {
                Plan::ByHand(vec![format!("{why}; put `{}` {OLDEST_PROMETHEUS}.x on PATH", self.program)])
            }
        }
    }
}

/// The major release in a text such as `prometheus, version 3.5.3+ds1 (branch: …)`.
fn major_of(version_output: &str) -> Option<u32> {
    let (_, version) = version_output.split_once("version ")?;
    version.split('.').next()?.parse().ok()
}

/// A relay from OTLP to Prometheus' remote-write protocol.
///
/// Debian builds Prometheus without its OTLP receiver, because the OpenTelemetry collector's libraries are not in
/// Debian; so the push reaches Prometheus through this program, which has a receiver of its own.
pub(crate) struct OtlpRelay;

impl OtlpRelay {
    const PACKAGE: &str = "victoria-metrics";
    const PROGRAM: &str = "vmagent";

    /// The relay's program, in the cache or on `PATH`.
    pub(crate) fn locate(cache: &Path) -> Result<PathBuf, String> {
        Some(sid::unpacked(cache, Self::PACKAGE, Self::PROGRAM))
            .filter(|path| is_executable(path))
            .or_else(|| find_in_path(Self::PROGRAM))
            .ok_or_else(|| format!("found no `{}`", Self::PROGRAM))
    }
}

impl Need for OtlpRelay {
    fn name(&self) -> &'static str {
        Self::PROGRAM
    }

    fn purpose(&self) -> &'static str {
        "takes the agent's OTLP push in tests and writes it to Prometheus, which Debian builds without OTLP"
    }

    fn find(&self, machine: &Machine) -> Result<String, String> {
        Self::locate(&machine.cache).map(|path| path.display().to_string())
    }

    fn plan(&self, machine: &Machine) -> Plan {
        match sid::unpack_steps(machine, Self::PACKAGE, Self::PROGRAM) {
            Ok(steps) => Plan::Steps(steps),
            Err(why) => Plan::ByHand(vec![format!("{why}; put `{}` on PATH", Self::PROGRAM)]),
        }
    }
}

/// An OpenTelemetry collector in Rust, packaged for Python.
pub(crate) struct Rotel;

impl Rotel {
    /// The collector's program, in the cache or on `PATH`.
    pub(crate) fn locate(cache: &Path) -> Result<PathBuf, String> {
        let cached = Self::folder(cache).join("rotel/rotel-agent");
        Some(cached)
            .filter(|path| is_executable(path))
            .or_else(|| find_in_path("rotel-agent"))
            .ok_or_else(|| "found no `rotel-agent`".to_owned())
    }

    fn folder(cache: &Path) -> PathBuf {
        cache.join("rotel")
    }
}

impl Need for Rotel {
    fn name(&self) -> &'static str {
        "rotel"
    }

    fn purpose(&self) -> &'static str {
        "takes the agent's OTLP push over gRPC and HTTP in tests"
    }

    fn find(&self, machine: &Machine) -> Result<String, String> {
        Self::locate(&machine.cache).map(|path| path.display().to_string())
    }

    fn plan(&self, machine: &Machine) -> Plan {
        let folder = Self::folder(&machine.cache);
        let target = folder.to_string_lossy();
        let install = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--target",
            &target,
            ROTEL,
        ];
        let mut steps = Vec::new();
        if machine.apt && !has_pip() {
            steps.extend(apt_install(&["python3-pip".to_owned()]));
        }
        steps.push(Step::new("python3", install));
        steps.push(Step::new("chmod", ["+x".to_owned(), format!("{target}/rotel/rotel-agent")]));
        Plan::Steps(steps)
    }
}

fn has_pip() -> bool {
    Command::new("python3")
        .args(["-m", "pip", "--version"])
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Set for tests that must not do without a peer.
pub(crate) const REQUIRE: &str = "GPUSTACK_REQUIRE_PEERS";

/// How many variables [`environment`] has when every peer is there.
pub(crate) const COUNT: usize = 4;

/// The environment variables by which tests find these programs, for those that are there.
pub(crate) fn environment(cache: &Path) -> Vec<(&'static str, PathBuf)> {
    let peers: [_; COUNT] = [
        ("GPUSTACK_TEST_PROMETHEUS", PROMETHEUS.locate(cache)),
        ("GPUSTACK_TEST_PROMTOOL", PROMTOOL.locate(cache)),
        ("GPUSTACK_TEST_ROTEL", Rotel::locate(cache)),
        ("GPUSTACK_TEST_VMAGENT", OtlpRelay::locate(cache)),
    ];
    peers.into_iter().filter_map(|(variable, path)| Some((variable, path.ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_from_the_version() {
        assert_eq!(major_of("prometheus, version 3.5.3+ds1 (branch: debian/sid)"), Some(3));
        assert_eq!(major_of("promtool, version 2.42.0+ds (branch: debian/sid)"), Some(2));
        assert_eq!(major_of("command not found"), None);
    }
}
