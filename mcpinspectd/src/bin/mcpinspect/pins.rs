//! What the commands about pins share: where the registry is, which item is meant, and how both are
//! said.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use mcpinspectd::config::Config;
use mcpinspectd::control::suppression;
use mcpinspectd::detect::knowledge::Knowledge;
use mcpinspectd::detect::scan::{self, Content, Line, Outcome};
use mcpinspectd::detect::tree::{self, Tree};
use mcpinspectd::model::{DefinitionHash, ItemKind, ServerId, Timestamp};
use mcpinspectd::registry::{ItemKey, ItemView, Registry};
use mcpinspectd::store;
use mcpinspectd::terminal;
use mcpinspectd::text::escape;
use serde_json::{Value, json};

/// Names that an error lists.
const LISTED: usize = 20;

/// Characters of a name that are shown.
pub const NAME: usize = 80;

/// Where the registry is.
#[derive(clap::Args)]
pub struct Place {
    /// The registry's file; without it, the one that the configuration names.
    #[arg(long, value_name = "PATH")]
    registry: Option<PathBuf>,
    /// Configuration file; without one, /etc/mcpinspectd/config.toml or the defaults.
    #[arg(long, value_name = "FILE", conflicts_with = "registry")]
    config: Option<PathBuf>,
}

impl Place {
    fn path(&self) -> anyhow::Result<PathBuf> {
        match &self.registry {
            Some(path) => Ok(path.clone()),
            None => Ok(Config::load(self.config.as_deref())?.registry.path),
        }
    }

    /// Opens the registry to read it.
    pub fn read(&self) -> anyhow::Result<Registry> {
        let path = self.path()?;
        usable(&path, File::open(&path), "read")?;
        Ok(store::open_read_only(&path)?)
    }

    /// Where the daemon keeps what it was asked to silence.
    fn silenced(&self) -> anyhow::Result<PathBuf> {
        Ok(self.path()?.with_file_name(suppression::FILE))
    }

    /// Opens the registry to decide something.
    pub fn write(&self) -> anyhow::Result<Registry> {
        let path = self.path()?;
        let file = OpenOptions::new().read(true).write(true).open(&path);
        usable(&path, file, "change")?;
        Ok(store::open_existing(&path)?)
    }
}

/// Says what to do about a file that cannot be opened. The database would only say that it cannot.
fn usable(path: &Path, opened: io::Result<File>, doing: &str) -> anyhow::Result<()> {
    let shown = path.display();
    match opened {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "there is no tool registry {shown} yet; mcpinspectd makes it when it starts (`sudo systemctl start mcpinspectd`), \
             and --registry names another"
        ),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let group = match doing {
                "read" => ", or become a member of the group that owns it",
                _ => "",
            };
            bail!("not permitted to {doing} the tool registry {shown}; run this with sudo{group}")
        }
        Err(error) => Err(error).with_context(|| format!("cannot open the tool registry {shown}")),
    }
}

/// Which item is meant.
#[derive(clap::Args)]
pub struct Item {
    /// The server's name, as `mcpinspect tools` shows it.
    server: String,
    /// The tool's name.
    #[arg(required_unless_present_any = ["instructions", "server_info", "program"])]
    tool: Option<String>,
    /// What the server tells the model about itself, in place of a tool.
    #[arg(long, conflicts_with_all = ["tool", "server_info", "program"])]
    instructions: bool,
    /// Who the server says it is, in place of a tool.
    #[arg(long, conflicts_with_all = ["tool", "program"])]
    server_info: bool,
    /// The program behind the server, in place of a tool.
    #[arg(long, conflicts_with = "tool")]
    program: bool,
}

