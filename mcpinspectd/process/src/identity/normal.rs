//! Names and arguments in the form in which they are compared.
//!
//! When the same server is started by another user, from another home directory, by a newer package
//! manager, or with a fresh token, the fingerprint must not change. A server started with another tool
//! set, against another endpoint, or from another script must have another one. So:
//!
//! | part of the launch | takes part as |
//! |---|---|
//! | package, image, script | its name without version, tag, digest, extras |
//! | options and plain words | as written, in their order |
//! | secrets | `<secret>` |
//! | directories and files | `<path>`; a file with an extension keeps its name, `<path>/tools.json` |
//! | URLs | scheme, host and path; no user, query or random path segment |
//! | numbers of four digits or more, UUIDs, hashes | `<n>`, `<id>` |
//!
//! The price of leaving directories out: two `filesystem` servers that differ only in the
//! directory they serve are one server to the registry. They run the same code and offer the same
//! tools, and a pin that applied to one project only would have to be approved again in each.

use mcpinspect_core::text::redact;

/// `@scope/name@1.2.3` → `@scope/name`.
pub(super) fn npm_name(spec: &str) -> String {
    let spec = spec.split_once("@npm:").map_or(spec, |(_, real)| real);
    if spec.contains("://") || spec.starts_with("github:") {
        return without_revision(spec);
    }
    // A scope begins with the same character that precedes a version.
    let from = usize::from(spec.starts_with('@'));
    match spec[from..].find('@') {
        Some(at) => spec[..from + at].to_owned(),
        None => spec.to_owned(),
    }
}

/// `Mcp_Server.Git[extra]==1.0` → `mcp-server-git` (PEP 503, PEP 508).
pub(super) fn pypi_name(spec: &str) -> String {
    if spec.contains("://") {
        return without_revision(spec);
    }
    if spec.starts_with(['.', '/', '~']) {
        return spec.to_owned();
    }
    let end = spec
        .find(['[', '@', '=', '<', '>', '!', '~', ';', ' '])
        .unwrap_or(spec.len());
    let mut name = String::with_capacity(end);
    for c in spec[..end].chars() {
        match c {
            '-' | '_' | '.' if name.ends_with('-') => {}
            '-' | '_' | '.' => name.push('-'),
            c => name.extend(c.to_lowercase()),
        }
    }
    // `python -m package.__main__` is the package.
    name.strip_suffix("---main--")
        .or_else(|| name.strip_suffix("-main-"))
        .map(str::to_owned)
        .unwrap_or(name)
}

/// `docker.io/library/x:1@sha256:…` → `x`.
pub(super) fn image_name(image: &str) -> String {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    let image = match image.rfind(':') {
        // A colon before the last slash belongs to the registry's port.
        Some(colon) if !image[colon..].contains('/') => &image[..colon],
        _ => image,
    };
    let image = image.strip_prefix("docker.io/").unwrap_or(image);
    image.strip_prefix("library/").unwrap_or(image).to_owned()
}

/// A source repository's address without branch, revision, credentials and fragment.
fn without_revision(spec: &str) -> String {
    let spec = spec.split(['#', '?']).next().unwrap_or(spec);
    let (scheme, rest) = spec.split_once("://").unwrap_or(("", spec));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit('@').next().unwrap_or(host);
    let path = path.split('@').next().unwrap_or(path);
    let path = path.strip_suffix(".git").unwrap_or(path);
    let scheme = scheme.strip_prefix("git+").unwrap_or(scheme);
    match (scheme, path) {
        ("", "") => host.to_owned(),
        ("", path) => format!("{host}/{path}"),
        (scheme, path) => format!("{scheme}://{host}/{path}"),
    }
}

/// `path` as seen from `base`, with `.` and `..` resolved lexically.
pub(super) fn join(base: &str, path: &str) -> String {
    let whole = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{base}/{path}")
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// A program's or script's path in a form that is the same for every user and host: `~` for the
/// home directory, `<tmp>` for temporary ones, no cache hashes; a program in a `bin` directory
/// is just its name.
pub(super) fn location(path: &str, home: Option<&str>) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    if let [.., bin, name] = parts.as_slice()
        && matches!(*bin, "bin" | "sbin" | ".bin" | "Scripts" | "libexec")
    {
        return (*name).to_owned();
    }
    let mut prefix = "";
    if let Some(rest) = inside(path, home) {
        prefix = "~/";
        parts = rest.split('/').collect();
    } else if let Some(rest) = ["/tmp/", "/var/tmp/", "/dev/shm/"]
        .iter()
        .find_map(|tmp| path.strip_prefix(tmp))
    {
        prefix = "<tmp>/";
        parts = rest.split('/').collect();
        // The name of a temporary directory is new each time.
        if parts.len() > 1 {
            parts.remove(0);
        }
    }
    let parts: Vec<&str> = parts
        .into_iter()
        .map(|part| if is_opaque(part) { "<id>" } else { part })
        .collect();
    format!("{prefix}{}", parts.join("/"))
}

