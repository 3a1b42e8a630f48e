//! `mcpinspect fleet`: a report on many machines, from their collected journals.

mod approvals;
mod clickhouse;
mod inputs;
mod json;
mod load;
mod progress;
mod signing;
mod text;
mod times;

use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::{complain, wants_colour};
use mcpinspect_core::model::Timestamp;
use mcpinspect_core::text::escape::plain;
use mcpinspect_fleet::collect::Progress;
use mcpinspect_fleet::engine::query;
use mcpinspect_fleet::engine::schema;
use mcpinspect_fleet::engine::sorted::Part;
use mcpinspect_fleet::journal::Extent;
use mcpinspect_fleet::page::Page;
use mcpinspect_fleet::report;
use mcpinspect_fleet::report::{RowSource, Settings};
use mcpinspect_fleet::state::StateDirectory;

use self::inputs::InputOptions;
use self::times::{duration, time};

/// Compare what the machines of a fleet see, from their collected journals
///
/// Reads journals collected by systemd-journal-remote, or files written by `journalctl -o json` or
/// `-o export`, compressed by zstd or not. Reports which servers and tools run where, which hosts see a
/// different definition of the same tool, what is new, decisions, alerts, and hosts that are silent or
/// lost data. Exits with status 1 if something needs attention, and 2 if the journals cannot be read.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct FleetCommand {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    input_options: InputOptions,
    /// Report on what `mcpinspect fleet load` has loaded into ClickHouse, instead of files:
    /// http://USER@HOST:8123/DATABASE. The password is read from $CLICKHOUSE_PASSWORD.
    #[arg(long, value_name = "URL", conflicts_with_all = ["files", "directory", "state", "since", "timeout"])]
    clickhouse: Option<String>,
    /// Use this as the current time, such as 2026-01-31T12:00:00Z, for old journals.
    #[arg(long, value_name = "TIME", value_parser = time)]
    now: Option<Timestamp>,
    /// Record in this directory what was read, and read only new entries next time.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Read entries of journals since this time, in the format of journalctl: `-7d`, `2026-01-31`.
    #[arg(
        long,
        value_name = "WHEN",
        conflicts_with = "state",
        allow_hyphen_values = true
    )]
    since: Option<String>,
    /// Report a host as silent after this time without entries, such as `90m`, `24h` or `7d`.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    silent_after: Duration,
    /// Report servers and definitions as new that were first seen within this time.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    new_within: Duration,
    /// Name at most this many hosts in each list of the JSON; the numbers beside lists are exact.
    #[arg(long, value_name = "HOSTS", default_value_t = 1_000)]
    list: usize,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Write the report as one page to this file, which is replaced if it exists. The page loads
    /// nothing and runs no script.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Action {
    Keygen(signing::Keygen),
    Approve(approvals::Approve),
    Revoke(approvals::Revoke),
    Approvals(approvals::Approvals),
    Schema(load::Schema),
    Load(load::Load),
}

/// Hosts of a server that the page considers: its drawing has to find those that need attention.
const PAGE_HOSTS: usize = 20_000;

/// Writes a file in one step, so that no reader sees half of a page that is rewritten every hour.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let named = |error: io::Error| {
        let message = format!("cannot write {}: {error}", path.display());
        io::Error::new(error.kind(), message)
    };
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    // As for any other file: the umask decides.
    let everyone = std::fs::Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new()
        .permissions(everyone)
        .tempfile_in(directory)
        .map_err(named)?;
    file.write_all(text.as_bytes()).map_err(named)?;
    file.persist(path).map_err(|failed| named(failed.error))?;
    Ok(())
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl FleetCommand {
    pub fn run(mut self) -> anyhow::Result<ExitCode> {
        match self.action.take() {
            None => self.answer(),
            Some(Action::Keygen(command)) => command.run(),
            Some(Action::Approve(command)) => command.run(),
            Some(Action::Revoke(command)) => command.run(),
            Some(Action::Approvals(command)) => command.run(),
            Some(Action::Schema(command)) => command.run(),
            Some(Action::Load(command)) => command.run(),
        }
    }

    fn answer(&self) -> anyhow::Result<ExitCode> {
        if let Some(url) = &self.clickhouse {
            let (server, database) = clickhouse::open(url)?;
            schema::check(&server, &database)?;
            let settings = self.settings(Some(Timestamp::now()));
            // The names of all hosts are needed first.
            let mut parts = [Part::Hosts, Part::All].into_iter();
            let open = || {
                let part = parts.next().unwrap_or(Part::All);
                query::rows(&server, &database, part, self.input_options.memory())
                    .map_err(io::Error::other)
            };
            return self.report(open, &settings, true);
        }
        let state = self
            .state
            .as_deref()
            .map(StateDirectory::open)
            .transpose()?;
        let progress = Progress::default();
        let since = self.since.as_deref();
        let collected = self
            .input_options
            .collect(state.as_ref(), since, false, &progress)?;
        for (path, reason) in &collected.unreadable {
            let path = path.display().to_string();
            complain(format_args!("{}: {reason}", plain(&path)));
        }
        let complete = collected.extent == Extent::Whole && collected.unreadable.is_empty();
        // It is unknown when files were written; take their newest entry as the present.
        let present = self.input_options.files.is_empty().then(Timestamp::now);
        let settings = self.settings(present);
        self.report(|| Ok(collected.rows.rows()), &settings, complete)
    }

    fn settings(&self, present: Option<Timestamp>) -> Settings {
        Settings {
            now: self.now.or(present),
            patience: nanos(self.silent_after),
            new_within: nanos(self.new_within),
            list_max: match self.html {
                Some(_) => self.list.max(PAGE_HOSTS),
                None => self.list,
            },
        }
    }

    fn report<S: RowSource>(
        &self,
        open: impl FnMut() -> io::Result<S>,
        settings: &Settings,
        complete: bool,
    ) -> anyhow::Result<ExitCode> {
        let code = |wants_a_look: bool| match wants_a_look || !complete {
            true => ExitCode::from(1),
            false => ExitCode::SUCCESS,
        };
        if let Some(path) = &self.html {
            let mut page = Page::default();
            let summary = report::report(open, settings, &mut page)?;
            replace(path, &page.html(&summary, settings, complete))?;
            terminal::print(|out| writeln!(out, "wrote {}", path.display()))?;
            return Ok(code(summary.wants_a_look));
        }
        let mut wants_a_look = false;
        terminal::print(|out| {
            if self.json {
                let mut shown = json::Json::new(out)?;
                let summary = report::report(open, settings, &mut shown)?;
                wants_a_look = summary.wants_a_look;
                return shown.finish(&summary, complete);
            }
            let mut shown = text::Text::default();
            let summary = report::report(open, settings, shown.digest())?;
            wants_a_look = summary.wants_a_look;
            let colour = wants_colour(io::stdout().is_terminal());
            shown.print(out, &summary, settings, colour)?;
            if !complete {
                writeln!(
                    out,
                    "\nNot everything was read: see --timeout, and errors above."
                )?;
            }
            Ok(())
        })?;
        Ok(code(wants_a_look))
    }
}
