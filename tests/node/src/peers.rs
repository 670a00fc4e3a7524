//! Real programs that take the agent's metrics: a test finds them, starts them on the loopback interface and asks
//! them what they got.

pub mod otlp_relay;
pub mod prometheus;
pub mod promtool;
pub mod rotel;

use std::{
    env,
    ffi::OsStr,
    io::Write as _,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

/// When this is set, a peer that is not there fails the tests that need it.
const REQUIRE: &str = "GPUSTACK_REQUIRE_PEERS";

/// A program that tests let the agent talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Prometheus 3.x.
    Prometheus,
    /// Prometheus' checker.
    Promtool,
    /// An OpenTelemetry collector.
    Rotel,
    /// An OTLP receiver that writes to Prometheus by its remote-write protocol.
    OtlpRelay,
}

impl Peer {
    /// The variable that says where it is, and its usual file name.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Prometheus => ("GPUSTACK_TEST_PROMETHEUS", "prometheus"),
            Self::Promtool => ("GPUSTACK_TEST_PROMTOOL", "promtool"),
            Self::Rotel => ("GPUSTACK_TEST_ROTEL", "rotel-agent"),
            Self::OtlpRelay => ("GPUSTACK_TEST_VMAGENT", "vmagent"),
        }
    }
}

/// Where these peers are. `None` asks the test to be skipped: the reason is then on standard error, which the test
/// runner does not hold back.
///
/// # Errors
/// When one is missing although peers are required.
pub fn find<const N: usize>(peers: [Peer; N]) -> Result<Option<[PathBuf; N]>> {
    match locate(peers, |name| env::var_os(name).map(PathBuf::from), env::var_os("PATH").as_deref()) {
        Ok(programs) => Ok(Some(programs)),
        Err(missing) if env::var_os(REQUIRE).is_some() => bail!("{missing}, and `{REQUIRE}` is set"),
        Err(missing) => {
            // A closed standard error is no reason to fail.
            drop(writeln!(std::io::stderr(), "skipped: {missing}; `cargo xtask setup` installs it"));
            Ok(None)
        }
    }
}

/// The programs, or which one is missing.
fn locate<const N: usize>(
    peers: [Peer; N],
    variable: impl Fn(&str) -> Option<PathBuf>,
    path: Option<&OsStr>,
) -> Result<[PathBuf; N], String> {
    let mut programs = [(); N].map(|()| PathBuf::new());
    for (program, peer) in programs.iter_mut().zip(peers) {
        let (name, file) = peer.names();
        let on_path = || path.into_iter().flat_map(env::split_paths).map(|folder| folder.join(file));
        *program = variable(name)
            .into_iter()
            .chain(on_path())
            .find(|candidate| candidate.is_file())
            .ok_or_else(|| format!("`{name}` names no file, and there is no `{file}` on PATH"))?;
    }
    Ok(programs)
}

/// A loopback address whose port was free a moment ago, for programs that do not tell which port the kernel chose.
///
/// # Errors
/// When no port is free.
pub fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot find a free port")?;
    Ok(listener.local_addr()?)
}

/// A file for what a peer prints: pipes would have to be emptied while it runs.
fn output_file(folder: &Path, name: &str) -> Result<std::fs::File> {
    let path = folder.join(name);
    std::fs::File::create(&path).with_context(|| format!("cannot make `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins_over_the_path_and_what_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (named, found) = (folder.path().join("elsewhere"), folder.path().join("promtool"));
        for file in [&named, &found] {
            std::fs::write(file, "").unwrap();
        }
        let path = Some(folder.path().as_os_str());
        let variable = |name: &str| (name == "GPUSTACK_TEST_PROMTOOL").then(|| named.clone());
        assert_eq!(locate([Peer::Promtool], variable, path), Ok([named.clone()]));
        assert_eq!(locate([Peer::Promtool], |_| None, path), Ok([found]));
        let missing = locate([Peer::Promtool, Peer::Rotel], |_| None, path).unwrap_err();
        assert_eq!(missing, "`GPUSTACK_TEST_ROTEL` names no file, and there is no `rotel-agent` on PATH");
    }
}
