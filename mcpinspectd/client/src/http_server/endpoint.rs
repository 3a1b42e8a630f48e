//! Where a server is, and which other URLs are the same server.
//!
//! What a person provides for one server (a token in a header, the arguments of a tool) goes to no other. So a
//! URL that the server itself names, in a redirect or in its stream of events, must have the same origin.

use anyhow::{Context as _, bail, ensure};
use hyper::Uri;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::http::uri::Scheme;
use mcpinspect_core::text::escape::printable;

/// Longest quotation of a URL, in characters.
const QUOTED: usize = 200;

/// A server's URL, and the headers that are sent there with every request.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
}

impl Endpoint {
    /// Parses them. Header names may be in any case.
    ///
    /// # Errors
    /// In words: it is not an HTTP URL, or something is not a header.
    pub fn new(url: &str, headers: &[(String, String)]) -> anyhow::Result<Self> {
        let quoted = || printable(url, QUOTED);
        let uri: Uri = url
            .parse()
            .with_context(|| format!("invalid URL `{}`", quoted()))?;
        ensure!(
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty()),
            "`{}` is not an HTTP URL: expected `https://HOST/PATH`",
            quoted()
        );
        if uri
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'))
        {
            bail!("put the user and password into a header, not into the URL");
        }
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let invalid = || format!("invalid header `{}`", printable(name, QUOTED));
            let header: HeaderName = name.parse().with_context(invalid)?;
            ensure!(
                header != CONTENT_LENGTH && header != TRANSFER_ENCODING,
                "the header `{header}` is set from the message; remove it"
            );
            let mut value: HeaderValue = value.parse().with_context(invalid)?;
            value.set_sensitive(true);
            all.append(header, value);
        }
        Ok(Self { uri, headers: all })
    }

    /// Where it is.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The same server at another URL that it named.
    pub(super) fn at(&self, uri: Uri) -> Self {
        Self {
            uri,
            headers: self.headers.clone(),
        }
    }
}

/// A URL for display: what follows the path may be secret.
pub fn shown(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or_default();
    let host = uri.authority().map_or("", |authority| authority.as_str());
    printable(&format!("{scheme}://{host}{}", uri.path()), QUOTED)
}

fn port(uri: &Uri) -> u16 {
    let usual = if uri.scheme() == Some(&Scheme::HTTPS) {
        443
    } else {
        80
    };
    uri.port_u16().unwrap_or(usual)
}

/// Whether what is meant for `from` may go to `to`: the same origin, or the same host with TLS.
pub fn is_same_server(from: &Uri, to: &Uri) -> bool {
    let host = |uri: &Uri| uri.host().unwrap_or_default().to_ascii_lowercase();
    if host(from) != host(to) {
        return false;
    }
    match (from.scheme_str(), to.scheme_str()) {
        (Some("http"), Some("https")) => port(from) == 80 && port(to) == 443,
        (from_scheme, to_scheme) => from_scheme == to_scheme && port(from) == port(to),
    }
}

/// The URL that `reference` means in an answer from `base`; `None` if it is not an HTTP URL.
pub fn resolve(base: &Uri, reference: &str) -> Option<Uri> {
    let reference = reference.split('#').next().unwrap_or_default().trim();
    let scheme = base.scheme_str()?;
    let origin = format!("{scheme}://{}", base.authority()?);
    let before_colon = reference.split(['/', '?']).next().unwrap_or_default();
    let whole = if before_colon.contains(':') {
        reference.to_owned()
    } else if reference.starts_with("//") {
        format!("{scheme}:{reference}")
    } else if reference.starts_with('/') {
        format!("{origin}{reference}")
    } else if reference.starts_with('?') {
        format!("{origin}{}{reference}", base.path())
    } else {
        let folder = base
            .path()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        format!("{origin}{folder}/{reference}")
    };
    let uri: Uri = whole.parse().ok()?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let has_user = uri.authority()?.as_str().contains('@');
    (is_http && !has_user).then_some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for url in [
            "",
            "example.org/mcp",
            "ftp://example.org",
            "https://",
            "https://u:p@example.org/",
            "a b",
        ] {
            assert!(Endpoint::new(url, &[]).is_err(), "{url}");
        }
        for (name, value) in [("a b", "x"), ("a", "x\ny"), ("Content-Length", "1")] {
            let headers = [(name.to_owned(), value.to_owned())];
            assert!(Endpoint::new("http://h/", &headers).is_err(), "{name}");
        }
        assert!(Endpoint::new("http://[::1]:80/mcp?key=1", &[]).is_ok());
    }

    #[test]
    fn a_url_is_shown_without_its_secrets() {
        assert_eq!(shown(&uri("https://h:1/mcp?key=secret")), "https://h:1/mcp");
    }

    #[test]
    fn only_the_same_origin_is_the_same_server() {
        for (from, to, same) in [
            ("http://h/mcp", "http://h/mcp/", true),
            ("http://h/", "http://H:80/x", true),
            ("http://h/", "https://h/", true),
            ("https://h/", "http://h/", false),
            ("http://h:8080/", "https://h:8080/", false),
            ("https://h/", "https://h:444/", false),
            ("https://h/", "https://h.evil/", false),
        ] {
            assert_eq!(is_same_server(&uri(from), &uri(to)), same, "{from} {to}");
        }
    }

    #[test]
    fn references_are_resolved_as_browsers_do() {
        let base = uri("https://h:1/a/b?c=d");
        for (reference, expected) in [
            ("/x?y=1#z", "https://h:1/x?y=1"),
            ("x", "https://h:1/a/x"),
            ("?y", "https://h:1/a/b?y"),
            ("//other/x", "https://other/x"),
            ("http://other/x:y", "http://other/x:y"),
            ("/x:y", "https://h:1/x:y"),
        ] {
            assert_eq!(
                resolve(&base, reference).unwrap(),
                uri(expected),
                "{reference}"
            );
        }
        for reference in ["ftp://h/", "javascript:x", "https://u@h/", "http://"] {
            assert_eq!(resolve(&base, reference), None, "{reference}");
        }
    }
}
