//! The configurations of a client that a person wants to change.

use std::path::{Path, PathBuf};

use super::clients;
use super::config_file::{self, Layout};
use super::configured::ConfigScope;
use super::edit::{Change, EditError, Edited, edit};
use super::normal;

/// Largest file to change, in bytes.
pub const MAX_FILE: u64 = config_file::MAX_FILE;

/// Where servers may be in a file if only its path is known.
const ANY: &[Layout] = &[
    Layout::ClaudeCode,
    Layout::Key("servers"),
    Layout::Key("context_servers"),
    Layout::VsCodeSettings,
    Layout::Key("mcp"),
];

/// A configuration.
#[derive(Clone, Debug)]
pub struct ClientFile {
    /// Where it is.
    pub path: PathBuf,
    layouts: Vec<Layout>,
}

impl ClientFile {
    /// A file that a person named: recognised by its location, or by its contents.
    pub fn at(path: &Path) -> Self {
        let mut known = clients::known().filter(|file| path.ends_with(file.path));
        let is_toml = path
            .extension()
            .is_some_and(|extension| extension == "toml");
        let layouts = match known.next() {
            Some(file) => vec![file.layout],
            None if is_toml => vec![Layout::Codex],
            None => ANY.to_vec(),
        };
        let path = path.to_owned();
        Self { path, layouts }
    }

    /// Its text after a change of all servers, or the one of a name.
    ///
    /// # Errors
    /// It is not a configuration that can be changed.
    pub fn edited(
        &self,
        text: &[u8],
        server: Option<&str>,
        change: Change<'_>,
    ) -> Result<Edited, EditError> {
        edit(text, &self.layouts, server, change)
    }
}

/// The configurations of a client that exist: those of the project first, then the user's. `None` if there
/// is no client of this name.
pub fn of_client(client: &str, scope: ConfigScope<'_>) -> Option<Vec<ClientFile>> {
    clients::known().find(|file| file.client == client)?;
    let files = clients::files_from(scope.directory, scope.home).into_iter();
    let files = files.filter(|(file, path)| file.client == client && path.exists());
    let files = files.map(|(file, path)| ClientFile {
        path,
        layouts: vec![file.layout],
    });
    Some(files.collect())
}

/// The names of the clients whose configurations are supported.
pub fn client_names() -> Vec<&'static str> {
    let mut names: Vec<_> = clients::known().map(|file| file.client).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Where a client's configurations would be, from the home directory.
pub fn places_of(client: &str) -> Vec<&'static str> {
    let files = clients::HOME_FILES.iter();
    let files = files.filter(|file| file.client == client);
    files.map(|file| file.path).collect()
}

/// The name of a server as the daemon writes it, from its name in a configuration.
pub fn server_name(name: &str) -> String {
    normal::clean_id(name).unwrap_or_else(|| name.to_owned())
}
