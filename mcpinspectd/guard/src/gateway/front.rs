//! Which server a request is for: the one behind the gateway, or the one that it names.
//!
//! A client gives a forward proxy a whole URL. Each server named that way gets what a gateway of its own
//! has: its sessions, its rules' memory, its name. What is encrypted cannot be judged, so there are no tunnels; and
//! a request without a URL is for no server, so that no web page finds one here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::http::request;
use hyper::http::uri::Authority;
use hyper::{Response, StatusCode, Uri};
use mcpinspect_judge::policy::situation::Parties;

use super::body::Flow;
use super::gate::Gate;
use super::hub::{Hub, Shared};
use super::refusals::{self, Refusals};
use super::reply::{self, INVALID};
use super::upstream::Upstream;

/// Servers that a forward proxy remembers at a time.
const SERVERS: usize = 256;
/// The name of a forward proxy in records about requests that are for no server.
const PROXY: &str = "forward-proxy";

/// What is behind the gateway.
pub enum Front {
    /// One server.
    Reverse(Arc<Hub>),
    /// Those that requests name.
    Forward(Box<Forward>),
}

/// A forward proxy.
pub struct Forward {
    shared: Shared,
    /// Talks to all servers; its own endpoint is not one of them.
    upstream: Upstream,
    /// The servers that may be reached, as hosts or hosts with ports; all, if empty.
    allowed: Vec<String>,
    origins: Vec<String>,
    zone: Parties,
    hubs: Mutex<HashMap<String, Arc<Hub>>>,
    refusals: Refusals,
}

impl Forward {
    /// Forwards to the allowed servers, given as `HOST` or `HOST:PORT`; to all, if none is named.
    pub fn new(
        shared: Shared,
        upstream: Upstream,
        allowed: &[String],
        origins: &[String],
        parties: Parties,
    ) -> Self {
        Self {
            shared,
            upstream,
            allowed: allowed.iter().map(|one| normalised(one)).collect(),
            origins: origins.to_vec(),
            zone: parties,
            hubs: Mutex::default(),
            refusals: Refusals::default(),
        }
    }

    fn hubs(&self) -> MutexGuard<'_, HashMap<String, Arc<Hub>>> {
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hub(&self, uri: &Uri) -> Result<Arc<Hub>, RoutingError> {
        let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(RoutingError::NoServer);
        };
        let address = address(authority).ok_or(RoutingError::NoServer)?;
        let host = authority.host().to_ascii_lowercase();
        if !self.allowed.is_empty()
            && ![&address, &host]
                .iter()
                .any(|one| self.allowed.contains(one))
        {
            return Err(RoutingError::NotAllowed);
        }
        let mut hubs = self.hubs();
        if let Some(hub) = hubs.get(&address) {
            return Ok(Arc::clone(hub));
        }
        if hubs.len() >= SERVERS {
            // Those with no clients.
            hubs.retain(|_, hub| Arc::strong_count(hub) > 1 || !hub.table.is_empty());
        }
        if hubs.len() >= SERVERS {
            return Err(RoutingError::NoRoom);
        }
        let upstream = self.upstream.to(&format!("http://{address}/"));
        let hub = Arc::new(Hub::new(
            upstream.map_err(|_| RoutingError::NoServer)?,
            Gate::new(std::slice::from_ref(&host), &self.origins),
            &self.shared,
            Parties {
                server: bare(&host).to_owned(),
                ..self.zone.clone()
            },
        ));
        hubs.insert(address, Arc::clone(&hub));
        Ok(hub)
    }
}

/// Why a request is for no server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum RoutingError {
    #[error(
        "this proxy accepts only requests for http URLs. For a server at an https URL, use `mcpinspect guard --listen --upstream`"
    )]
    NoServer,
    #[error("this server is not allowed; allow it with `--to`")]
    NotAllowed,
    #[error("the proxy is connected to too many servers; try again later")]
    NoRoom,
}

impl RoutingError {
    fn reason(self) -> &'static str {
        match self {
            Self::NoServer => "no_server",
            Self::NotAllowed => "foreign_host",
            Self::NoRoom => "too_many_servers",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::NoServer => StatusCode::BAD_REQUEST,
            Self::NotAllowed => StatusCode::FORBIDDEN,
            Self::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl Front {
    /// The server that a request is for, or the answer that says why it is for none.
    pub fn hub(&self, head: &request::Parts) -> Result<Arc<Hub>, Box<Response<Flow>>> {
        let forward = match self {
            Self::Reverse(hub) => return Ok(Arc::clone(hub)),
            Self::Forward(forward) => forward,
        };
        forward.hub(&head.uri).map_err(|error| {
            self.refused(&refusals::RefusedRequest::of(head), error.reason());
            let text = error.to_string();
            Box::new(reply::refusal(error.status(), None, INVALID, &text))
        })
    }

    /// Records that a request for an unknown server was not admitted.
    pub fn refused(&self, request: &refusals::RefusedRequest, reason: &'static str) {
        match self {
            Self::Reverse(hub) => hub.refused(request, reason),
            Self::Forward(forward) => {
                let record = forward.refusals.record(PROXY, request, reason);
                forward.shared.shared_policy.effects.tell(record.as_slice());
            }
        }
    }

    /// Forgets inactive sessions.
    pub fn sweep(&self) {
        match self {
            Self::Reverse(hub) => hub.table.forget_idle(),
            Self::Forward(forward) => {
                for hub in forward.hubs().values() {
                    hub.table.forget_idle();
                }
            }
        }
    }
}

/// A host and its port, in canonical spelling. `None` for one with a user name.
fn address(authority: &Authority) -> Option<String> {
    if authority.as_str().contains('@') {
        return None;
    }
    let host = authority.host().to_ascii_lowercase();
    Some(match authority.port_u16() {
        None | Some(80) => host,
        Some(port) => format!("{host}:{port}"),
    })
}

/// A server that a person named, spelled like those of requests.
fn normalised(named: &str) -> String {
    let authority = named.parse().ok();
    let address = authority.and_then(|authority: Authority| address(&authority));
    address.unwrap_or_else(|| named.to_ascii_lowercase())
}

/// A host without the brackets of an address.
pub fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_has_one_spelling() {
        for (authority, expected) in [
            ("Box.Example", Some("box.example")),
            ("box.example:80", Some("box.example")),
            ("box.example:3001", Some("box.example:3001")),
            ("[::1]:3001", Some("[::1]:3001")),
            ("me@box.example", None),
        ] {
            let authority: Authority = authority.parse().unwrap();
            assert_eq!(address(&authority).as_deref(), expected);
        }
    }
}
