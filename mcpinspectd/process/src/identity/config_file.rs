//! Reading one configuration file of an MCP client.
//!
//! The daemon may read more than the session's user. A file counts only if that user can reach and read it
//! (see [`walk`](crate::walk)), it is a regular file of their own (or root's, reached without a
//! symbolic link), is not too large, and opens without blocking. Its contents are never obeyed or trusted:
//! they lend a server a name, nothing more.

use std::cmp::Reverse;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::jsonc;
use crate::found_file::FileVersion;
use crate::reader::Reader;
use crate::walk::{Budget, Entry, LastLink, walk};

/// Largest file to read, in bytes. Claude Code keeps its history in the same file.
pub(super) const MAX_FILE: u64 = 8 * 1024 * 1024;
/// Most directories to search on the way to one file.
const MAX_STEPS: u32 = 256;
/// Most servers taken from one file.
pub(super) const MAX_SERVERS: usize = 512;
/// Most servers to look at in one file, usable or not.
const MAX_DESCRIBED: usize = 16 * MAX_SERVERS;
/// Largest description of one server, in bytes.
const MAX_ENTRY: usize = 64 * 1024;

/// The table that contains Codex's servers.
pub(super) const CODEX: &str = "mcp_servers";

/// A server as a configuration describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfiguredServer {
    pub(super) name: String,
    /// The command and its arguments, as written.
    pub(super) argv: Vec<String>,
    /// The working directory that it asks for.
    pub(super) cwd: Option<String>,
    /// The project that it is limited to.
    pub(super) project: Option<String>,
}

/// A server that a configuration describes by its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfiguredUrl {
    pub(super) name: String,
    /// As written. **Secret.**
    pub(super) url: String,
    /// The project that it is limited to.
    pub(super) project: Option<String>,
}

/// Where a file keeps its servers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layout {
    /// `{"KEY": {NAME: …}}`
    Key(&'static str),
    /// `{"mcp": {"servers": {NAME: …}}}`
    VsCodeSettings,
    /// TOML: `[mcp_servers.NAME]`
    Codex,
    /// `{"mcpServers": …, "projects": {PATH: {"mcpServers": …}}}`
    ClaudeCode,
}

/// Opens a user's file under the conditions listed in the module documentation.
pub(super) fn open(path: &Path, reader: &Reader) -> Option<(File, FileVersion)> {
    // Most of them do not exist, and one call tells.
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(CWD, path, flags, Mode::empty()).ok()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, "/", flags, Mode::empty()).ok()?;
    let budget = Budget::new(MAX_STEPS);
    let found = walk(
        root.as_fd(),
        reader,
        path.to_str()?,
        LastLink::Keep,
        &budget,
    )?;
    let Entry::File(file) = found.entry else {
        return None;
    };
    let version = file.version();
    let owner = file.owner();
    // A file owned by root counts only if no symbolic link led to it.
    let counts = owner == reader.uid() || (owner == 0 && !found.followed);
    let is_small = u64::try_from(version.size).is_ok_and(|size| size <= MAX_FILE);
    (counts && is_small).then_some(())?;
    Some((file.file()?, version))
}

/// Reads a user's file under the same conditions.
pub(super) fn read(path: &Path, reader: &Reader) -> Option<Vec<u8>> {
    let (file, _) = open(path, reader)?;
    let mut text = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut text).ok()?;
    Some(text)
}

/// The servers in a file, ordered by name; empty if the file cannot be parsed.
pub(super) fn parse(text: Vec<u8>, layout: Layout) -> Vec<ConfiguredServer> {
    let Some(text) = json(text, layout) else {
        return Vec::new();
    };
    let described = descriptions(&text, layout).into_iter();
    let entries = described.filter_map(|(name, raw, project)| entry(name, raw, project));
    let mut entries: Vec<ConfiguredServer> = entries.take(MAX_SERVERS).collect();
    // A project's own servers come first, then by name: the order in the file must not decide.
    entries.sort_by(|a: &ConfiguredServer, b: &ConfiguredServer| {
        (a.project.is_none(), &a.project, &a.name).cmp(&(b.project.is_none(), &b.project, &b.name))
    });
    entries
}

