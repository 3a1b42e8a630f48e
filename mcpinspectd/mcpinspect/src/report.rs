//! `mcpinspect report`: a session as one HTML page.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use mcpinspect_cli::terminal;
use mcpinspect_client::tape_file;
use mcpinspect_core::model::Timestamp;
use mcpinspect_tape::report::{Report, SessionEvent, TapeExaminer};
use mcpinspect_tape::{Entry, Header};

use super::recordings::StoreLocation;
use super::tape;

/// Write a recorded session or a tape as one HTML page
///
/// The page shows a diagram of the calls, response times, the tools and how their definitions
/// changed, findings, and the messages. It is one file that loads nothing and runs no script, so it
/// can be shared; its content comes from the session's programs and is untrusted. Secrets are
/// masked as they are in the store.
#[derive(clap::Args)]
pub struct ReportCommand {
    /// A session's id or the beginning of it (see `mcpinspect sessions`), or a tape file.
    #[arg(value_name = "SESSION|TAPE")]
    source: String,
    /// The file to write; it must not exist yet. Default: standard output.
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    #[command(flatten)]
    location: StoreLocation,
}

impl ReportCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let path = Path::new(&self.source);
        let report = match path.is_file() {
            true => of_tape(path)?,
            false => self.of_session()?,
        };
        let page = report.html();
        tape::write(self.output.as_deref(), |out| {
            out.write_all(page.as_bytes())?;
            Ok(())
        })?;
        if let Some(path) = &self.output {
            terminal::print(|out| writeln!(out, "wrote {}", path.display()))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn of_session(&self) -> anyhow::Result<Report> {
        let session = self.location.session(&self.source)?;
        let header = Header::of(&session, tape::host());
        let transport = header.transport;
        let mut report = Report::new(header);
        self.location.messages(&session.session_id, |_, message| {
            if let Some(entry) = Entry::of(message, transport) {
                report.message(&entry);
            }
            Ok(true)
        })?;
        for event in self.location.events(&session.session_id)? {
            report.event(SessionEvent {
                time: Timestamp::parse(&event.time).unwrap_or_default(),
                kind: event.kind,
                severity: event.severity,
                title: event.title,
                json: event.event.0.get().to_owned(),
            });
        }
        Ok(report)
    }
}

/// A tape is read twice: for its messages, and for what detection says about them.
fn of_tape(path: &Path) -> anyhow::Result<Report> {
    let wrong = || path.display().to_string();
    let messages = tape_file::open(path)?;
    let mut report = Report::new(messages.header().clone());
    for entry in messages {
        report.message(&entry.with_context(wrong)?);
    }
    TapeExaminer::new()
        .examine(tape_file::open(path)?, |event| report.event(event))
        .with_context(wrong)?;
    Ok(report)
}
