//! A server known by its URL: one on another machine, or without a visible process.

use mcpinspect_core::model::{ServerId, ServerIdentity};
use sha2::{Digest as _, Sha256};

use super::clients::{ClientConfigs, ConfiguredName};
use super::fingerprint::shortened;
use super::{launch, normal};
use crate::ProcessInfo;

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

fn identity(url: &str, named: Option<&ConfiguredName>) -> ServerIdentity {
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
}
