//! What the commands about pins share: locating the registry, selecting an item, and naming both.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use mcpinspect_cli::terminal;
use mcpinspect_core::model::{DefinitionHash, ItemKind, Timestamp};
use mcpinspect_core::text::escape;
use mcpinspect_judge::detect::json::Json;
use mcpinspect_judge::detect::scan;
use mcpinspect_judge::detect::scan::{Content, Line, LineReport};
use mcpinspect_judge::registry::{ItemKey, ItemView, Owner, Registry, ServerOf};
use mcpinspect_settings::config::Config;
use mcpinspect_settings::rule_files;
use mcpinspect_settings::suppression;
use mcpinspect_store::registry as store;
use nix::unistd::User;
use serde_json::{Value, json};

/// Maximum number of names in an error.
const LISTED: usize = 20;

/// Longest name to show, in characters.
pub const NAME: usize = 80;

/// Where the tool registry is.
#[derive(clap::Args)]
pub struct RegistryLocation {
    /// Registry file. Default: the one named in the configuration.
    #[arg(long, value_name = "PATH")]
    registry: Option<PathBuf>,
    /// Configuration file. Default: /etc/mcpinspectd/config.toml, or built-in settings.
    #[arg(long, value_name = "FILE", conflicts_with = "registry")]
    config: Option<PathBuf>,
}

impl RegistryLocation {
    /// The registry's file.
    pub fn path(&self) -> anyhow::Result<PathBuf> {
        match &self.registry {
            Some(path) => Ok(path.clone()),
            None => Ok(Config::load(self.config.as_deref())?.registry.path),
        }
    }

    /// Opens the registry for reading.
    pub fn read(&self) -> anyhow::Result<Registry> {
        let path = self.path()?;
        usable(&path, File::open(&path), "read")?;
        Ok(store::open_read_only(&path)?)
    }

    /// The file with suppressions requested from the daemon, and with lessons.
    pub fn suppressions(&self) -> anyhow::Result<PathBuf> {
        Ok(self.path()?.with_file_name(suppression::FILE))
    }

    /// Opens the registry for a decision.
    pub fn write(&self) -> anyhow::Result<Registry> {
        let path = self.path()?;
        let file = OpenOptions::new().read(true).write(true).open(&path);
        usable(&path, file, "change")?;
        Ok(store::open_existing(&path)?)
    }
}

/// Explains why a file cannot be opened, and what to do. The database would only say that it failed.
fn usable(path: &Path, opened: io::Result<File>, doing: &str) -> anyhow::Result<()> {
    let shown = path.display();
    match opened {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "there is no tool registry {shown} yet; mcpinspectd creates it when it starts (`sudo systemctl start mcpinspectd`); \
             use --registry for a different file"
        ),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let group = match doing {
                "read" => " or join the group that owns it",
                _ => "",
            };
            bail!("not permitted to {doing} the tool registry {shown}; use sudo{group}")
        }
        Err(error) => Err(error).with_context(|| format!("cannot open the tool registry {shown}")),
    }
}

/// Whose pins to use.
#[derive(clap::Args)]
pub struct OwnerOption {
    /// The user whose pins are meant, by name or id, where several users have a server of this name.
    /// `shared` are the pins of all users who share theirs, `unknown` those of servers whose user is not
    /// known, and `earlier` those recorded before pins had users.
    #[arg(long, value_name = "USER", value_parser = owner)]
    user: Option<Owner>,
}

impl OwnerOption {
    /// The named owner.
    pub fn owner(&self) -> Option<Owner> {
        self.user
    }

    /// The one of `owners` that is meant. Items that no one has taken over yet give way.
    pub fn of(&self, owners: impl Iterator<Item = Owner>, server: &str) -> anyhow::Result<Owner> {
        let mut owners: Vec<Owner> = owners.collect();
        owners.sort_unstable();
        owners.dedup();
        if owners.len() > 1 {
            owners.retain(|owner| *owner != Owner::Earlier);
        }
        let server = escape::printable(server, NAME);
        let known = || {
            owners
                .iter()
                .map(|owner| owner_name(*owner))
                .collect::<Vec<_>>()
                .join(", ")
        };
        match (self.user, owners.as_slice()) {
            (Some(user), _) => Ok(user),
            (None, [owner]) => Ok(*owner),
            _ => bail!(
                "several users have this item of the server {server}: {}; choose one with --user",
                known()
            ),
        }
    }
}

/// The owner that a word on the command line means.
fn owner(word: &str) -> Result<Owner, String> {
    let others = [Owner::Shared, Owner::Unknown, Owner::Earlier];
    if let Some(other) = others.into_iter().find(|owner| owner.as_str() == word) {
        return Ok(other);
    }
    if let Ok(uid) = word.parse() {
        return Ok(Owner::User(uid));
    }
    match User::from_name(word) {
        Ok(Some(user)) => Ok(Owner::User(user.uid.as_raw())),
        _ => Err(format!("no such user: {}", escape::printable(word, NAME))),
    }
}