/// What follows the home directory: the given one, or one in the usual places.
fn inside<'p>(path: &'p str, home: Option<&str>) -> Option<&'p str> {
    if let Some(home) = home.filter(|home| home.len() > 1)
        && let Some(rest) = path.strip_prefix(home)
        && let Some(rest) = rest.strip_prefix('/')
    {
        return Some(rest);
    }
    if let Some(rest) = path
        .strip_prefix("~/")
        .or_else(|| path.strip_prefix("/root/"))
    {
        return Some(rest);
    }
    let users = path.strip_prefix("/var").unwrap_or(path);
    let (_, rest) = users.strip_prefix("/home/")?.split_once('/')?;
    Some(rest)
}

/// Arguments in the form in which they enter the fingerprint.
pub(super) fn arguments(args: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::with_capacity(args.len());
    for arg in redact::command_line(args) {
        let normal = match arg.split_once('=') {
            Some((name, value)) if name.starts_with('-') => format!("{name}={}", word(value)),
            _ => word(&arg),
        };
        // However many directories there are.
        if out.last() != Some(&normal) || !normal.starts_with('<') {
            out.push(normal);
        }
    }
    out
}

fn word(value: &str) -> String {
    if value.contains("«redacted:") && !value.contains("://") {
        return "<secret>".to_owned();
    }
    if value.contains("://") && !value.contains(char::is_whitespace) {
        return url(value);
    }
    if value == "."
        || value == ".."
        || value == "~"
        || value.starts_with(['/', '~'])
        || value.starts_with("./")
        || value.starts_with("../")
    {
        let name = value.rsplit('/').next().unwrap_or(value);
        return match name.rsplit_once('.') {
            Some((stem, extension))
                if !stem.is_empty()
                    && (1..=5).contains(&extension.len())
                    && extension.bytes().all(|b| b.is_ascii_alphanumeric())
                    && extension.bytes().any(|b| b.is_ascii_alphabetic())
                    && !value.starts_with("/tmp/") =>
            {
                format!("<path>/{name}")
            }
            _ => "<path>".to_owned(),
        };
    }
    if value.len() >= 4 && value.bytes().all(|b| b.is_ascii_digit()) {
        return "<n>".to_owned();
    }
    if is_opaque(value) {
        return "<id>".to_owned();
    }
    value.to_owned()
}

fn url(value: &str) -> String {
    let (scheme, rest) = value.split_once("://").unwrap_or(("", value));
    if scheme == "file" {
        return word(rest);
    }
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let mut parts = rest.split('/');
    let authority = parts.next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let host = match host.rsplit_once(':') {
        Some((name, port))
            if port.len() >= 4 && matches!(name, "localhost" | "127.0.0.1" | "[::1]") =>
        {
            format!("{name}:<n>")
        }
        _ => host.to_lowercase(),
    };
    let path = parts
        .filter(|part| !part.is_empty())
        .map(|part| if is_opaque(part) { "<id>" } else { part });
    let parts: Vec<&str> = std::iter::once(host.as_str()).chain(path).collect();
    format!("{}://{}", scheme.to_lowercase(), parts.join("/"))
}

/// Whether a word is a UUID, a hash or another made-up identifier.
fn is_opaque(part: &str) -> bool {
    let letters = part.bytes().filter(|b| *b != b'-').count();
    let hex = part.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    let digits = part.bytes().filter(u8::is_ascii_digit).count();
    (letters >= 16 && hex && digits >= 2)
        || (letters >= 20
            && digits >= 3
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            && part.bytes().any(|b| b.is_ascii_uppercase())
            && part.bytes().any(|b| b.is_ascii_lowercase()))
}

/// Longest readable name, in bytes.
const ID_MAX: usize = 48;

/// A name reduced to what cannot be mistaken or forged: ASCII letters, digits, `.`, `_` and `-`.
/// `None` if nothing is left.
pub(super) fn clean_id(name: &str) -> Option<String> {
    let mut id = String::new();
    for c in name.chars().take(4 * ID_MAX) {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') {
            id.push(c);
        } else if !id.ends_with('-') {
            id.push('-');
        }
        if id.len() >= ID_MAX {
            break;
        }
    }
    let id = id.trim_matches(['-', '.']);
    id.bytes()
        .any(|b| b.is_ascii_alphanumeric())
        .then(|| id.to_owned())
}

