//! `mcpinspect guard install` and `uninstall`: makes a client's servers start through the guard, or as before.
//!
//! - `file`: a configuration, read and replaced safely
//! - `show`: what changes, and what became of each server

mod file;
mod show;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use mcpinspect_core::text::escape::printable;
use mcpinspect_judge::policy::DIRECTORY;
use mcpinspect_process::identity::configured::ConfigScope;
use mcpinspect_process::identity::edit::{Change, Edited, Outcome};
use mcpinspect_process::identity::editable;
use mcpinspect_process::identity::editable::ClientFile;

use self::file::Configuration;
use self::show::NAME;
use super::on_failure::OnFailure;
use crate::policy::load;

/// Make a client start its servers through the guard
///
/// Changes the client's configurations: the user's own, and those of the project in the working
/// directory. Only the command and the arguments of the servers change; everything else is kept,
/// comments included. The original file is kept beside it as NAME.mcpinspect-backup. Running it
/// again changes only the guard's options.
///
/// Close the client first if it writes its configuration itself, as Claude Code does, and start it
/// again afterwards. `mcpinspect guard uninstall` removes the guard.
#[derive(clap::Args)]
pub struct Install {
    #[command(flatten)]
    selection: ServerSelection,
    /// Policy files, or directories with *.toml files.
    #[arg(long, value_name = "PATH", default_value = DIRECTORY)]
    policy: Vec<PathBuf>,
    /// What the guard does if the policy has a mistake, or a message cannot be checked.
    #[arg(long, value_enum, value_name = "HOW", default_value = "closed")]
    on_failure: OnFailure,
    /// Have the guard append its decisions to this file.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Make a client start its servers without the guard again
///
/// Removes exactly what `mcpinspect guard install` added, even if the file was changed since. The
/// backup is deleted if the file equals it again.
#[derive(clap::Args)]
pub struct Uninstall {
    #[command(flatten)]
    selection: ServerSelection,
}

/// Which servers.
#[derive(clap::Args)]
struct ServerSelection {
    /// The client: claude-code, claude-desktop, codex, cursor, gemini, opencode, vscode, windsurf, zed; or the path of a configuration.
    client: String,
    /// The server's name in the configuration. Default: all servers.
    server: Option<String>,
    /// Show what would change without changing anything.
    #[arg(long)]
    dry_run: bool,
}

impl Install {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let options = self.options()?;
        let program = env::current_exe().context("cannot determine the path of mcpinspect")?;
        let program = text(&program)?;
        let options = |name: &str| {
            let mut all = options.clone();
            all.push(format!("--server={}", editable::server_name(name)));
            all
        };
        self.selection.change(Change::Guard {
            program,
            options: &options,
        })
    }

    /// The guard's options, which have to be valid in whatever directory the client starts it. A policy that the
    /// guard would refuse would keep every server from starting, so it is refused here.
    fn options(&self) -> anyhow::Result<Vec<String>> {
        let is_default = self.policy == [PathBuf::from(DIRECTORY)];
        if is_default && !Path::new(DIRECTORY).exists() {
            bail!("no policy found: give one with --policy, or put files into {DIRECTORY}");
        }
        if load(&self.policy).is_none() {
            bail!("the policy has mistakes, so nothing was changed");
        }
        let mut options = Vec::new();
        if !is_default {
            for path in &self.policy {
                let path = path.canonicalize();
                let path = path.context("cannot determine the path of the policy")?;
                options.push(format!("--policy={}", text(&path)?));
            }
        }
        if self.on_failure == OnFailure::Open {
            options.push("--on-failure=open".to_owned());
        }
        if let Some(log) = &self.log {
            let log = std::path::absolute(log).context("cannot determine the path of the log")?;
            options.push(format!("--log={}", text(&log)?));
        }
        Ok(options)
    }
}

impl Uninstall {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.selection.change(Change::Unguard)
    }
}

/// A path as a configuration can contain it.
fn text(path: &Path) -> anyhow::Result<&str> {
    let text = path.to_str();
    text.with_context(|| format!("{} is not UTF-8", path.display()))
}

impl ServerSelection {
    fn change(&self, change: Change<'_>) -> anyhow::Result<ExitCode> {
        let mut changes = Vec::new();
        for file in self.files()? {
            let configuration = Configuration::open(&file.path)?;
            let edited = file.edited(configuration.text(), self.server.as_deref(), change);
            let edited =
                edited.with_context(|| format!("cannot change {}", file.path.display()))?;
            changes.push((configuration, edited));
        }
        self.check(&changes, change)?;
        for (configuration, edited) in &mut changes {
            let is_other = edited.text.as_bytes() != configuration.text();
            if self.dry_run {
                show::difference(configuration, &edited.text)?;
            }
            let backup = match is_other && !self.dry_run {
                true => Some(configuration.replace(edited)?),
                false => None,
            };
            show::servers(configuration, edited, change, backup, self.dry_run)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The files that exist.
    fn files(&self) -> anyhow::Result<Vec<ClientFile>> {
        let client = self.client.as_str();
        let directory = env::current_dir().context("cannot determine the working directory")?;
        let home = env::var("HOME").ok();
        let place = ConfigScope {
            directory: &directory,
            home: home.as_deref(),
        };
        if let Some(files) = editable::of_client(client, place) {
            ensure!(
                !files.is_empty(),
                "{client} has no configuration at ~/{}. Give the path of one instead",
                editable::places_of(client).join(" or ~/")
            );
            return Ok(files);
        }
        let path = Path::new(client);
        ensure!(
            path.exists() || client.contains('/'),
            "unknown client `{}`; known clients: {}. Or give the path of a configuration",
            printable(client, NAME),
            editable::client_names().join(", ")
        );
        Ok(vec![ClientFile::at(path)])
    }

    /// Whether there is something to change, for a person who named it.
    fn check(&self, changes: &[(Configuration, Edited)], change: Change<'_>) -> anyhow::Result<()> {
        let all = || changes.iter().flat_map(|(_, edited)| &edited.servers);
        let paths: Vec<String> = changes.iter().map(|(file, _)| file.path()).collect();
        let paths = paths.join(", ");
        let Some(name) = &self.server else {
            ensure!(
                all().next().is_some(),
                "{paths} has no servers (under `mcpServers`, `servers`, `context_servers`, `mcp` or `mcp_servers`)"
            );
            return Ok(());
        };
        let mut names: Vec<String> = all().map(|server| printable(&server.name, NAME)).collect();
        names.sort_unstable();
        names.dedup();
        let mut selected = all().filter(|server| server.outcome != Outcome::Other);
        let Some(first) = selected.next() else {
            bail!(
                "{paths} has no server `{}`; its servers: {}",
                printable(name, NAME),
                match names.is_empty() {
                    true => "none".to_owned(),
                    false => names.join(", "),
                }
            );
        };
        // One that can be changed is enough.
        let outcomes = || std::iter::once(first).chain(selected.clone());
        let is_refused = |outcome| matches!(outcome, Outcome::Url | Outcome::Unusable(_));
        if matches!(change, Change::Guard { .. }) && outcomes().all(|s| is_refused(s.outcome)) {
            let why = show::refusal(first.outcome).unwrap_or_default();
            bail!("`{}` cannot be guarded: {why}", printable(name, NAME));
        }
        Ok(())
    }
}