/// An owner's display name: the user's, if the machine knows it.
pub fn owner_name(owner: Owner) -> String {
    let Owner::User(uid) = owner else {
        return format!("({})", owner.as_str());
    };
    match User::from_uid(uid.into()) {
        Ok(Some(user)) => escape::printable(&user.name, NAME),
        _ => uid.to_string(),
    }
}

/// Whether there are several owners.
pub fn are_several(mut owners: impl Iterator<Item = Owner>) -> bool {
    owners
        .next()
        .is_some_and(|first| owners.any(|owner| owner != first))
}

/// The item to act on.
#[derive(clap::Args)]
pub struct Item {
    /// The server's name, as `mcpinspect tools` shows it.
    server: String,
    /// The tool's name.
    #[arg(required_unless_present_any = ["instructions", "server_info", "program"])]
    tool: Option<String>,
    /// The server's instructions to the model, instead of a tool.
    #[arg(long, conflicts_with_all = ["tool", "server_info", "program"])]
    instructions: bool,
    /// The server's name and version as it reports them, instead of a tool.
    #[arg(long, conflicts_with_all = ["tool", "program"])]
    server_info: bool,
    /// The server's program, instead of a tool.
    #[arg(long, conflicts_with = "tool")]
    program: bool,
    #[command(flatten)]
    owner_option: OwnerOption,
}

impl Item {
    /// The server, as it was named.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The item, as it was named.
    pub fn key(&self) -> ItemKey {
        match &self.tool {
            Some(tool) => ItemKey::tool(tool),
            None if self.instructions => ItemKey::only(ItemKind::Instructions),
            None if self.program => ItemKey::only(ItemKind::Program),
            None => ItemKey::only(ItemKind::ServerInfo),
        }
    }

    /// Finds the item.
    pub fn find(&self, registry: &Registry) -> anyhow::Result<ItemView> {
        let mut items = of_server(registry, &self.server)?;
        if let Some(owner) = self.owner_option.owner() {
            items.retain(|item| item.owner == owner);
        }
        let key = self.key();
        let mut found: Vec<&ItemView> = items.iter().filter(|item| item.key == key).collect();
        if found.is_empty() {
            // A name that cannot be typed may be given in its escaped form.
            let shown = items.iter().filter(|item| {
                item.key.kind == key.kind && escape::plain(&item.key.name) == *key.name
            });
            found = shown.collect();
        }
        let is_one = found.windows(2).all(|two| two[0].key == two[1].key);
        if is_one && !found.is_empty() {
            let owners = found.iter().map(|item| item.owner);
            let owner = self.owner_option.of(owners, &self.server)?;
            found.retain(|item| item.owner == owner);
        }
        if let [item] = found.as_slice() {
            return Ok((*item).clone());
        }
        let server = escape::printable(&self.server, NAME);
        if key.kind != ItemKind::Tool {
            bail!("the server {server} has sent no {}", noun(&key));
        }
        let tools = items.iter().filter(|item| item.key.kind == ItemKind::Tool);
        let mut names: Vec<&str> = tools.map(|item| &*item.key.name).collect();
        names.sort_unstable();
        names.dedup();
        bail!(
            "the server {server} has no tool {}; known tools: {}",
            escape::printable(&key.name, NAME),
            listed(names.into_iter())
        )
    }
}

/// A tool of a server, by its name or its escaped form.
pub fn tool(
    registry: &Registry,
    server: &str,
    tool: &str,
    owner_option: OwnerOption,
) -> anyhow::Result<ItemView> {
    let item = Item {
        server: server.to_owned(),
        tool: Some(tool.to_owned()),
        instructions: false,
        server_info: false,
        program: false,
        owner_option,
    };
    item.find(registry)
}

/// All items of one server.
pub fn of_server(registry: &Registry, server: &str) -> anyhow::Result<Vec<ItemView>> {
    let mut items = all(registry)?;
    if items.iter().all(|item| item.server != server) {
        let shown = escape::printable(server, NAME);
        items.dedup_by(|one, other| one.server == other.server);
        bail!(
            "no server is named {shown}; known servers: {}",
            listed(items.iter().map(|item| item.server.as_str()))
        );
    }
    items.retain(|item| item.server == server);
    Ok(items)
}

/// All items, sorted by name.
pub fn all(registry: &Registry) -> anyhow::Result<Vec<ItemView>> {
    registry.list().context("cannot read the tool registry")
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| escape::printable(name, NAME)).collect();
    match names.len() {
        0 => "none".to_owned(),
        count if count > LISTED => format!(
            "{} and {} more (`mcpinspect tools` lists them)",
            names[..LISTED].join(", "),
            count - LISTED
        ),
        _ => names.join(", "),
    }
}

