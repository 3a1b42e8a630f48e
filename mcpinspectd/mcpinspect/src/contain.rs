//! `mcpinspect freeze`, `thaw`, `kill`, `pause`, `resume`: acting on a server.
//!
//! The daemon knows best which processes belong to a server, and records what was done, so these
//! commands go through it. Root can act without it: a harmful server must be stoppable even when
//! nothing else works.

use std::process::ExitCode;

use anyhow::bail;
use mcpinspect_bus::client;
use mcpinspect_bus::client::ClientError;
use mcpinspect_cli::terminal;
use mcpinspect_contain as contain;
use mcpinspect_contain::Contained;
use mcpinspect_core::model::{ContainmentAction, Pid, Process};
use mcpinspect_core::text::escape;
use mcpinspect_judge::registry::ServerNames;
use mcpinspect_settings::config::Config;
use mcpinspect_store::registry as store;

use super::daemon::on_bus;
use super::pins::NAME;

/// Suspend a server; its client keeps running
///
/// Suspends every process of the server: the server itself, its launchers below the client, and
/// their children. The client, this program and the system's own processes are never suspended.
/// Messages that the server has already sent still arrive.
#[derive(clap::Args)]
pub struct Freeze {
    #[command(flatten)]
    target: Target,
}

/// Let a frozen server run again
#[derive(clap::Args)]
pub struct Thaw {
    #[command(flatten)]
    target: Target,
}

/// Terminate a server; its client keeps running and may start it again
#[derive(clap::Args)]
pub struct Kill {
    #[command(flatten)]
    target: Target,
}

#[derive(clap::Args)]
struct Target {
    /// The server's name, as `mcpinspect servers` shows it.
    server: String,
    /// Act without the daemon, which then has no record of it. Requires root.
    #[arg(long)]
    direct: bool,
}

/// Pause watching a server, or all servers, until `resume` or until the daemon stops
///
/// Messages sent in the meantime are not inspected; the daemon reports how many bytes it skipped.
#[derive(clap::Args)]
pub struct Pause {
    /// The server's name. Default: all servers.
    server: Option<String>,
}

/// Resume watching a paused server, or all servers
#[derive(clap::Args)]
pub struct Resume {
    /// The server's name. Default: undo a `pause` of all servers.
    server: Option<String>,
}

impl Freeze {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.target.contain(ContainmentAction::Freeze)
    }
}

impl Thaw {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.target.contain(ContainmentAction::Thaw)
    }
}

impl Kill {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.target.contain(ContainmentAction::Kill)
    }
}

impl Pause {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        set_monitoring(self.server.as_deref(), false)
    }
}

impl Resume {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        set_monitoring(self.server.as_deref(), true)
    }
}

fn set_monitoring(server: Option<&str>, enabled: bool) -> anyhow::Result<ExitCode> {
    on_bus(async {
        let manager = client::connect().await?;
        let changed = manager.set_monitoring(server.unwrap_or_default(), enabled);
        Ok(changed.await.map_err(ClientError::from)?)
    })?;
    let name = server.map_or("all servers".to_owned(), |name| {
        escape::printable(name, NAME)
    });
    terminal::print(|out| match enabled {
        true => writeln!(out, "watching {name} again"),
        false => writeln!(out, "paused watching {name} until `mcpinspect resume`"),
    })?;
    Ok(ExitCode::SUCCESS)
}

impl Target {
    fn contain(self, action: ContainmentAction) -> anyhow::Result<ExitCode> {
        let is_root = nix::unistd::geteuid().is_root();
        let done = match self.direct {
            true => self.directly(action)?,
            false => match self.by_daemon(action) {
                Ok(done) => done,
                Err(ClientError::NoBus(_) | ClientError::NotRunning) if is_root => {
                    terminal::complain(format_args!(
                        "mcpinspect: mcpinspectd is not running; acting without it, so nothing is recorded"
                    ));
                    self.directly(action)?
                }
                Err(error @ (ClientError::NoBus(_) | ClientError::NotRunning)) => {
                    bail!("{error}; or run this with sudo, which does not need the daemon")
                }
                Err(error) => return Err(error.into()),
            },
        };
        self.report(action, &done)
    }

    fn by_daemon(&self, action: ContainmentAction) -> Result<Contained, ClientError> {
        let contained = on_bus(async {
            let manager = match client::connect().await {
                Ok(manager) => manager,
                Err(error) => return Ok(Err(error)),
            };
            let contained = match action {
                ContainmentAction::Freeze => manager.freeze(&self.server).await,
                ContainmentAction::Thaw => manager.thaw(&self.server).await,
                ContainmentAction::Kill => manager.kill(&self.server).await,
            };
            Ok(contained.map_err(ClientError::from))
        });
        let (processes, cgroups, missed) =
            contained.map_err(|error| ClientError::NoBus(error.to_string()))??;
        Ok(Contained {
            cgroups,
            processes: processes.into_iter().map(Pid).collect(),
            missed,
        })
    }

    fn directly(&self, action: ContainmentAction) -> anyhow::Result<Contained> {
        let targets = contain::find(&self.server, names());
        if targets.is_empty() {
            bail!(
                "no server named {} is running here, or you may not inspect it; try again with sudo",
                escape::printable(&self.server, NAME)
            );
        }
        let clients: Vec<Process> = targets.iter().filter_map(|target| target.client).collect();
        Ok(contain::contain(&targets, &clients, action)?)
    }

    fn report(&self, action: ContainmentAction, done: &Contained) -> anyhow::Result<ExitCode> {
        let processes: Vec<String> = done.processes.iter().map(ToString::to_string).collect();
        let whole = match done.cgroups.as_slice() {
            [] => String::new(),
            cgroups => format!(", as a whole: {}", cgroups.join(", ")),
        };
        let noun = match processes.len() {
            1 => "process",
            _ => "processes",
        };
        terminal::print(|out| {
            writeln!(
                out,
                "{} {}: {noun} {}{whole}",
                action.done(),
                escape::printable(&self.server, NAME),
                processes.join(" ")
            )
        })?;
        for missed in &done.missed {
            terminal::complain(format_args!("mcpinspect: not contained: {missed}"));
        }
        Ok(match done.missed.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(1),
        })
    }
}

/// The names that the daemon assigned. If its registry cannot be read there are none, and servers go
/// by their default names.
fn names() -> ServerNames {
    let names = || {
        let config = Config::load(None).ok()?.registry;
        let registry = store::open_read_only(&config.path).ok()?;
        let registry = registry.with_sharing(config.share_pins);
        Some(registry.server_names().clone())
    };
    names().unwrap_or_default()
}
