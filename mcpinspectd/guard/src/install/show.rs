//! What changes in a configuration, and what became of each server.

use std::io::{self, Write};

use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::Reader;
use mcpinspect_core::text::escape::{plain, printable};
use mcpinspect_process::identity::edit::{Change, Edited, Outcome};
use similar::TextDiff;

use super::file::{Backup, Configuration};

/// Characters of names to show.
pub const NAME: usize = 80;

/// Unchanged lines to show beside a change.
const CONTEXT: usize = 3;

/// Shows a change as lines, like `diff -u`. Hidden characters are spelled out.
pub fn difference(configuration: &Configuration, new: &str) -> io::Result<Reader> {
    let old = String::from_utf8_lossy(configuration.text());
    let path = configuration.path();
    let diff = TextDiff::from_lines(&*old, new);
    let mut unified = diff.unified_diff();
    let unified = unified
        .context_radius(CONTEXT)
        .header(&path, &path)
        .to_string();
    terminal::print(|out| {
        for line in unified.lines() {
            writeln!(out, "{}", plain(line.trim_end_matches('\r')))?;
        }
        Ok(())
    })
}

/// Why a server cannot be guarded.
pub fn refusal(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Url => Some("it is at a URL; use `mcpinspect guard --listen` for it"),
        Outcome::Unusable(why) => Some(why),
        Outcome::Changed | Outcome::Unchanged | Outcome::Other => None,
    }
}

/// Reports what became of the servers asked for.
pub fn servers(
    configuration: &Configuration,
    edited: &Edited,
    change: Change<'_>,
    backup: Option<Backup>,
    is_dry_run: bool,
) -> io::Result<Reader> {
    let is_install = matches!(change, Change::Guard { .. });
    let would = if is_dry_run { "would be " } else { "" };
    let servers = edited.servers.iter();
    let selected = servers.filter(|server| server.outcome != Outcome::Other);
    terminal::print(|out| {
        writeln!(out, "{}", configuration.path())?;
        for server in selected {
            let what = match (server.outcome, is_install) {
                (Outcome::Changed, true) if server.was_guarded => {
                    format!("{would}guarded with these options")
                }
                (Outcome::Changed, true) => format!("{would}guarded"),
                (Outcome::Changed, false) => format!("{would}started without the guard again"),
                (Outcome::Unchanged, true) => "already guarded".to_owned(),
                (_, true) => match refusal(server.outcome) {
                    Some(why) => format!("not guarded: {why}"),
                    None => continue,
                },
                (_, false) => "not guarded".to_owned(),
            };
            let name = printable(&server.name, NAME);
            match &server.project {
                Some(project) => writeln!(out, "  {name} in {}: {what}", printable(project, NAME))?,
                None => writeln!(out, "  {name}: {what}")?,
            }
        }
        kept(out, backup)
    })
}

fn kept(out: &mut dyn Write, backup: Option<Backup>) -> io::Result<()> {
    match backup {
        Some(Backup::Made(path)) => writeln!(out, "  as it was: {path}")?,
        Some(Backup::Kept(path)) => writeln!(out, "  as it was before the guard: {path}")?,
        Some(Backup::Removed) => {
            writeln!(out, "  as it was before the guard; the backup is removed")?
        }
        Some(Backup::None) | None => return Ok(()),
    }
    writeln!(
        out,
        "  restart the client, so that it starts its servers again"
    )
}
