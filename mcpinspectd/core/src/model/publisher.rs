//! Who publishes a package, by its name.
//!
//! Registries assign each scope and owner to one account: no one else can publish `@acme/tickets` or
//! `github.com/acme/tickets`. So two packages with the same owner come from one maker. If a registry has
//! no owners in its names (PyPI, npm without a scope), the package itself stands for its maker. A prefix
//! such as `acme-` or `acme.` proves nothing: anyone may choose it.

/// Namespaces in which one account publishes the work of many.
const COLLECTIONS: [&str; 3] = ["mcp", "library", "mcp-catalog"];

/// The publisher of a package, written as a source (`npm`, `pypi`, `image`, `deno`, `file`), a colon, and a
/// name without version. Other names count only if they show an owner (`@scope/name`, `owner/name`).
pub fn publisher(package: &str) -> Option<Box<str>> {
    let package = package.trim();
    let (source, name) = match package.split_once(':') {
        Some((source @ ("npm" | "pypi" | "image" | "deno" | "file"), name)) => (Some(source), name),
        _ => (None, package),
    };
    if name.is_empty() {
        return None;
    }
    if source == Some("file") {
        return Some(package.into());
    }
    let bare = name.split_once("://").map_or(name, |(_, rest)| rest);
    let bare = bare.strip_prefix("git@").unwrap_or(bare);
    let mut parts = bare.split('/').filter(|part| !part.is_empty());
    let first = parts.next()?;
    let second = parts.next();
    let owner = match (first.starts_with('@'), first.contains('.'), second) {
        (true, _, Some(_)) => {
            return Some(format!("npm:{}", first.to_lowercase()).into());
        }
        // A host: the next part is the owner, if anything follows it.
        (false, true, Some(owner)) if parts.next().is_some() => format!("{first}/{owner}"),
        (false, false, Some(_)) if source == Some("image") => format!("docker.io/{first}"),
        (false, false, Some(_)) => format!("github.com/{first}"),
        _ => return source.map(|source| format!("{source}:{}", name.to_lowercase()).into()),
    };
    match COLLECTIONS.contains(&owner.rsplit('/').next().unwrap_or_default()) {
        true => Some(format!("image:{}", name.to_lowercase()).into()),
        false => Some(owner.to_lowercase().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::publisher;

    #[test]
    fn scopes_and_owners_are_publishers() {
        let cases = [
            ("npm:@acme/tickets", Some("npm:@acme")),
            ("@Acme/tickets", Some("npm:@acme")),
            ("npm:tickets", Some("npm:tickets")),
            ("pypi:acme.tickets", Some("pypi:acme.tickets")),
            (
                "pypi:git+https://github.com/Acme/tickets",
                Some("github.com/acme"),
            ),
            ("image:ghcr.io/acme/tickets", Some("ghcr.io/acme")),
            ("image:acme/tickets", Some("docker.io/acme")),
            ("image:mcp/tickets", Some("image:mcp/tickets")),
            ("image:tickets", Some("image:tickets")),
            ("file:/srv/tickets.py", Some("file:/srv/tickets.py")),
            ("acme/tickets/sub", Some("github.com/acme")),
            ("tickets", None),
            ("My Tickets: the server", None),
            ("npm:", None),
            ("", None),
        ];
        for (package, expected) in cases {
            assert_eq!(publisher(package).as_deref(), expected, "{package}");
        }
    }
}
