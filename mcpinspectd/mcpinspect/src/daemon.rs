//! `mcpinspect status` and `servers`: the running daemon's current view.

use std::io::{IsTerminal as _, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use mcpinspect_bus::client;
use mcpinspect_bus::client::answer;
use mcpinspect_bus::rows::ServerRow;
use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::table::aligned;
use mcpinspect_cli::terminal::wants_colour;
use mcpinspect_engine::event::json::terminal_safe;
use nix::unistd::{Uid, User};
use serde::Serialize;

/// Runs a future that talks to the bus.
pub fn on_bus<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime for the bus")?
        .block_on(work)
}

/// Show the running daemon's state and totals
#[derive(clap::Args)]
pub struct Status {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct StatusNow {
    version: String,
    state: String,
    bytes_written: u64,
    bytes_captured: u64,
    bytes_lost: u64,
    paused_servers: Vec<String>,
    servers: Vec<Server>,
    sessions: usize,
}

impl Status {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let now = on_bus(async {
            let manager = client::connect().await?;
            let (bytes_written, bytes_captured, bytes_lost) = answer(manager.ledger()).await?;
            let sessions = answer(manager.list_sessions()).await?;
            let servers = answer(manager.list_servers()).await?;
            Ok(StatusNow {
                version: answer(manager.version()).await?,
                state: answer(manager.capture_state()).await?,
                bytes_written,
                bytes_captured,
                bytes_lost,
                paused_servers: answer(manager.paused_servers()).await?,
                servers: servers.into_iter().map(Server::from).collect(),
                sessions: sessions.len(),
            })
        })?;
        if self.json {
            let text = terminal_safe(&now)?;
            terminal::print(|out| writeln!(out, "{text}"))?;
        } else {
            terminal::print(|out| now.print(out))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl StatusNow {
    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let running = self.servers.iter().filter(|server| server.sessions > 0);
        writeln!(out, "mcpinspectd {}: {}", self.version, self.state)?;
        writeln!(
            out,
            "  servers   {} known, {} running",
            self.servers.len(),
            running.count()
        )?;
        writeln!(out, "  sessions  {}", self.sessions)?;
        writeln!(
            out,
            "  bytes     {} written, {} captured, {} lost",
            self.bytes_written, self.bytes_captured, self.bytes_lost
        )?;
        if !self.paused_servers.is_empty() {
            writeln!(
                out,
                "  paused    {} (`mcpinspect resume SERVER` watches it again)",
                self.paused_servers.join(", ")
            )?;
        }
        let frozen = self.servers.iter().filter(|server| server.frozen);
        let frozen: Vec<&str> = frozen.map(|server| server.server_id.as_str()).collect();
        if !frozen.is_empty() {
            writeln!(
                out,
                "  frozen    {} (`mcpinspect thaw SERVER` lets it run again)",
                frozen.join(", ")
            )?;
        }
        Ok(())
    }
}

/// List the servers that the running daemon has seen since it started
#[derive(clap::Args)]
pub struct Servers {
    /// Print one JSON array.
    #[arg(long)]
    json: bool,
}

/// A server in JSON.
#[derive(Debug, Serialize)]
pub struct Server {
    pub server_id: String,
    pub fingerprint: String,
    pub sessions: u32,
    pub tools: u32,
    pub uid: Option<u32>,
    pub last_seen: String,
    pub monitored: bool,
    pub frozen: bool,
}

/// How a server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    Frozen,
    /// Not watched.
    Paused,
    /// Without a session.
    Idle,
    Running,
}

impl ServerState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Frozen => "frozen",
            Self::Paused => "paused",
            Self::Idle => "idle",
            Self::Running => "running",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Frozen => AnsiColor::Cyan.on_default(),
            Self::Paused => AnsiColor::Yellow.on_default(),
            Self::Idle => Style::new().dimmed(),
            Self::Running => AnsiColor::Green.on_default(),
        }
    }
}

impl From<ServerRow> for Server {
    fn from(row: ServerRow) -> Self {
        Self {
            server_id: row.server_id,
            fingerprint: row.fingerprint,
            sessions: row.sessions,
            tools: row.tools,
            uid: row.uid,
            last_seen: row.last_seen,
            monitored: row.monitored,
            frozen: row.frozen,
        }
    }
}

impl Server {
    /// How it is doing.
    pub fn state(&self) -> ServerState {
        match self {
            Self { frozen: true, .. } => ServerState::Frozen,
            Self {
                monitored: false, ..
            } => ServerState::Paused,
            Self { sessions: 0, .. } => ServerState::Idle,
            _ => ServerState::Running,
        }
    }

    /// The name of the user that it runs as.
    pub fn user(&self) -> String {
        let Some(uid) = self.uid else {
            return "-".to_owned();
        };
        match User::from_uid(Uid::from_raw(uid)) {
            Ok(Some(user)) => user.name,
            Ok(None) | Err(_) => uid.to_string(),
        }
    }
}

impl Servers {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let rows = on_bus(async {
            let manager = client::connect().await?;
            Ok(answer(manager.list_servers()).await?)
        })?;
        let servers: Vec<Server> = rows.into_iter().map(Server::from).collect();
        if self.json {
            let text = terminal_safe(&servers)?;
            terminal::print(|out| writeln!(out, "{text}"))?;
            return Ok(ExitCode::SUCCESS);
        }
        if servers.is_empty() {
            terminal::print(|out| {
                writeln!(
                    out,
                    "mcpinspectd has seen none of your servers since it started."
                )
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        let colour = wants_colour(std::io::stdout().is_terminal());
        terminal::print(|out| {
            aligned(out, |out| {
                writeln!(out, "SERVER\tSTATE\tSESSIONS\tTOOLS\tUSER\tLAST SEEN")?;
                for server in &servers {
                    let state = server.state();
                    let style = if colour { state.style() } else { Style::new() };
                    let state = state.as_str();
                    writeln!(
                        out,
                        "{}\t{style}{state}{style:#}\t{:>8}\t{:>5}\t{}\t{}",
                        server.server_id,
                        server.sessions,
                        server.tools,
                        server.user(),
                        server.last_seen.get(..19).unwrap_or(&server.last_seen)
                    )?;
                }
                Ok(())
            })
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