/// The servers in a file that are described by URL, in the order of [`parse`].
pub(super) fn parse_urls(text: Vec<u8>, layout: Layout) -> Vec<ConfiguredUrl> {
    let Some(text) = json(text, layout) else {
        return Vec::new();
    };
    let described = descriptions(&text, layout).into_iter();
    let entries = described.filter_map(|(name, raw, project)| {
        let url = url(raw)?;
        Some(ConfiguredUrl { name, url, project })
    });
    let mut entries: Vec<ConfiguredUrl> = entries.take(MAX_SERVERS).collect();
    entries.sort_by(|a, b| {
        (a.project.is_none(), &a.project, &a.name).cmp(&(b.project.is_none(), &b.project, &b.name))
    });
    entries
}

/// The URL in the description of one server.
fn url(raw: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Description {
        url: Option<String>,
        http_url: Option<String>,
        server_url: Option<String>,
    }
    if raw.len() > MAX_ENTRY {
        return None;
    }
    let Description {
        url,
        http_url,
        server_url,
    } = serde_json::from_str(raw).ok()?;
    url.or(http_url).or(server_url)
}

/// The description of the server `name`, as text, for someone working in `directory`.
pub(super) fn describe(
    text: Vec<u8>,
    layout: Layout,
    name: &str,
    directory: &Path,
) -> Option<String> {
    let text = json(text, layout)?;
    let mut found = descriptions(&text, layout);
    found.retain(|(other, _, project)| {
        other == name
            && project
                .as_ref()
                .is_none_or(|project| directory.starts_with(project))
    });
    // The nearest project's own comes first.
    found.sort_by_key(|(.., project)| Reverse(project.as_ref().map(String::len)));
    found.first().map(|(_, raw, _)| (*raw).to_owned())
}

/// A configuration as JSON, without its comments.
fn json(mut text: Vec<u8>, layout: Layout) -> Option<String> {
    if let Layout::Codex = layout {
        let mut file: toml::Table = toml::from_str(str::from_utf8(&text).ok()?).ok()?;
        file.retain(|key, _| key == CODEX);
        return serde_json::to_string(&file).ok();
    }
    jsonc::to_json(&mut text);
    String::from_utf8(text).ok()
}

/// The names of servers, their descriptions as text, and the projects that they are limited to.
pub(super) fn descriptions(text: &str, layout: Layout) -> Vec<(String, &str, Option<String>)> {
    let mut found = Vec::new();
    match layout {
        Layout::Key(key) => add(&mut found, member(text, key), None),
        Layout::Codex => add(&mut found, member(text, CODEX), None),
        Layout::VsCodeSettings => {
            let mcp = member(text, "mcp");
            add(&mut found, mcp.and_then(|mcp| member(mcp, "servers")), None);
        }
        Layout::ClaudeCode => {
            for (path, project) in member(text, "projects").map(members).unwrap_or_default() {
                add(&mut found, member(project, "mcpServers"), Some(&path));
            }
            add(&mut found, member(text, "mcpServers"), None);
        }
    }
    found
}

fn add<'t>(
    found: &mut Vec<(String, &'t str, Option<String>)>,
    servers: Option<&'t str>,
    project: Option<&String>,
) {
    let servers = servers.map(members).unwrap_or_default().into_iter();
    let room = MAX_DESCRIBED.saturating_sub(found.len());
    found.extend(
        servers
            .take(room)
            .map(|(name, raw)| (name, raw, project.cloned())),
    );
}

/// A command as clients write it: Zed nests `command.path`, OpenCode has one list.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Command {
    Path(String),
    Words(Vec<Argument>),
    Nested {
        path: String,
        #[serde(default)]
        args: Vec<Argument>,
    },
}

/// An argument as clients write it.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Argument {
    Text(String),
    Number(serde_json::Number),
}

impl Argument {
    /// Its text.
    pub(super) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
        }
    }
}

/// A command and its arguments.
pub(super) fn argv(command: Command, args: Vec<Argument>) -> Vec<String> {
    let (path, nested) = match command {
        Command::Path(path) => (Some(path), Vec::new()),
        Command::Words(words) => (None, words),
        Command::Nested { path, args } => (Some(path), args),
    };
    let words = nested.into_iter().chain(args).map(Argument::text);
    path.into_iter().chain(words).collect()
}

/// Parses the description of one server.
fn entry(name: String, raw: &str, project: Option<String>) -> Option<ConfiguredServer> {
    #[derive(Deserialize)]
    struct Description {
        command: Command,
        #[serde(default)]
        args: Vec<Argument>,
        #[serde(default)]
        cwd: Option<String>,
    }
    if raw.len() > MAX_ENTRY {
        return None;
    }
    let Description { command, args, cwd } = serde_json::from_str(raw).ok()?;
    let argv = argv(command, args);
    let server = ConfiguredServer {
        name,
        argv,
        cwd,
        project,
    };
    (!server.argv.is_empty()).then_some(server)
}

