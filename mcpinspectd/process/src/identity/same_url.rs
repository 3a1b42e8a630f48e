//! Whether a configuration's entry leads to a server that was seen.

use std::path::Path;

/// Whether two URLs lead to the same place: queries, credentials and a trailing slash make no difference.
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

/// The host of a server that is reached over TLS, in lower case.
pub(super) fn secure_host(url: &str) -> Option<String> {
    let (scheme, host, _, _) = parts(url)?;
    (scheme == "https").then_some(host)
}

/// Whether a process works in a project, or below it.
pub(super) fn is_within(project: &str, directory: Option<&str>) -> bool {
    directory.is_some_and(|directory| Path::new(directory).starts_with(project))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_encrypted_has_a_secure_host() {
        let host = |url| secure_host(url);
        assert_eq!(
            host("HTTPS://u:p@Example.org:8443/mcp?key=1"),
            Some("example.org".to_owned())
        );
        assert_eq!(host("http://example.org/mcp"), None);
        assert_eq!(host("example.org"), None);
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