/// An item's display name.
pub fn noun(key: &ItemKey) -> String {
    match key.kind {
        ItemKind::Tool => escape::printable(&key.name, NAME),
        ItemKind::Instructions => "(instructions)".to_owned(),
        ItemKind::ServerInfo => "(server info)".to_owned(),
        ItemKind::Program => "(program)".to_owned(),
    }
}

/// The server of an item, as its owner has it.
pub fn server_of(item: &ItemView) -> ServerOf<'_> {
    ServerOf::new(item.owner, &item.server)
}

/// The arguments that select an item in a command, safe to paste into a shell. The owner is one of them
/// if others of `items` could be meant too.
pub fn arguments(item: &ItemView, items: &[ItemView]) -> String {
    let same = items
        .iter()
        .filter(|other| other.server == item.server && other.key == item.key);
    let user = match (are_several(same.map(|item| item.owner)), item.owner) {
        (false, _) => String::new(),
        (true, Owner::User(_)) => format!("--user {} ", quoted(&owner_name(item.owner))),
        (true, other) => format!("--user {} ", other.as_str()),
    };
    format!("{user}{}", names(item))
}

/// The server and the item as arguments.
fn names(item: &ItemView) -> String {
    let server = quoted(&item.server);
    match item.key.kind {
        ItemKind::Tool => {
            // Names that start with a dash must not become options.
            let is_option = [&*item.server, &*item.key.name]
                .iter()
                .any(|name| name.starts_with('-'));
            let border = if is_option { "-- " } else { "" };
            // Hidden characters are spelled out; `find` accepts that form.
            format!(
                "{border}{server} {}",
                quoted(&escape::plain(&item.key.name))
            )
        }
        ItemKind::Instructions => format!("{server} --instructions"),
        ItemKind::ServerInfo => format!("{server} --server-info"),
        ItemKind::Program => format!("{server} --program"),
    }
}

/// Quotes a word for the shell. A server chooses its tools' names, so they are untrusted.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The first digits of a hash, enough to distinguish the definitions of one item.
pub fn short(hash: DefinitionHash) -> String {
    hash.to_string().chars().take(12).collect()
}

/// The UTC date of a timestamp.
pub fn day(time: Timestamp) -> String {
    time.to_string().chars().take(10).collect()
}

/// Runs detection over the latest definitions of all `items` together, with the rules and suppressions
/// in `rules` and those requested from the daemon. Returns one outcome per item, in order.
pub fn findings(
    registry: &Registry,
    location: &RegistryLocation,
    items: &[ItemView],
    rules: &Path,
    now: Timestamp,
) -> anyhow::Result<Vec<LineReport>> {
    let (active, problems) = rule_files::load(&[rules, &location.suppressions()?]);
    for problem in &problems {
        terminal::complain(format_args!(
            "mcpinspect: {problem} (this file is left out)"
        ));
    }
    let lines = items.iter().enumerate();
    let lines: Vec<Line> = lines
        .map(|(number, item)| {
            let content = content(registry, item).of_user(item.owner.uid());
            Line::new(number, content)
        })
        .collect();
    Ok(scan::scan(&active, &lines, now))
}

fn content(registry: &Registry, item: &ItemView) -> Content<'static> {
    let definition = registry
        .text(server_of(item), &item.key, item.current)
        .map_or(Value::Null, |text| Json::from_raw(&text).into());
    match item.key.kind {
        ItemKind::Tool => Content::from(Json::from(
            json!({ "tool": definition, "server": item.server }),
        )),
        kind => {
            let result = match kind {
                ItemKind::Instructions => json!({ "instructions": definition }),
                ItemKind::ServerInfo => json!({ "serverInfo": definition }),
                // No model reads it.
                ItemKind::Tool | ItemKind::Program => json!({ "serverInfo": null }),
            };
            let message = json!({ "jsonrpc": "2.0", "id": 0, "result": result });
            Content::from(Json::from(
                json!({ "message": message, "server": item.server }),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_become_a_command() {
        assert_eq!(quoted("read_file"), "read_file");
        assert_eq!(quoted("github#ab12"), "'github#ab12'");
        assert_eq!(quoted("x; rm -rf ~"), "'x; rm -rf ~'");
        assert_eq!(quoted("it's $(x)"), r"'it'\''s $(x)'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..21).map(|n| format!("t{n}")).collect();
        let shown = listed(names.iter().map(String::as_str));
        assert!(shown.ends_with("t19 and 1 more (`mcpinspect tools` lists them)"));
        assert_eq!(listed(["a", "b\u{1b}"].into_iter()), "a, b\\u{1b}");
        assert_eq!(listed(std::iter::empty()), "none");
    }
}