/// Words that packages add to say that they are an MCP server, and that distinguish nothing.
const AFFIXES: [&str; 9] = [
    "modelcontextprotocol",
    "mcp",
    "server",
    "servers",
    "stdio",
    "py",
    "python",
    "node",
    "js",
];

/// A short readable name for a package: `@modelcontextprotocol/server-filesystem` → `filesystem`,
/// `mcp-server-git` → `git`, `@playwright/mcp` → `playwright`.
pub(super) fn package_id(name: &str) -> Option<String> {
    let trimmed = name.trim_end_matches('/');
    let mut parts = trimmed.rsplit('/').filter(|part| !part.is_empty());
    let last = parts.next()?;
    if let Some(id) = essence(last) {
        return clean_id(&id);
    }
    // The scope or owner says more than `mcp` or `server` does.
    parts
        .next()
        .and_then(|owner| essence(owner.trim_start_matches('@')))
        .and_then(|id| clean_id(&id))
        .or_else(|| clean_id(last))
}

/// The meaningful words of a name.
fn essence(name: &str) -> Option<String> {
    let words: Vec<&str> = name
        .split(['-', '_'])
        .filter(|word| !word.is_empty())
        .collect();
    let telling = |word: &&str| !AFFIXES.iter().any(|affix| word.eq_ignore_ascii_case(affix));
    let first = words.iter().position(telling)?;
    let last = words.iter().rposition(telling)?;
    Some(words.get(first..=last)?.join("-"))
}

/// A short readable name for a script or program: its own, or the directory's if the file has
/// the name that every project uses.
pub(super) fn path_id(path: &str) -> Option<String> {
    const GENERIC: [&str; 22] = [
        "index",
        "main",
        "server",
        "cli",
        "app",
        "run",
        "start",
        "stdio",
        "mcp",
        "mcp_server",
        "mcp-server",
        "__main__",
        "dist",
        "build",
        "out",
        "src",
        "lib",
        "bin",
        "target",
        "release",
        "debug",
        "packages",
    ];
    const EXTENSIONS: [&str; 13] = [
        "js", "mjs", "cjs", "ts", "mts", "py", "rb", "sh", "jar", "dll", "php", "pl", "lua",
    ];
    let mut fallback = None;
    for part in path.rsplit('/').filter(|part| !part.is_empty()).take(6) {
        let stem = match part.rsplit_once('.') {
            Some((stem, extension)) if EXTENSIONS.contains(&extension) && !stem.is_empty() => stem,
            _ => part,
        };
        let placeholder = matches!(
            stem,
            "~" | "<tmp>" | "<id>" | "home" | "root" | "tmp" | "opt" | "usr" | "srv"
        );
        if placeholder {
            break;
        }
        if GENERIC.contains(&stem.to_ascii_lowercase().as_str()) {
            fallback = fallback.or(Some(stem));
            continue;
        }
        if let Some(id) = essence(stem).and_then(|id| clean_id(&id)) {
            return Some(id);
        }
        fallback = fallback.or(Some(stem));
    }
    fallback.and_then(clean_id)
}

