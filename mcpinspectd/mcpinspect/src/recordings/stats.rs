//! `mcpinspect stats`: exchanges by server, method and tool.

use std::collections::BTreeSet;
use std::process::ExitCode;

use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::table::aligned;
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::history::{CallStatistics, HistoryQuery};

use super::{NAME, StoreLocation, duration, print_rows, size};

/// Show how many exchanges there were and how long they took, by server, method and tool
#[derive(clap::Args)]
pub struct Stats {
    /// Only this server.
    server: Option<String>,
    /// Only the last N days, today included. Default: as long as messages are kept.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: Option<u32>,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    location: StoreLocation,
}

impl Stats {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let question = HistoryQuery::Statistics {
            server: self.server.clone(),
            days: self.days,
        };
        if self.json {
            print_rows(&self.location.ask(&question)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut rows: Vec<CallStatistics> = self.location.ask_for(&question)?;
        // Notifications, and messages that answer nothing: counted, but not exchanges.
        rows.retain(|row| row.requests + row.responses + row.duplicates + row.orphans > 0);
        if rows.is_empty() {
            terminal::print(|out| writeln!(out, "No exchange was recorded."))?;
            return Ok(ExitCode::SUCCESS);
        }
        let users: BTreeSet<_> = rows.iter().map(|row| row.uid).collect();
        terminal::print(|out| {
            aligned(out, |out| {
                let user = if users.len() > 1 { "UID\t" } else { "" };
                writeln!(
                    out,
                    "{user}SERVER\tMETHOD\tTOOL\tREQUESTS\tERRORS\tP50\tP90\tP99\tOVERDUE\tLATE\tTWICE\tORPHANS\tSIZE"
                )?;
                for row in &rows {
                    if users.len() > 1 {
                        let uid = row.uid.map_or("-".to_owned(), |uid| uid.to_string());
                        write!(out, "{uid}\t")?;
                    }
                    line(out, row)?;
                }
                Ok(())
            })
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn line(out: &mut dyn std::io::Write, row: &CallStatistics) -> std::io::Result<()> {
    let name = |name: &str| match name {
        "" => "-".to_owned(),
        name => printable(name, NAME),
    };
    let within = |nanos: Option<u64>| nanos.map_or("-".to_owned(), duration);
    writeln!(
        out,
        "{}\t{}\t{}\t{:>8}\t{:>6}\t{:>8}\t{:>8}\t{:>8}\t{:>7}\t{:>4}\t{:>5}\t{:>7}\t{:>8}",
        name(&row.server_id),
        name(&row.method),
        name(&row.tool),
        row.requests,
        row.errors,
        within(row.p50_ns),
        within(row.p90_ns),
        within(row.p99_ns),
        row.overdue,
        row.late,
        row.duplicates,
        row.orphans,
        size(row.bytes_to_server + row.bytes_to_client),
    )
}
