//! The one request that tests make.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

/// The body of a `GET` that must succeed.
///
/// # Errors
/// When nobody answers, or not with 200.
pub fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("nobody listens at {address}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    // HTTP/1.0 has no chunks: the answer ends where the connection does.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no body")?;
    let status = head.lines().next().unwrap_or_default();
    ensure!(status.contains(" 200"), "`{path}` answers `{status}`: {}", body.trim());
    Ok(body.to_owned())
}
