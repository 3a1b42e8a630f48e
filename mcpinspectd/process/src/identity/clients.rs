//! The names that people gave their servers in the configurations of their MCP clients.
//!
//! Every client has a file, in the home directory or in the project, that maps names to commands.
//! This module knows where these files are and which to search first; `config_file` reads
//! one. Each version of a file (device, inode, size, modification time) is parsed once.

use std::collections::{BTreeSet, HashMap};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::bin_links::BinLinks;
use super::config_file::{self, ConfiguredServer, ConfiguredUrl, Layout};
use super::launch::Launch;
use super::{matching, same_url};
use crate::found_file::FileVersion;
use crate::info::ProcessSnapshot;
use crate::launcher::file_name;
use crate::reader::Reader;

/// How many levels up from a working directory to search for project files.
const MAX_LEVELS: usize = 24;
/// Most hosts to name of the servers in a client's configuration.
const MAX_HOSTS: usize = 256;
/// Most files whose contents are cached.
const MAX_CACHED: usize = 256;

/// A name for a server, and the client whose configuration has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredName {
    /// As written in the file, not cleaned.
    pub name: String,
    /// The client, such as `claude-code`.
    pub client: &'static str,
}

/// One client's configuration file.
pub(super) struct ConfigFile {
    pub(super) client: &'static str,
    /// Relative to the home or project directory.
    pub(super) path: &'static str,
    pub(super) layout: Layout,
}

const fn config_file(client: &'static str, path: &'static str, layout: Layout) -> ConfigFile {
    ConfigFile {
        client,
        path,
        layout,
    }
}

const MCP_SERVERS: Layout = Layout::Key("mcpServers");
const OPENCODE: Layout = Layout::Key("mcp");

/// Searched in a project's directory and above.
const PROJECT_FILES: &[ConfigFile] = &[
    config_file("claude-code", ".mcp.json", MCP_SERVERS),
    config_file("cursor", ".cursor/mcp.json", MCP_SERVERS),
    config_file("vscode", ".vscode/mcp.json", Layout::Key("servers")),
    config_file("gemini", ".gemini/settings.json", MCP_SERVERS),
    config_file("zed", ".zed/settings.json", Layout::Key("context_servers")),
    config_file("codex", ".codex/config.toml", Layout::Codex),
    config_file("opencode", "opencode.json", OPENCODE),
    config_file("opencode", "opencode.jsonc", OPENCODE),
    config_file("opencode", ".opencode/opencode.json", OPENCODE),
    config_file("opencode", ".opencode/opencode.jsonc", OPENCODE),
];

/// Searched in the home directory.
pub(super) const HOME_FILES: &[ConfigFile] = &[
    config_file("claude-code", ".claude.json", Layout::ClaudeCode),
    config_file(
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
        MCP_SERVERS,
    ),
    config_file("cursor", ".cursor/mcp.json", MCP_SERVERS),
    config_file(
        "vscode",
        ".config/Code/User/mcp.json",
        Layout::Key("servers"),
    ),
    config_file(
        "vscode",
        ".config/Code/User/settings.json",
        Layout::VsCodeSettings,
    ),
    config_file(
        "vscode",
        ".config/Code - Insiders/User/mcp.json",
        Layout::Key("servers"),
    ),
    config_file(
        "vscode",
        ".config/VSCodium/User/mcp.json",
        Layout::Key("servers"),
    ),
    config_file("windsurf", ".codeium/windsurf/mcp_config.json", MCP_SERVERS),
    config_file("gemini", ".gemini/settings.json", MCP_SERVERS),
    config_file(
        "zed",
        ".config/zed/settings.json",
        Layout::Key("context_servers"),
    ),
    config_file("codex", ".codex/config.toml", Layout::Codex),
    config_file("opencode", ".config/opencode/opencode.json", OPENCODE),
    config_file("opencode", ".config/opencode/opencode.jsonc", OPENCODE),
];

