//! The names that people gave their servers, in the configurations of their MCP clients.
//!
//! Every client has a file, in the home directory or in the project, that maps names to commands.
//! The daemon reads them with more rights than their owner has, so a file counts only if it is
//! a regular file of the session's own user (or of root, reached without a symbolic link), is
//! not too large, and opens without waiting. What stands in it is never obeyed and never trusted: it
//! lends a server a name, no more. Files are parsed once per version of theirs (device, inode, size,
//! modification time).

use std::collections::HashMap;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Launch, jsonc, matching};

/// Largest file that is read, in bytes. Claude Code keeps its history in the same file.
pub const MAX_FILE: u64 = 8 * 1024 * 1024;
/// Most servers taken from one file.
pub const MAX_SERVERS: usize = 512;
/// Largest description of one server, in bytes.
pub const MAX_ENTRY: usize = 64 * 1024;
/// How far up from a working directory project files are looked for.
const MAX_LEVELS: usize = 24;
/// Most files remembered.
const MAX_CACHED: usize = 256;

/// A name for a server, and the client whose configuration has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// As written in the file, not cleaned.
    pub name: String,
    /// The client, such as `claude-code`.
    pub client: &'static str,
}

/// A server as a configuration describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// The command and its arguments, as written.
    pub(super) argv: Vec<String>,
    /// The working directory it asks for.
    pub(super) cwd: Option<String>,
    /// The project that it is limited to.
    pub(super) project: Option<String>,
}

/// Where in a file the servers stand.
#[derive(Clone, Copy, Debug)]
enum Layout {
    /// `{"KEY": {NAME: …}}`
    Key(&'static str),
    /// `{"mcp": {"servers": {NAME: …}}}`
    VsCodeSettings,
    /// `{"mcpServers": …, "projects": {PATH: {"mcpServers": …}}}`
    ClaudeCode,
}

/// One client's file.
struct Source {
    client: &'static str,
    /// Relative to the home or project directory.
    path: &'static str,
    layout: Layout,
}

const fn source(client: &'static str, path: &'static str, layout: Layout) -> Source {
    Source {
        client,
        path,
        layout,
    }
}

const MCP_SERVERS: Layout = Layout::Key("mcpServers");

/// In a project's directory or above.
const PROJECT_FILES: &[Source] = &[
    source("claude-code", ".mcp.json", MCP_SERVERS),
    source("cursor", ".cursor/mcp.json", MCP_SERVERS),
    source("vscode", ".vscode/mcp.json", Layout::Key("servers")),
    source("gemini", ".gemini/settings.json", MCP_SERVERS),
    source("zed", ".zed/settings.json", Layout::Key("context_servers")),
];

/// In the home directory.
const HOME_FILES: &[Source] = &[
    source("claude-code", ".claude.json", Layout::ClaudeCode),
    source(
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
        MCP_SERVERS,
    ),
    source("cursor", ".cursor/mcp.json", MCP_SERVERS),
    source(
        "vscode",
        ".config/Code/User/mcp.json",
        Layout::Key("servers"),
    ),
    source(
        "vscode",
        ".config/Code/User/settings.json",
        Layout::VsCodeSettings,
    ),
    source(
        "vscode",
        ".config/Code - Insiders/User/mcp.json",
        Layout::Key("servers"),
    ),
    source(
        "vscode",
        ".config/VSCodium/User/mcp.json",
        Layout::Key("servers"),
    ),
    source("windsurf", ".codeium/windsurf/mcp_config.json", MCP_SERVERS),
    source("gemini", ".gemini/settings.json", MCP_SERVERS),
    source(
        "zed",
        ".config/zed/settings.json",
        Layout::Key("context_servers"),
    ),
];

/// How the programs of a client are called; the longest telling part of the name.
const PROGRAMS: &[(&str, &str)] = &[
    ("claude-desktop", "claude-desktop"),
    ("claude", "claude-code"),
    ("cursor", "cursor"),
    ("code", "vscode"),
    ("codium", "vscode"),
    ("windsurf", "windsurf"),
    ("gemini", "gemini"),
    ("zed", "zed"),
];

/// A file's version.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    dev: u64,
    ino: u64,
    size: i64,
    modified: (i64, i64),
}

