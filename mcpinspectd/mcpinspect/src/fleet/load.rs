//! `mcpinspect fleet schema` and `fleet load`: a fleet in ClickHouse.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::complain;
use mcpinspect_core::model::Timestamp;
use mcpinspect_core::text::escape::plain;
use mcpinspect_fleet::collect::Progress;
use mcpinspect_fleet::engine::EngineError;
use mcpinspect_fleet::engine::keep;
use mcpinspect_fleet::engine::load;
use mcpinspect_fleet::engine::load::Patience;
use mcpinspect_fleet::engine::schema;
use mcpinspect_fleet::engine::schema::Database;
use mcpinspect_fleet::journal::Extent;
use mcpinspect_fleet::state::StateDirectory;

use super::clickhouse::{self, ClickHouse, Location};
use super::inputs::InputOptions;
use super::times::duration;

/// Create the tables in ClickHouse that `mcpinspect fleet load` fills
///
/// Without --clickhouse, prints the statements. Existing tables are not changed. Works with
/// ClickHouse 18.16, which Debian ships, and newer.
#[derive(clap::Args)]
pub struct Schema {
    /// ClickHouse, as http://USER@HOST:8123/DATABASE; the password is read from $CLICKHOUSE_PASSWORD.
    #[arg(long, value_name = "URL")]
    clickhouse: Option<String>,
    /// Name of the database in the statements that are printed.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "mcpinspect",
        conflicts_with = "clickhouse"
    )]
    database: String,
}

/// Load collected journals into ClickHouse
///
/// Reads entries that are new since the last run and sends rows to ClickHouse; `mcpinspect fleet
/// --clickhouse URL` reports on them. Every entry counts once, even if the program is interrupted:
/// the next run continues where this one stopped.
#[derive(clap::Args)]
pub struct Load {
    #[command(flatten)]
    location: Location,
    #[command(flatten)]
    input_options: InputOptions,
    /// Directory that records what was read and sent. Keep it: without it, everything is sent again
    /// and alerts count twice.
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// Also send each event to the table `events`, for your own queries.
    #[arg(long)]
    events: bool,
    /// Remove events older than this, such as `365d`, by whole months.
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "events")]
    keep: Option<Duration>,
    /// Run until stopped, and look for new entries at this interval, such as `1m`.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    every: Option<Duration>,
    /// Number of attempts to send a batch before giving up; the first pause is half a second, the
    /// longest half a minute.
    #[arg(long, value_name = "TIMES", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..))]
    tries: u32,
}

impl Schema {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Some(url) = self.clickhouse else {
            let database = Database::new(&self.database)
                .ok_or_else(|| anyhow::anyhow!("invalid database name {:?}", self.database))?;
            terminal::print(|out| {
                for statement in schema::statements(&database) {
                    writeln!(out, "{statement};\n")?;
                }
                Ok(())
            })?;
            return Ok(ExitCode::SUCCESS);
        };
        let (server, database) = clickhouse::open(&url)?;
        schema::apply(&server, &database)?;
        terminal::print(|out| {
            let (name, version) = (database.name(), schema::VERSION);
            writeln!(out, "The database {name} has the schema version {version}.")
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Load {
    /// Removes what is older than wanted. What cannot be removed now is removed in the next round.
    fn remove(
        &self,
        server: &ClickHouse,
        database: &Database,
        on_retry: &mut dyn FnMut(&EngineError),
    ) -> anyhow::Result<()> {
        let Some(keep) = self.keep else { return Ok(()) };
        let keep = u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX);
        let oldest = Timestamp(Timestamp::now().0.saturating_sub(keep));
        match keep::remove_before(server, database, oldest) {
            Err(error) if error.passes() && self.every.is_some() => on_retry(&error),
            removed => {
                for month in removed? {
                    complain(format_args!("mcpinspect: removed the events of {month}"));
                }
            }
        }
        Ok(())
    }

    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (server, database) = self.location.open()?;
        let patience = Patience {
            tries: self.tries,
            ..Patience::default()
        };
        let mut on_retry = |error: &EngineError| {
            complain(format_args!("mcpinspect: {error}; trying again"));
        };
        let state = StateDirectory::open(&self.state)?;
        schema::check(&server, &database)?;
        loop {
            // What an earlier run has read but not sent.
            let mut sent = load::pending(&server, &database, &state, patience, &mut on_retry)?;
            let progress = Progress::default();
            let collected =
                self.input_options
                    .collect(Some(&state), None, self.events, &progress)?;
            for (path, reason) in &collected.unreadable {
                let path = path.display().to_string();
                complain(format_args!("{}: {reason}", plain(&path)));
            }
            let complete = collected.extent == Extent::Whole && collected.unreadable.is_empty();
            drop(collected);
            sent += load::pending(&server, &database, &state, patience, &mut on_retry)?;
            self.remove(&server, &database, &mut on_retry)?;
            let entries = progress.entries.load(Ordering::Relaxed);
            let Some(every) = self.every else {
                terminal::print(|out| writeln!(out, "{entries} entries read, {sent} rows sent"))?;
                return Ok(match complete {
                    true => ExitCode::SUCCESS,
                    false => ExitCode::from(1),
                });
            };
            std::thread::sleep(every);
        }
    }
}