/// The names of each client's programs: the longest part of the name that identifies the client.
const PROGRAMS: &[(&str, &str)] = &[
    ("claude-desktop", "claude-desktop"),
    ("claude", "claude-code"),
    ("cursor", "cursor"),
    ("code", "vscode"),
    ("codium", "vscode"),
    ("windsurf", "windsurf"),
    ("gemini", "gemini"),
    ("zed", "zed"),
    ("codex", "codex"),
    ("opencode", "opencode"),
];

type Servers = Arc<Configured>;

/// The servers of one file.
#[derive(Default)]
struct Configured {
    launched: Vec<ConfiguredServer>,
    urls: Vec<ConfiguredUrl>,
}

impl Configured {
    /// Those with a URL that apply to a client in `directory`.
    fn urls_for<'a>(
        &'a self,
        directory: Option<&'a str>,
    ) -> impl Iterator<Item = &'a ConfiguredUrl> {
        self.urls.iter().filter(move |one| {
            let mut projects = one.project.iter();
            projects.all(|project| same_url::is_within(project, directory))
        })
    }
}

/// Reads the clients' configurations and caches what it read.
#[derive(Default)]
pub struct ClientConfigs {
    cache: Mutex<HashMap<PathBuf, (FileVersion, Servers)>>,
}

impl ClientConfigs {
    /// The name of the server that was launched this way, if a configuration of its user describes it.
    /// If the client is known, its own files are searched first, then project files, then the
    /// user's. `links` finds the packages behind commands.
    pub(super) fn name_of(&self, launch: &Launch, links: &BinLinks) -> Option<ConfiguredName> {
        let server = launch.chain.first()?;
        let mut files = files_for(launch);
        let client = launch
            .client
            .as_ref()
            .and_then(|client| client_of(&client.display_name(), &client.exe));
        if client.is_some() {
            // A stable sort keeps the order within the client's own files and within the others.
            files.sort_by_key(|(file, _)| Some(file.client) != client);
        }
        let reader = Reader::of(server.pid, server.uid);
        for (file, path) in files {
            let servers = self.servers(&path, file.layout, &reader);
            if let Some(server) = servers
                .launched
                .iter()
                .find(|server| matching::matches(server, launch, links))
            {
                return Some(ConfiguredName {
                    name: server.name.clone(),
                    client: file.client,
                });
            }
        }
        None
    }

    /// The name of the server at a URL, if a configuration that `client` reads has it: its own files are
    /// searched first, then those of projects, then the user's.
    pub(super) fn name_of_url(
        &self,
        url: &str,
        client: &ProcessSnapshot,
        home: Option<&str>,
    ) -> Option<ConfiguredName> {
        let directory = client.cwd.as_deref();
        let mut files = files_from(Path::new(directory.unwrap_or("/")), home);
        let own = program_of(client);
        if own.is_some() {
            files.sort_by_key(|(file, _)| Some(file.client) != own);
        }
        let reader = Reader::of(client.pid, client.uid);
        files.into_iter().find_map(|(file, path)| {
            let servers = self.servers(&path, file.layout, &reader);
            let mut urls = servers.urls_for(directory);
            let found = urls.find(|one| same_url::is_same(&one.url, url))?;
            Some(ConfiguredName {
                name: found.name.clone(),
                client: file.client,
            })
        })
    }

    /// The hosts of the servers that the configurations of `client` reach over TLS; none if it is not a program of a
    /// known client, which reads its own configurations.
    pub(super) fn secure_hosts(&self, client: &ProcessSnapshot, home: Option<&str>) -> Vec<String> {
        let Some(own) = program_of(client) else {
            return Vec::new();
        };
        let directory = client.cwd.as_deref();
        let files = files_from(Path::new(directory.unwrap_or("/")), home).into_iter();
        let reader = Reader::of(client.pid, client.uid);
        let mut hosts = BTreeSet::new();
        for (file, path) in files.filter(|(file, _)| file.client == own) {
            let servers = self.servers(&path, file.layout, &reader);
            let urls = servers.urls_for(directory);
            hosts.extend(urls.filter_map(|one| same_url::secure_host(&one.url)));
        }
        hosts.into_iter().take(MAX_HOSTS).collect()
    }

