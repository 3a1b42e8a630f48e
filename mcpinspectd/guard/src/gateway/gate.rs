//! Who is admitted: web pages must not be.
//!
//! A page in a browser can make its own name lead to this machine, and then talk to what listens here as if it
//! were its own server ("DNS rebinding"). It cannot choose the name that its requests carry: so requests must
//! name an IP address, `localhost`, or an allowed name. A page of another origin is named in
//! `Origin`, which other programs do not send.

use std::net::IpAddr;

use hyper::Uri;
use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::http::uri::Authority;

/// The names and origins that are allowed besides this machine's own.
#[derive(Debug, Default)]
pub struct Gate {
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Why a request is not admitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// It names no host, or two.
    #[error("the request must have exactly one host")]
    NoHost,
    /// It names a host that is not allowed.
    #[error("the host `{0}` is not allowed; allow it with `--allow-host`")]
    Host(String),
    /// It comes from a page that is not allowed.
    #[error("the origin `{0}` is not allowed; allow it with `--allow-origin`")]
    Origin(String),
}

impl NotAdmitted {
    /// Why, in a word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoHost => "no_host",
            Self::Host(_) => "foreign_host",
            Self::Origin(_) => "foreign_origin",
        }
    }
}

impl Gate {
    /// Admits these too.
    pub fn new(hosts: &[String], origins: &[String]) -> Self {
        let lower = |all: &[String]| all.iter().map(|one| one.to_ascii_lowercase()).collect();
        Self {
            hosts: lower(hosts),
            origins: lower(origins),
        }
    }

    /// Whether a request is admitted.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), NotAdmitted> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(NotAdmitted::NoHost);
        };
        let host = String::from_utf8_lossy(host.as_bytes()).to_ascii_lowercase();
        let refused = || NotAdmitted::Host(shown(&host));
        let authority: Authority = host.parse().map_err(|_| refused())?;
        // A whole URL in the request's first line takes precedence over the field.
        let is_same = uri
            .authority()
            .is_none_or(|other| other.as_str().eq_ignore_ascii_case(&host));
        if !is_same || host.contains('@') || !self.is_known(authority.host()) {
            return Err(refused());
        }
        for origin in headers.get_all(ORIGIN) {
            let origin = String::from_utf8_lossy(origin.as_bytes()).to_ascii_lowercase();
            let is_own = origin.strip_prefix("http://") == Some(&host);
            if !is_own && !self.origins.contains(&origin) {
                return Err(NotAdmitted::Origin(shown(&origin)));
            }
        }
        Ok(())
    }

    fn is_known(&self, host: &str) -> bool {
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        host == "localhost"
            || bare.unwrap_or(host).parse::<IpAddr>().is_ok()
            || self.hosts.iter().any(|known| known == host)
    }
}

fn shown(text: &str) -> String {
    mcpinspect_core::text::escape::printable(text, 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(gate: &Gate, uri: &str, fields: &[(&'static str, &str)]) -> Result<(), NotAdmitted> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        gate.check(&uri.parse().unwrap(), &headers)
    }

    #[test]
    fn only_known_names_are_let_in() {
        let gate = Gate::new(
            &["Box.example".to_owned()],
            &["https://app.example".to_owned()],
        );
        for host in [
            "localhost",
            "LOCALHOST:8700",
            "127.0.0.1:8700",
            "[::1]:8700",
            "192.168.0.3",
            "box.example:1",
        ] {
            assert_eq!(check(&gate, "/mcp", &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8700",
            "localhost.evil.example",
            "a@localhost",
            "127.0.0.1.evil.example",
            "",
        ] {
            assert!(check(&gate, "/mcp", &[("host", host)]).is_err(), "{host}");
        }
        assert_eq!(check(&gate, "/mcp", &[]), Err(NotAdmitted::NoHost));
        let two = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(check(&gate, "/mcp", &two), Err(NotAdmitted::NoHost));
        assert!(check(&gate, "http://evil.example/mcp", &[("host", "localhost")]).is_err());
    }

    #[test]
    fn pages_of_other_origins_are_not() {
        let gate = Gate::new(&[], &["https://app.example".to_owned()]);
        for (origin, expected) in [
            ("http://127.0.0.1:8700", true),
            ("https://app.example", true),
            ("http://127.0.0.1:3000", false),
            ("http://evil.example", false),
            ("null", false),
        ] {
            let fields = [("host", "127.0.0.1:8700"), ("origin", origin)];
            assert_eq!(check(&gate, "/mcp", &fields).is_ok(), expected, "{origin}");
        }
        let two = [
            ("host", "127.0.0.1"),
            ("origin", "http://127.0.0.1"),
            ("origin", "http://evil.example"),
        ];
        assert!(check(&gate, "/mcp", &two).is_err());
    }
}
