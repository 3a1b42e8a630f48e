//! `mcpinspect status` and `servers`: what the running daemon sees now.

use std::collections::HashMap;
use std::future::Future;
use std::io::{IsTerminal as _, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use mcpinspectd::bus::client::{Client, ClientError};
use mcpinspectd::event::json::terminal_safe;
use mcpinspectd::terminal::{self, wants_colour};
use nix::unistd::{Uid, User};
use serde::Serialize;
use zbus::OwnedVariant;

/// A row of one of the daemon's lists.
type Row = HashMap<String, OwnedVariant>;

/// Runs what waits for the bus.
pub fn on_bus<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot wait for the bus")?
        .block_on(work)
}

/// Show how the running daemon is doing
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
            let client = Client::connect().await?;
            let (bytes_written, bytes_captured, bytes_lost) = client.property("Ledger").await?;
            let sessions: Vec<Row> = client.ask("ListSessions", &()).await?;
            Ok(StatusNow {
                version: client.property("Version").await?,
                state: client.property("CaptureState").await?,
                bytes_written,
                bytes_captured,
                bytes_lost,
                paused_servers: client.property("PausedServers").await?,
                servers: servers(&client).await?,
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
                "  paused    {} (`mcpinspect resume SERVER` listens again)",
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

/// A server as the daemon lists it.
#[derive(Serialize)]
struct Server {
    server_id: String,
    fingerprint: String,
    sessions: u32,
    tools: u32,
    uid: Option<u32>,
    last_seen: String,
    monitored: bool,
    frozen: bool,
}

async fn servers(client: &Client) -> Result<Vec<Server>, ClientError> {
    let rows: Vec<Row> = client.ask("ListServers", &()).await?;
    Ok(rows.iter().filter_map(Server::of).collect())
}

impl Server {
    /// `None` for a row without a name, which no daemon sends.
    fn of(row: &Row) -> Option<Self> {
        let text = |key| row.get(key).and_then(|value| <&str>::try_from(value).ok());
        let number = |key| row.get(key).and_then(|value| u32::try_from(value).ok());
        let truth = |key| row.get(key).and_then(|value| bool::try_from(value).ok());
        Some(Self {
            server_id: text("server_id")?.to_owned(),
            fingerprint: text("fingerprint").unwrap_or_default().to_owned(),
            sessions: number("sessions").unwrap_or(0),
            tools: number("tools").unwrap_or(0),
            uid: number("uid"),
            last_seen: text("last_seen").unwrap_or_default().to_owned(),
            monitored: truth("monitored").unwrap_or(true),
            frozen: truth("frozen").unwrap_or(false),
        })
    }

    fn state(&self) -> (&'static str, Style) {
        let colour = |colour: AnsiColor| colour.on_default();
        match self {
            Self { frozen: true, .. } => ("frozen", colour(AnsiColor::Cyan)),
            Self {
                monitored: false, ..
            } => ("paused", colour(AnsiColor::Yellow)),
            Self { sessions: 0, .. } => ("idle", Style::new().dimmed()),
            _ => ("running", colour(AnsiColor::Green)),
        }
    }

    fn user(&self) -> String {
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
        let servers = on_bus(async { Ok(servers(&Client::connect().await?).await?) })?;
        if self.json {
            let text = terminal_safe(&servers)?;
            terminal::print(|out| writeln!(out, "{text}"))?;
            return Ok(ExitCode::SUCCESS);
        }
        if servers.is_empty() {
            terminal::print(|out| {
                writeln!(
                    out,
                    "No server of yours has been seen since mcpinspectd started."
                )
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        let colour = wants_colour(std::io::stdout().is_terminal());
        let width = servers
            .iter()
            .map(|server| server.server_id.chars().count());
        let width = width.max().unwrap_or(0).clamp(6, 48);
        terminal::print(|out| {
            writeln!(
                out,
                "{:width$}  {:7}  {:>8}  {:>5}  {:12}  LAST SEEN",
                "SERVER", "STATE", "SESSIONS", "TOOLS", "USER"
            )?;
            for server in &servers {
                let (state, style) = server.state();
                let style = if colour { style } else { Style::new() };
                writeln!(
                    out,
                    "{:width$}  {style}{state:7}{style:#}  {:>8}  {:>5}  {:12}  {}",
                    server.server_id,
                    server.sessions,
                    server.tools,
                    server.user(),
                    server.last_seen.get(..19).unwrap_or(&server.last_seen)
                )?;
            }
            Ok(())
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