    fn servers(&self, path: &Path, layout: Layout, reader: &Reader) -> Servers {
        let Some((file, version)) = config_file::open(path, reader) else {
            return Servers::default();
        };
        // A poisoned lock means a panic elsewhere; the map itself is never half-written.
        let lock = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, servers)) = lock().get(path)
            && *known == version
        {
            return Arc::clone(servers);
        }
        let mut text = Vec::new();
        let read = file.take(config_file::MAX_FILE).read_to_end(&mut text);
        let servers: Servers = match read {
            Ok(_) => Arc::new(Configured {
                urls: config_file::parse_urls(text.clone(), layout),
                launched: config_file::parse(text, layout),
            }),
            Err(_) => return Servers::default(),
        };
        let mut cache = lock();
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        cache.insert(path.to_owned(), (version, Arc::clone(&servers)));
        servers
    }
}

/// All files that may describe a server of this launch.
fn files_for(launch: &Launch) -> Vec<(&'static ConfigFile, PathBuf)> {
    let mut directories: Vec<&Path> = Vec::new();
    let processes = launch.chain.iter().chain(&launch.client);
    for cwd in processes.filter_map(|process| process.cwd.as_deref()) {
        for directory in Path::new(cwd).ancestors().take(MAX_LEVELS) {
            if directory.is_absolute() && !directories.contains(&directory) {
                directories.push(directory);
            }
        }
    }
    files_in(directories, launch.home.as_deref())
}

/// All known client files.
pub(super) fn known() -> impl Iterator<Item = &'static ConfigFile> {
    HOME_FILES.iter().chain(PROJECT_FILES)
}

/// The files for someone working in `directory`: project files first.
pub(super) fn files_from(
    directory: &Path,
    home: Option<&str>,
) -> Vec<(&'static ConfigFile, PathBuf)> {
    files_in(directory.ancestors().take(MAX_LEVELS).collect(), home)
}

/// The files of the projects in these directories, and those of the user.
fn files_in(directories: Vec<&Path>, home: Option<&str>) -> Vec<(&'static ConfigFile, PathBuf)> {
    let mut files = Vec::new();
    for directory in directories {
        if Some(directory) != home.map(Path::new) {
            let project = PROJECT_FILES.iter();
            files.extend(project.map(|file| (file, directory.join(file.path))));
        }
    }
    if let Some(home) = home.filter(|home| home.starts_with('/')) {
        let home_files = HOME_FILES.iter();
        files.extend(home_files.map(|file| (file, Path::new(home).join(file.path))));
    }
    files
}

/// A server's description as text.
pub(super) struct Described {
    /// The client whose configuration has it, and the file.
    pub(super) client: &'static str,
    pub(super) file: PathBuf,
    pub(super) text: String,
}

/// The descriptions of the server `name` for someone working in `directory`: those of projects first.
pub(super) fn described<'a>(
    name: &'a str,
    directory: &'a Path,
    home: Option<&str>,
    reader: &'a Reader,
) -> impl Iterator<Item = Described> + 'a {
    let files = files_from(directory, home).into_iter();
    files.filter_map(move |(file, path)| {
        let text = config_file::read(&path, reader)?;
        let text = config_file::describe(text, file.layout, name, directory)?;
        Some(Described {
            client: file.client,
            file: path,
            text,
        })
    })
}

/// The client that a process is a program of.
pub(super) fn program_of(process: &ProcessSnapshot) -> Option<&'static str> {
    client_of(&process.display_name(), &process.exe)
}

/// The client that a program belongs to.
fn client_of(name: &str, exe: &str) -> Option<&'static str> {
    [name, file_name(exe)].into_iter().find_map(|name| {
        let name = name.to_ascii_lowercase();
        PROGRAMS
            .iter()
            .find(|(program, _)| name == *program || name.starts_with(&format!("{program}-")))
            .map(|&(_, client)| client)
    })
}

#[cfg(test)]
mod tests;