type Entries = Arc<Vec<Entry>>;

/// Reads the clients' configurations, and remembers what it read.
#[derive(Default)]
pub struct ClientConfigs {
    cache: Mutex<HashMap<PathBuf, (Version, Entries)>>,
}

impl ClientConfigs {
    /// The name of the server that was launched so, if a configuration of its user describes it: the
    /// client's own files come first where the client is known, project files before the user's.
    pub fn name_of(&self, launch: &Launch) -> Option<Named> {
        let server = launch.chain.first()?;
        let mut sources = self.sources(launch);
        let client = launch
            .client
            .as_ref()
            .and_then(|client| client_of(&client.display_name(), &client.exe));
        if client.is_some() {
            // Stable: within the client's own files and within the others the order stays.
            sources.sort_by_key(|(source, _)| Some(source.client) != client);
        }
        for (source, path) in sources {
            let entries = self.entries(&path, source.layout, server.uid);
            if let Some(entry) = entries
                .iter()
                .find(|entry| matching::matches(entry, launch))
            {
                return Some(Named {
                    name: entry.name.clone(),
                    client: source.client,
                });
            }
        }
        None
    }

    /// All files that may describe a server of this launch.
    fn sources(&self, launch: &Launch) -> Vec<(&'static Source, PathBuf)> {
        let mut directories: Vec<&Path> = Vec::new();
        let processes = launch.chain.iter().chain(&launch.client);
        for cwd in processes.filter_map(|process| process.cwd.as_deref()) {
            for directory in Path::new(cwd).ancestors().take(MAX_LEVELS) {
                if directory.is_absolute() && !directories.contains(&directory) {
                    directories.push(directory);
                }
            }
        }
        let mut sources = Vec::new();
        for directory in directories {
            if Some(directory) != launch.home.as_deref().map(Path::new) {
                sources.extend(PROJECT_FILES.iter().map(|s| (s, directory.join(s.path))));
            }
        }
        if let Some(home) = launch.home.as_deref().filter(|home| home.starts_with('/')) {
            sources.extend(HOME_FILES.iter().map(|s| (s, Path::new(home).join(s.path))));
        }
        sources
    }

    fn entries(&self, path: &Path, layout: Layout, uid: u32) -> Entries {
        let Some((file, version)) = open(path, uid) else {
            return Entries::default();
        };
        // A poisoned lock means a panic elsewhere; the map itself is never half-written.
        let lock = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, entries)) = lock().get(path)
            && *known == version
        {
            return Arc::clone(entries);
        }
        let mut text = Vec::new();
        let read = std::fs::File::from(file)
            .take(MAX_FILE)
            .read_to_end(&mut text);
        let entries: Entries = match read {
            Ok(_) => parse(text, layout).into(),
            Err(_) => return Entries::default(),
        };
        let mut cache = lock();
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        cache.insert(path.to_owned(), (version, Arc::clone(&entries)));
        entries
    }
}

/// Which client a program is.
fn client_of(name: &str, exe: &str) -> Option<&'static str> {
    let exe = super::super::info::file_name(exe);
    [name, exe].into_iter().find_map(|name| {
        let name = name.to_ascii_lowercase();
        PROGRAMS
            .iter()
            .find(|(program, _)| name == *program || name.starts_with(&format!("{program}-")))
            .map(|&(_, client)| client)
    })
}