/// The host of the first URL among the arguments, after which a bridge to a remote server is named.
pub(super) fn first_host(args: &[String]) -> Option<String> {
    let url = args
        .iter()
        .find(|arg| arg.starts_with("http://") || arg.starts_with("https://"))?;
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    clean_id(host.split(':').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn package_names() {
        assert_eq!(npm_name("@a/b@1.2.3"), "@a/b");
        assert_eq!(npm_name("@a/b"), "@a/b");
        assert_eq!(npm_name("b@latest"), "b");
        assert_eq!(npm_name("x@npm:@a/b@1"), "@a/b");
        assert_eq!(npm_name("github:o/r#main"), "github:o/r");
        assert_eq!(
            npm_name("git+https://u:p@github.com/o/r.git#v1"),
            "https://github.com/o/r"
        );
        assert_eq!(pypi_name("Mcp_Server.Git[x]==1.0"), "mcp-server-git");
        assert_eq!(pypi_name("mcp-server-git@latest"), "mcp-server-git");
        assert_eq!(pypi_name("mcp_server_time.__main__"), "mcp-server-time");
        assert_eq!(
            pypi_name("git+https://github.com/o/r@main#subdirectory=x"),
            "https://github.com/o/r"
        );
        assert_eq!(image_name("docker.io/library/x:1"), "x");
        assert_eq!(image_name("reg:5000/a/b@sha256:00"), "reg:5000/a/b");
        assert_eq!(
            image_name("ghcr.io/github/github-mcp-server:v1"),
            "ghcr.io/github/github-mcp-server"
        );
    }

    #[test]
    fn short_names() {
        for (name, id) in [
            ("@modelcontextprotocol/server-filesystem", "filesystem"),
            (
                "@modelcontextprotocol/server-sequential-thinking",
                "sequential-thinking",
            ),
            ("mcp-server-git", "git"),
            ("mcp-server-time", "time"),
            ("@playwright/mcp", "playwright"),
            ("@notionhq/notion-mcp-server", "notion"),
            ("@upstash/context7-mcp", "context7"),
            ("ghcr.io/github/github-mcp-server", "github"),
            ("mcp/filesystem", "filesystem"),
            ("fastmcp", "fastmcp"),
            ("mcp-server", "mcp-server"),
            ("mcp", "mcp"),
            ("https://github.com/oraios/serena", "serena"),
        ] {
            assert_eq!(package_id(name).as_deref(), Some(id), "{name}");
        }
        for (path, id) in [
            ("~/src/weather/build/index.js", "weather"),
            ("~/src/weather-server/src/server.py", "weather"),
            ("/opt/x/my_tool.py", "my-tool"),
            ("<tmp>/server.py", "server"),
            ("github-mcp-server", "github"),
            ("/srv/mcp.jar", "mcp"),
        ] {
            assert_eq!(path_id(path).as_deref(), Some(id), "{path}");
        }
        assert_eq!(clean_id("a b\u{202e}#x/é"), Some("a-b-x".to_owned()));
        assert_eq!(clean_id("服务器"), None);
        assert_eq!(clean_id("#"), None);
    }

    #[test]
    fn places() {
        assert_eq!(location("/home/a/x/s.py", None), "~/x/s.py");
        assert_eq!(location("/root/x/s.py", None), "~/x/s.py");
        assert_eq!(location("/data/me/x/s.py", Some("/data/me")), "~/x/s.py");
        assert_eq!(
            location("/data/meme/x/s.py", Some("/data/me")),
            "/data/meme/x/s.py"
        );
        assert_eq!(location("/usr/local/bin/foo", None), "foo");
        assert_eq!(location("/nix/store/0c1l-foo-1.2/bin/foo", None), "foo");
        assert_eq!(location("/tmp/pytest-7/s.py", None), "<tmp>/s.py");
        assert_eq!(location("/tmp/s.py", None), "<tmp>/s.py");
        assert_eq!(
            location("/home/a/.cache/uv/archive-v0/0123456789abcdef01/x.py", None),
            "~/.cache/uv/archive-v0/<id>/x.py"
        );
        assert_eq!(join("/a/b", "../c/./d"), "/a/c/d");
        assert_eq!(join("/a", "../../../x"), "/x");
        assert_eq!(join("/a", "/b"), "/b");
    }

    #[test]
    fn arguments_keep_what_tells_servers_apart() {
        let normal = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            arguments(&args).join(" ")
        };
        assert_eq!(normal(&["/home/a/x", "/srv/y", "."]), "<path>");
        assert_eq!(
            normal(&["--config", "/etc/a/tools.json", "--ro"]),
            "--config <path>/tools.json --ro"
        );
        assert_eq!(
            normal(&["--dir=/a/b", "--port", "31337", "-n", "3"]),
            "--dir=<path> --port <n> -n 3"
        );
        assert_eq!(
            normal(&["--api-key", "abc", "--token=x1y2z3"]),
            "--api-key <secret> --token=<secret>"
        );
        assert_eq!(
            normal(&["https://u:pw@Host.example/api/s/a1B2c3D4e5F6g7H8i9J0k1/mcp?key=1"]),
            "https://host.example/api/s/<id>/mcp"
        );
        assert_eq!(
            normal(&["http://localhost:40123/x", "file:///home/a/x"]),
            "http://localhost:<n>/x <path>"
        );
        assert_eq!(normal(&["123e4567-e89b-12d3-a456-426614174000"]), "<id>");
        assert_eq!(
            normal(&["stdio", "--toolsets", "repos,issues"]),
            "stdio --toolsets repos,issues"
        );
        assert_eq!(
            normal(&["--repository", "~/x", "--repository", "~/y"]),
            "--repository <path> --repository <path>"
        );
    }

    proptest! {
        #[test]
        fn nothing_panics_and_normal_stays_normal(text in ".*", more in prop::collection::vec(".*", 0..4)) {
            let _ = (npm_name(&text), pypi_name(&text), image_name(&text), package_id(&text), path_id(&text));
            let _ = (location(&text, Some("/home/x")), join(&text, &text), first_host(&more));
            prop_assert!(clean_id(&text).is_none_or(|id| id.len() <= ID_MAX && !id.contains('#')));
            let once = arguments(&more);
            prop_assert!(once.len() <= more.len());
        }
    }
}
