//! The client's side of a tape, played to a server.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use mcpinspect_cli::terminal;
use mcpinspect_engine::event::json::terminal_safe;

use crate::replay::compare::{Depth, Rules};
use crate::replay::drive::{Settings, drive};
use crate::replay::recording::Recording;
use crate::replay::speed::Speed;

use super::{Compare, Replay};
use crate::target::{Server, Target};

/// Seconds that an answer may take, unless specified otherwise.
const TIMEOUT: u32 = 30;

impl Replay {
    /// Asks the server what the tape's client asked.
    pub(super) fn to(self, recording: &Recording, target: &Target) -> anyhow::Result<ExitCode> {
        let options = self.to_options;
        let depth = match (options.compare, recording.header.is_anonymised) {
            (Some(Compare::Values), _) | (None, false) => Depth::Values,
            (Some(Compare::Structure), _) | (None, true) => Depth::Structure,
        };
        let mut ignored = options.ignore;
        if !options.compare_volatile {
            ignored.extend(Rules::volatile());
        }
        let settings = Settings {
            speed: self.speed.unwrap_or(Speed::Max),
            timeout: Duration::from_secs(options.timeout.unwrap_or(TIMEOUT).into()),
            assignments: self.set,
            only: options.only,
            skip: options.skip,
            rules: Rules::new(depth, ignored),
        };
        let mut server = match Server::start(target, settings.timeout) {
            Ok(server) => server,
            Err(failure) => bail!(failure.message),
        };
        let driven = drive(recording, &settings, server.peer());
        server.stop();
        let report = driven.map_err(|error| anyhow!("the replay was not possible: {error}"))?;
        if self.json {
            let text = terminal_safe(&report)?;
            terminal::print(|out| writeln!(out, "{text}"))?;
        } else {
            terminal::print(|out| report.write(out))?;
        }
        Ok(ExitCode::from(u8::from(!report.same)))
    }
}