/// Opens a user's file on the conditions that this module's front names.
fn open(path: &Path, uid: u32) -> Option<(OwnedFd, Version)> {
    let flags =
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::NO_MAGICLINKS;
    let file = openat2(CWD, path, flags, Mode::empty(), resolve).ok()?;
    let stat = fstat(&file).ok()?;
    let size = u64::try_from(stat.st_size).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || size > MAX_FILE {
        return None;
    }
    if stat.st_uid != uid {
        if stat.st_uid != 0 {
            return None;
        }
        // root's file: only where no link of somebody else's led there.
        let strict = openat2(
            CWD,
            path,
            flags,
            Mode::empty(),
            resolve | ResolveFlags::NO_SYMLINKS,
        );
        let again = fstat(strict.ok()?).ok()?;
        if (again.st_dev, again.st_ino) != (stat.st_dev, stat.st_ino) {
            return None;
        }
    }
    let version = Version {
        dev: stat.st_dev,
        ino: stat.st_ino,
        size: stat.st_size,
        modified: (
            stat.st_mtime,
            stat.st_mtime_nsec.try_into().unwrap_or_default(),
        ),
    };
    Some((file, version))
}

/// The servers in a file, in the order of their names; nothing where the file is not understood.
fn parse(mut text: Vec<u8>, layout: Layout) -> Vec<Entry> {
    jsonc::to_json(&mut text);
    let Ok(text) = String::from_utf8(text) else {
        return Vec::new();
    };
    let mut entries = Vec::new();
    let mut add = |servers: Option<&str>, project: Option<&str>| {
        for (name, raw) in servers.map(members).unwrap_or_default() {
            if entries.len() < MAX_SERVERS
                && let Some(entry) = entry(name, raw, project)
            {
                entries.push(entry);
            }
        }
    };
    match layout {
        Layout::Key(key) => add(member(&text, key), None),
        Layout::VsCodeSettings => {
            let mcp = member(&text, "mcp");
            add(mcp.and_then(|mcp| member(mcp, "servers")), None);
        }
        Layout::ClaudeCode => {
            for (path, project) in member(&text, "projects").map(members).unwrap_or_default() {
                add(member(project, "mcpServers"), Some(&path));
            }
            add(member(&text, "mcpServers"), None);
        }
    }
    // A project's own come first, then by name: the order in a file must not decide.
    entries.sort_by(|a: &Entry, b: &Entry| {
        (a.project.is_none(), &a.project, &a.name).cmp(&(b.project.is_none(), &b.project, &b.name))
    });
    entries
}

/// One server's description. Clients differ in small ways: Zed nests `command.path`.
fn entry(name: String, raw: &str, project: Option<&str>) -> Option<Entry> {
    #[derive(Deserialize)]
    struct Description {
        command: Command,
        #[serde(default)]
        args: Vec<Argument>,
        #[serde(default)]
        cwd: Option<String>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Command {
        Path(String),
        Nested {
            path: String,
            #[serde(default)]
            args: Vec<Argument>,
        },
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Argument {
        Text(String),
        Number(serde_json::Number),
    }
    if raw.len() > MAX_ENTRY {
        return None;
    }
    let Description { command, args, cwd } = serde_json::from_str(raw).ok()?;
    let (path, nested) = match command {
        Command::Path(path) => (path, Vec::new()),
        Command::Nested { path, args } => (path, args),
    };
    let mut argv = vec![path];
    argv.extend(nested.into_iter().chain(args).map(|arg| match arg {
        Argument::Text(text) => text,
        Argument::Number(number) => number.to_string(),
    }));
    Some(Entry {
        name,
        argv,
        cwd,
        project: project.map(str::to_owned),
    })
}

/// The value of one member of an object, unparsed; the last one where there are several.
fn member<'t>(object: &'t str, key: &str) -> Option<&'t str> {
    members_where(object, |name| name == key)
        .pop()
        .map(|(_, value)| value)
}

/// The members of an object, unparsed: at most [`MAX_SERVERS`].
fn members(object: &str) -> Vec<(String, &str)> {
    members_where(object, |_| true)
}

/// Reads an object without building its values: a file of eight megabytes must not become
/// hundreds in memory because of a part that nobody asked for.
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
mod tests;
