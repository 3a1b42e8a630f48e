//! `mcpinspect search`: messages by their words, servers, methods and tools.

use std::process::ExitCode;

use mcpinspectd::recall::{self, Question, RecordedMessage};
use mcpinspectd::terminal;
use mcpinspectd::text::escape::printable;

use super::show::headline;
use super::{NAME, StoreLocation, content, print_rows, since, width};

/// Find recorded messages that contain words, newest first
///
/// All words have to be in the message; upper and lower case, and accents, make no difference. Without
/// words, the options alone decide. Words of masked secrets are not found: they were never written.
#[derive(clap::Args)]
pub struct Search {
    /// The words.
    text: Vec<String>,
    /// Only this method, and responses to it.
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// Only this server.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Only calls of this tool, and their responses.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only messages since then: 15m, 24h, 7d, a day or a time.
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<u64>,
    /// Only errors, of the protocol or of a tool.
    #[arg(long)]
    error: bool,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    location: StoreLocation,
}

impl Search {
    /// Ends with 1 if nothing was found.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let question = Question::Search(recall::Search {
            text: self.text.join(" "),
            method: self.method.clone(),
            server: self.server.clone(),
            tool: self.tool.clone(),
            since: self.since,
            error: self.error,
            limit: self.limit.into(),
        });
        let rows = self.location.ask(&question)?;
        let found = match rows.is_empty() {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        };
        if self.json {
            print_rows(&rows)?;
            return Ok(found);
        }
        let most = width();
        terminal::print(|out| {
            for row in &rows {
                let message: RecordedMessage = serde_json::from_str(row)?;
                writeln!(
                    out,
                    "{} in {}",
                    headline(&message),
                    printable(&message.server_id, NAME)
                )?;
                writeln!(
                    out,
                    "    {}  {}",
                    printable(&message.session_id, NAME),
                    content(&message, most)
                )?;
            }
            Ok(())
        })?;
        Ok(found)
    }
}
