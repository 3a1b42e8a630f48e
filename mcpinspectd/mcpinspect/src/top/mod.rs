//! `mcpinspect top`: what is happening now, for someone who watches.
//!
//! [`source`] asks the daemon and the store; what it finds and the keys pressed are inputs, which [`update`]
//! applies to the [`model`]; [`draw`] shows the model. Only [`terminal`] and [`source`] touch the outside, so
//! everything else is tested without it.

mod draw;
mod measure;
mod model;
mod pretty;
mod print;
mod source;
mod table;
mod tables;
mod terminal;
#[cfg(test)]
mod testing;
mod traffic;
mod update;

use std::process::ExitCode;

use anyhow::bail;
use mcpinspect_cli::terminal::print;
use mcpinspect_engine::event::json::terminal_safe;

use crate::daemon::on_bus;
use crate::recordings::StoreLocation;
use source::Source;

/// Watch servers, calls in flight, response times and findings
///
/// Shows current activity in the terminal, updated once a second: press ? for the keys. You can
/// open servers, their sessions and messages, and freeze a server. Root and members of the group
/// mcpinspect see everything; other users see their own servers.
#[derive(clap::Args)]
pub struct Top {
    /// Print one snapshot as text instead.
    #[arg(long, conflicts_with = "json")]
    once: bool,
    /// Print one snapshot as a JSON object instead.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    location: StoreLocation,
}

impl Top {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut source = Source::new(self.location.file()?, self.location.is_off()?);
        if !self.once && !self.json {
            return terminal::show(source).map(ExitCode::from);
        }
        let snapshot = on_bus(async { Ok(source.snapshot().await) })?;
        if let Err(problem) = &snapshot.daemon {
            bail!("{problem}");
        }
        if self.once {
            let picture = print::picture(snapshot)?;
            print(|out| out.write_all(picture.as_bytes()))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut state = model::State::default();
        state.take(snapshot);
        let text = match print::printed(&state) {
            Some(printed) => terminal_safe(&printed)?,
            None => bail!("mcpinspectd does not answer"),
        };
        print(|out| writeln!(out, "{text}"))?;
        Ok(ExitCode::SUCCESS)
    }
}
