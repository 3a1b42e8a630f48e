//! `mcpinspect freeze`, `thaw`, `kill`, `pause`, `resume`: doing something about a server.
//!
//! The daemon knows best which processes a server has, and keeps a record; so it is asked. Root can
//! do without it: a server that does harm must be stoppable also when nothing else works.

use std::process::ExitCode;

use anyhow::bail;
use mcpinspectd::bus::client::{Client, ClientError};
use mcpinspectd::config::Config;
use mcpinspectd::contain::{self, Contained, Process};
use mcpinspectd::model::ContainmentAction;
use mcpinspectd::registry::ServerNames;
use mcpinspectd::store;
use mcpinspectd::terminal;
use mcpinspectd::text::escape;

use super::daemon::on_bus;
use super::pins::NAME;

/// Stop a server where it stands; its client goes on without it
///
/// All of the server's processes are stopped: the server, its launchers below the client, and their
/// children. The client, this program and the system's own are never touched. What the server sent
/// before has arrived.
#[derive(clap::Args)]
pub struct Freeze {
    #[command(flatten)]
    whom: Whom,
}

/// Let a frozen server run again
#[derive(clap::Args)]
pub struct Thaw {
    #[command(flatten)]
    whom: Whom,
}

/// End a server; its client goes on, and may start it anew
#[derive(clap::Args)]
pub struct Kill {
    #[command(flatten)]
    whom: Whom,
}

#[derive(clap::Args)]
struct Whom {
    /// The server's name, as `mcpinspect servers` shows it.
    server: String,
    /// Do it without the daemon, which then has no record of it. Needs root.
    #[arg(long)]
    direct: bool,
}

/// Look away from a server, or from all, until `resume` or the daemon's end
///
/// What is said meanwhile is not looked at; how much it was is told afterwards.
#[derive(clap::Args)]
pub struct Pause {
    /// The server's name; all servers without one.
    server: Option<String>,
}

/// Listen again to a server that was paused, or to all
#[derive(clap::Args)]
pub struct Resume {
    /// The server's name; without one, what `pause` without a name has paused.
    server: Option<String>,
}

impl Freeze {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.whom.contain(ContainmentAction::Freeze)
    }
}

impl Thaw {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.whom.contain(ContainmentAction::Thaw)
    }
}

impl Kill {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.whom.contain(ContainmentAction::Kill)
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
        let client = Client::connect().await?;
        let arguments = (server.unwrap_or_default(), enabled);
        Ok(client.order::<_, ()>("SetMonitoring", &arguments).await?)
    })?;
    let whom = server.map_or("all servers".to_owned(), |name| {
        escape::printable(name, NAME)
    });
    terminal::print(|out| match enabled {
        true => writeln!(out, "watching {whom} again"),
        false => writeln!(out, "paused watching {whom} until `mcpinspect resume`"),
    })?;
    Ok(ExitCode::SUCCESS)
}

impl Whom {
    fn contain(self, measure: ContainmentAction) -> anyhow::Result<ExitCode> {
        let is_root = nix::unistd::geteuid().is_root();
        let done = match self.direct {
            true => self.directly(measure)?,
            false => match self.by_daemon(measure) {
                Ok(done) => done,
                Err(ClientError::NoBus(_) | ClientError::NotRunning) if is_root => {
                    terminal::complain(format_args!(
                        "mcpinspect: mcpinspectd is not running; acting without it, and without a record"
                    ));
                    self.directly(measure)?
                }
                Err(error @ (ClientError::NoBus(_) | ClientError::NotRunning)) => {
                    bail!("{error}; with sudo this works without the daemon too")
                }
                Err(error) => return Err(error.into()),
            },
        };
        self.told(measure, &done)
    }

    fn by_daemon(&self, measure: ContainmentAction) -> Result<Contained, ClientError> {
        let method = match measure {
            ContainmentAction::Freeze => "Freeze",
            ContainmentAction::Thaw => "Thaw",
            ContainmentAction::Kill => "Kill",
        };
        let asked = on_bus(async {
            let client = match Client::connect().await {
                Ok(client) => client,
                Err(error) => return Ok(Err(error)),
            };
            Ok(client
                .order::<_, (Vec<u32>, Vec<String>, Vec<String>)>(method, &self.server)
                .await)
        });
        let (processes, cgroups, missed) =
            asked.map_err(|error| ClientError::NoBus(error.to_string()))??;
        Ok(Contained {
            cgroups,
            processes: processes.into_iter().map(mcpinspectd::model::Pid).collect(),
            missed,
        })
    }

    fn directly(&self, measure: ContainmentAction) -> anyhow::Result<Contained> {
        let targets = contain::find(&self.server, names());
        if targets.is_empty() {
            bail!(
                "no server that is called {} is running here, or you may not look at it; try with sudo",
                escape::printable(&self.server, NAME)
            );
        }
        let clients: Vec<Process> = targets.iter().filter_map(|target| target.client).collect();
        Ok(contain::contain(&targets, &clients, measure)?)
    }

    fn told(&self, measure: ContainmentAction, done: &Contained) -> anyhow::Result<ExitCode> {
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
                measure.done(),
                escape::printable(&self.server, NAME),
                processes.join(" ")
            )
        })?;
        for missed in &done.missed {
            terminal::complain(format_args!("mcpinspect: not reached: {missed}"));
        }
        Ok(match done.missed.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(1),
        })
    }
}

/// The names that the daemon gave out; none where its registry cannot be read, and then servers go
/// by the names that they would get first.
fn names() -> ServerNames {
    Config::load(None)
        .ok()
        .and_then(|config| store::open_read_only(&config.registry.path).ok())
        .map(|registry| registry.server_names())
        .unwrap_or_default()
}