/// The value of one member of an object, unparsed; the last one if the member is repeated.
fn member<'t>(object: &'t str, key: &str) -> Option<&'t str> {
    members_where(object, |name| name == key)
        .pop()
        .map(|(_, value)| value)
}

/// The members of an object, unparsed: at most [`MAX_SERVERS`].
fn members(object: &str) -> Vec<(String, &str)> {
    members_where(object, |_| true)
}

/// Reads an object without building its values: a file of eight megabytes must not take hundreds of
/// megabytes of memory for parts that are not needed.
fn members_where(object: &str, wanted: impl Fn(&str) -> bool) -> Vec<(String, &str)> {
    struct Members<F>(F);
    impl<'t, F: Fn(&str) -> bool> Visitor<'t> for Members<F> {
        type Value = Vec<(String, &'t str)>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = Vec::new();
            while let Some(key) = map.next_key::<String>()? {
                if found.len() < MAX_SERVERS && (self.0)(&key) {
                    found.push((key, map.next_value::<&RawValue>()?.get()));
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    serde_json::Deserializer::from_str(object)
        .deserialize_map(Members(wanted))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MCP_SERVERS: Layout = Layout::Key("mcpServers");

    #[test]
    fn large_and_broken_files_stay_within_bounds() {
        let many: Vec<String> = (0..2000)
            .map(|i| format!(r#""s{i}":{{"command":"c{i}"}}"#))
            .collect();
        let text = format!(r#"{{"mcpServers":{{{}}}}}"#, many.join(","));
        assert_eq!(parse(text.into_bytes(), MCP_SERVERS).len(), MAX_SERVERS);
        let long = format!(
            r#"{{"mcpServers":{{"a":{{"command":"{}"}},"b":{{"command":"x"}}}}}}"#,
            "y".repeat(MAX_ENTRY)
        );
        let entries = parse(long.into_bytes(), MCP_SERVERS);
        assert_eq!(entries.len(), 1);
        for text in [
            "",
            "[",
            "null",
            "{\"mcpServers\": []}",
            "{\"mcpServers\": {\"a\": 1}}",
            "\u{feff}",
            "{\"mcpServers\":",
        ] {
            assert_eq!(parse(text.as_bytes().to_vec(), MCP_SERVERS), []);
        }
        let deep = "[".repeat(1 << 20);
        assert_eq!(
            parse(format!("{{\"mcpServers\":{deep}").into_bytes(), MCP_SERVERS),
            []
        );
    }

    #[test]
    fn lists_and_toml_are_read() {
        let opencode = r#"{"mcp": {"a": {"type": "local", "command": ["npx", "-y", 1]}, "b": {"type": "remote", "url": "x"}, "c": {"command": []}}}"#;
        let entries = parse(opencode.into(), Layout::Key("mcp"));
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].argv, ["npx", "-y", "1"]);
        let urls = parse_urls(opencode.into(), Layout::Key("mcp"));
        assert_eq!(urls.len(), 1);
        assert_eq!((&*urls[0].name, &*urls[0].url), ("b", "x"));
        let codex = "a = 1\n[mcp_servers.files]\ncommand = 'npx'\nargs = [\"-y\"]\nenv = { A = \"b\" }\n[mcp_servers.remote]\nurl = 'x'\n";
        let entries = parse(codex.into(), Layout::Codex);
        assert_eq!(entries.len(), 1);
        assert_eq!(
            (&*entries[0].name, entries[0].argv.join(" ")),
            ("files", "npx -y".to_owned())
        );
        for text in [
            "",
            "[",
            "mcp_servers = 1",
            "[mcp_servers]\na = 1",
            "\u{feff}",
        ] {
            assert_eq!(parse(text.into(), Layout::Codex), []);
        }
    }

    proptest! {
        #[test]
        fn any_file(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[\\[\\]{}\":,/* a-c\\\\]{0,60}") {
            for layout in [MCP_SERVERS, Layout::VsCodeSettings, Layout::ClaudeCode, Layout::Codex] {
                let _ = parse(bytes.clone(), layout);
                let _ = parse(text.clone().into_bytes(), layout);
                let _ = parse(format!("{{\"mcpServers\":{{\"a\":{text}}}}}").into_bytes(), layout);
            }
        }
    }
}
