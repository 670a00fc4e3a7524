//! Socket addresses and collector endpoints.

use std::net::SocketAddr;

use super::{Kind, Refusal, text};
use crate::config::value::{Node, quote};

/// An address to listen on.
pub(in crate::config) struct Listen;

impl Kind for Listen {
    type Target = SocketAddr;

    fn expected(&self) -> String {
        "an IP address and a port".to_owned()
    }

    fn read(&self, given: &Node) -> Result<SocketAddr, Vec<Refusal>> {
        text(given)?.parse().map_err(|_unparsed: std::net::AddrParseError| {
            Refusal::whole(
                "write `127.0.0.1:9464`, `0.0.0.0:9464`, `[::]:9464`, or port 0 to let the kernel choose",
            )
        })
    }

    fn render(&self, value: &SocketAddr) -> Option<String> {
        Some(quote(&value.to_string()))
    }
}

/// An `http` or `https` address of a collector.
pub(in crate::config) struct Endpoint;

impl Kind for Endpoint {
    type Target = String;

    fn expected(&self) -> String {
        "an address such as `https://collector:4317`".to_owned()
    }

    fn read(&self, given: &Node) -> Result<String, Vec<Refusal>> {
        let text = text(given)?;
        let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else {
            return Err(Refusal::whole("begin it with `http://` or `https://`"));
        };
        if let Some(odd) = text.chars().find(|character| !character.is_ascii_graphic()) {
            return Err(Refusal::whole(format!("write it without {odd:?}")));
        }
        if text.contains(['?', '#']) {
            return Err(Refusal::whole("leave out the query and the fragment"));
        }
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.contains('@') {
            return Err(Refusal::whole(
                "leave out user and password, and put credentials into `otlp.headers`",
            ));
        }
        let (host, port) = split_port(authority);
        if host.is_empty() {
            return Err(Refusal::whole("name a host after `://`"));
        }
        if port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
            return Err(Refusal::whole("use a port from 1 to 65535"));
        }
        Ok(text.to_owned())
    }

    fn render(&self, value: &String) -> Option<String> {
        Some(quote(value))
    }
}

/// Splits `host:port`, where an IPv6 host stands in brackets.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    let after_brackets = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    match authority.get(after_brackets..).and_then(|rest| rest.rfind(':')) {
        Some(colon) => (&authority[..after_brackets + colon], authority.get(after_brackets + colon + 1..)),
        None => (authority, None),
    }
}
