//! `mcpinspect registry`: how large the tool registry is, and what takes up the room.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::table::aligned;
use mcpinspect_core::model::Timestamp;
use mcpinspect_core::text::escape;
use mcpinspect_engine::event::json::terminal_safe;
use mcpinspect_judge::registry::{
    EVICT_AFTER, MAX_ITEMS_PER_SERVER, Owner, RegistryLimits, ServerUsage,
};
use serde::Serialize;

use super::pins::{self, NAME, RegistryLocation};

/// Show how large the tool registry is, server by server
///
/// Items are tools, instructions, server information and programs. Items without a decision that
/// were not seen for a year are evicted; `mcpinspect forget SERVER` removes a server at once.
#[derive(clap::Args)]
pub struct RegistryCommand {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    location: RegistryLocation,
}

#[derive(Serialize)]
struct Size {
    path: String,
    file_bytes: u64,
    items: u64,
    max_items: usize,
    max_items_per_server: usize,
    servers: Vec<Server>,
}

#[derive(Serialize)]
struct Server {
    server_id: String,
    /// `user`, `shared`, `unknown` or `earlier`.
    owner: &'static str,
    owner_uid: Option<u32>,
    #[serde(skip)]
    whose: Owner,
    items: u64,
    decided: u64,
    versions: u64,
    definition_bytes: u64,
    first_seen: Timestamp,
    last_seen: Timestamp,
    /// Whether its undecided items go at the next opportunity.
    is_stale: bool,
}

impl RegistryCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let path = self.location.path()?;
        let now = Timestamp::now();
        let servers = self.location.read()?.usage()?;
        let mut servers: Vec<Server> = servers
            .into_iter()
            .map(|usage| Server::new(usage, now))
            .collect();
        servers.sort_by_key(|server| std::cmp::Reverse(server.definition_bytes));
        let size = Size {
            file_bytes: file_bytes(&path),
            path: path.display().to_string(),
            items: servers.iter().map(|server| server.items).sum(),
            max_items: RegistryLimits::default().items,
            max_items_per_server: MAX_ITEMS_PER_SERVER,
            servers,
        };
        if self.json {
            let text = terminal_safe(&size)?;
            terminal::print(|out| writeln!(out, "{text}"))?;
        } else {
            terminal::print(|out| size.print(out))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Server {
    fn new(usage: ServerUsage, now: Timestamp) -> Self {
        let ServerUsage {
            owner,
            server,
            items,
            decided,
            versions,
            definition_bytes,
            first_seen,
            last_seen,
        } = usage;
        Self {
            server_id: server,
            owner: owner.as_str(),
            owner_uid: owner.uid(),
            whose: owner,
            items,
            decided,
            versions,
            definition_bytes,
            first_seen,
            last_seen,
            is_stale: decided < items && now.nanos_since(last_seen) >= EVICT_AFTER,
        }
    }
}

impl Size {
    fn print(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        writeln!(
            out,
            "{}: {}, {} of at most {} items\n",
            self.path,
            kib(self.file_bytes),
            self.items,
            self.max_items
        )?;
        let with_users = pins::are_several(self.servers.iter().map(|server| server.whose));
        aligned(out, |out| {
            let user_head = if with_users { "USER\t" } else { "" };
            writeln!(
                out,
                "{user_head}SERVER\tITEMS\tDECIDED\tDEFINITIONS\tSIZE\tFIRST SEEN\tLAST SEEN"
            )?;
            for server in &self.servers {
                if with_users {
                    write!(out, "{}\t", pins::owner_name(server.whose))?;
                }
                writeln!(
                    out,
                    "{}\t{:>5}\t{:>7}\t{:>11}\t{:>9}\t{}\t{}{}",
                    escape::printable(&server.server_id, NAME),
                    server.items,
                    server.decided,
                    server.versions,
                    kib(server.definition_bytes),
                    pins::day(server.first_seen),
                    pins::day(server.last_seen),
                    if server.is_stale { " (goes next)" } else { "" },
                )?;
            }
            Ok(())
        })
    }
}

fn kib(bytes: u64) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}

/// The size of the database with its write-ahead log.
fn file_bytes(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    [path, Path::new(&log)]
        .iter()
        .filter_map(|file| fs::metadata(file).ok())
        .map(|metadata| metadata.len())
        .sum()
}