impl Item {
    /// Finds the item.
    pub fn find(&self, registry: &Registry) -> anyhow::Result<ItemView> {
        let items = of_server(registry, &self.server)?;
        let wanted = match &self.tool {
            Some(tool) => ItemKey::tool(tool),
            None if self.instructions => ItemKey::only(ItemKind::Instructions),
            None if self.program => ItemKey::only(ItemKind::Program),
            None => ItemKey::only(ItemKind::ServerInfo),
        };
        if let Some(item) = items.iter().find(|item| item.key == wanted) {
            return Ok(item.clone());
        }
        // A name that cannot be typed can be given as it is shown.
        let mut shown = items.iter().filter(|item| {
            item.key.kind == wanted.kind && escape::plain(&item.key.name) == *wanted.name
        });
        if let (Some(item), None) = (shown.next(), shown.next()) {
            return Ok(item.clone());
        }
        let server = escape::printable(&self.server, NAME);
        if wanted.kind != ItemKind::Tool {
            bail!("the server {server} has shown no {}", noun(&wanted));
        }
        let tools = items.iter().filter(|item| item.key.kind == ItemKind::Tool);
        bail!(
            "the server {server} has no tool {}; it has: {}",
            escape::printable(&wanted.name, NAME),
            listed(tools.map(|item| &*item.key.name))
        )
    }
}

/// All items, of one server where it is named.
pub fn of_server(registry: &Registry, server: &str) -> anyhow::Result<Vec<ItemView>> {
    let mut items = all(registry)?;
    if items.iter().all(|item| item.server != server) {
        let shown = escape::printable(server, NAME);
        items.dedup_by(|one, other| one.server == other.server);
        bail!(
            "no server is called {shown}; there are: {}",
            listed(items.iter().map(|item| item.server.as_str()))
        );
    }
    items.retain(|item| item.server == server);
    Ok(items)
}

/// All items, in the order of their names.
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

/// What an item is called on a terminal.
pub fn noun(key: &ItemKey) -> String {
    match key.kind {
        ItemKind::Tool => escape::printable(&key.name, NAME),
        ItemKind::Instructions => "(instructions)".to_owned(),
        ItemKind::ServerInfo => "(server info)".to_owned(),
        ItemKind::Program => "(program)".to_owned(),
    }
}

/// The arguments that name an item in a command, safe to be pasted into a shell.
pub fn arguments(item: &ItemView) -> String {
    let server = quoted(&item.server);
    match item.key.kind {
        ItemKind::Tool => {
            // What follows is no option, whatever it looks like.
            let is_option = [&*item.server, &*item.key.name]
                .iter()
                .any(|name| name.starts_with('-'));
            let border = if is_option { "-- " } else { "" };
            // Spelled out where it hides something, as `find` takes it.
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

/// A word for a shell. A tool's name is its server's choice.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// As much of a hash as tells definitions of one item apart.
pub fn short(hash: DefinitionHash) -> String {
    hash.to_string().chars().take(12).collect()
}

/// The day of a moment, UTC.
pub fn day(time: Timestamp) -> String {
    time.to_string().chars().take(10).collect()
}

/// What detection thinks of the definitions that were seen last, beside those of the other servers,
/// with the rules and suppressions of `rules` and those that the daemon was asked for. In the order of
/// `items`.
pub fn findings(
    registry: &Registry,
    place: &Place,
    items: &[ItemView],
    rules: &Path,
    now: Timestamp,
) -> anyhow::Result<Vec<Outcome>> {
    let (knowledge, problems) = Knowledge::load_all(&[rules, &place.silenced()?]);
    for problem in &problems {
        terminal::complain(format_args!(
            "mcpinspect: {problem} (this file is left out)"
        ));
    }
    let lines = items.iter().enumerate();
    let lines: Vec<Line> = lines
        .map(|(number, item)| Line::new(number, content(registry, item)))
        .collect();
    Ok(scan::scan(&knowledge, &lines, now))
}

fn content(registry: &Registry, item: &ItemView) -> Content<'static> {
    let server = ServerId(Arc::from(item.server.as_str()));
    let definition = registry
        .text(&server, &item.key, item.current)
        .map_or(Value::Null, |text| tree::of(&text).into());
    match item.key.kind {
        ItemKind::Tool => Content::from(Tree::from(
            json!({ "tool": definition, "server": item.server }),
        )),
        kind => {
            let said = match kind {
                ItemKind::Instructions => json!({ "instructions": definition }),
                ItemKind::ServerInfo => json!({ "serverInfo": definition }),
                // No model reads it.
                ItemKind::Tool | ItemKind::Program => json!({ "serverInfo": null }),
            };
            let message = json!({ "jsonrpc": "2.0", "id": 0, "result": said });
            Content::from(Tree::from(
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
