//! A server that is known by its URL: one on another machine, or of which no process was seen.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::clients::{ClientConfigs, Named};
use super::{launch, normal, shortened};
use crate::model::{ServerId, ServerIdentity};
use crate::process::ProcessInfo;

/// The longest name of a server, in bytes.
const MAX_NAME: usize = 48;

/// Identifies a server by its URL, which has neither query nor credentials; its name is looked up in the
/// configurations of `client`. Blocks as [`super::of_process`] does.
pub fn of_url(url: &str, client: Option<&ProcessInfo>, configs: &ClientConfigs) -> ServerIdentity {
    let named = client.and_then(|client| {
        let home = launch::home_of(client.process().uid);
        configs.name_of_url(url, client.process(), home.as_deref())
    });
    identity(url, named.as_ref())
}

/// Identifies a server by its URL alone.
pub fn of_url_alone(url: &str) -> ServerIdentity {
    identity(url, None)
}

fn identity(url: &str, named: Option<&Named>) -> ServerIdentity {
    let configured = named.and_then(|named| {
        let id = normal::clean_id(&named.name)?;
        Some((id, format!("config:{}", named.client)))
    });
    let (id, name_source) = configured.unwrap_or_else(|| (name(authority(url)), "url".to_owned()));
    ServerIdentity {
        server_id: ServerId(id.into()),
        fingerprint: shortened(&Sha256::digest(format!("url\0{url}"))),
        name_source,
        publisher: None,
        former: None,
    }
}

fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// A server's name, made of its host.
fn name(authority: &str) -> String {
    let host = match authority.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let letter = |c: char| {
        if c.is_ascii_alphanumeric() || ".-_".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = host.chars().map(letter).take(MAX_NAME).collect();
    if name.is_empty() {
        "http".to_owned()
    } else {
        name
    }
}

/// Whether two URLs lead to one place: queries, credentials and a slash at the end make no difference.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    match (parts(one), parts(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// Scheme, host, port and path.
fn parts(url: &str) -> Option<(String, String, String, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let rest = rest.split(['?', '#']).next()?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let authority = authority.rsplit('@').next()?.to_ascii_lowercase();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host.to_owned(), port.to_owned())
        }
        _ => {
            let port = if scheme == "https" { "443" } else { "80" };
            (authority, port.to_owned())
        }
    };
    Some((scheme, host, port, path.trim_end_matches('/')))
}

/// Whether a process works in a project, or below it.
pub(super) fn is_within(project: &str, directory: Option<&str>) -> bool {
    directory.is_some_and(|directory| Path::new(directory).starts_with(project))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_its_host() {
        for (url, id) in [
            ("http://mcp.example.org/mcp", "mcp.example.org"),
            ("http://127.0.0.1:8000/mcp", "127.0.0.1"),
            ("http://[::1]:8000/mcp", "--1"),
            ("http:///mcp", "http"),
        ] {
            let identity = of_url_alone(url);
            assert_eq!(
                (&*identity.server_id.0, &*identity.name_source),
                (id, "url")
            );
        }
        let [one, other] = ["/a", "/b"].map(|path| of_url_alone(&format!("http://x{path}")));
        assert_ne!(one.fingerprint, other.fingerprint);
    }

    #[test]
    fn urls_lead_to_one_place_however_they_are_written() {
        for same in [
            "HTTP://Example.org:80/mcp/",
            "http://u:p@example.org/mcp?key=1",
            "http://example.org/mcp#x",
        ] {
            assert!(is_same("http://example.org/mcp", same), "{same}");
        }
        for other in [
            "https://example.org/mcp",
            "http://example.org:8080/mcp",
            "http://example.org/other",
            "example.org",
            "",
        ] {
            assert!(!is_same("http://example.org/mcp", other), "{other}");
        }
    }
}
