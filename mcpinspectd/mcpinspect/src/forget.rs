//! `mcpinspect forget`: removes what the registry holds about a server, or about one of its tools.

use std::process::ExitCode;

use mcpinspect_cli::terminal;
use mcpinspect_core::model::Timestamp;
use mcpinspect_core::text::escape;
use mcpinspect_judge::registry::{
    Attribution, DecideError, DecidedBy, DecisionKind, Owner, ServerOf,
};

use super::decide::person;
use super::pins::{self, NAME, OwnerOption, RegistryLocation};

/// Remove a server, or one of its tools, from the registry
///
/// The pin and all known definitions are deleted. If the server offers the tool again, the tool
/// counts as new and its definition is pinned, so forget only servers that you no longer use. The
/// decision itself stays on record, and a running daemon emits an event for it.
#[derive(clap::Args)]
pub struct Forget {
    /// The server's name, as `mcpinspect tools` shows it.
    server: String,
    /// The tool's name; without it, everything that the server ever offered.
    tool: Option<String>,
    #[command(flatten)]
    owner_option: OwnerOption,
    /// Reason to record with the decision.
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    location: RegistryLocation,
}

impl Forget {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut registry = self.location.write()?;
        let uid = person();
        let by = Attribution {
            by: DecidedBy::Person(uid),
            time: Timestamp::now(),
            reason: &self.reason,
        };
        let server = escape::printable(&self.server, NAME);
        let what = match &self.tool {
            Some(tool) => {
                let item = pins::tool(&registry, &self.server, tool, self.owner_option)?;
                let of = pins::server_of(&item);
                registry.decide(of, &item.key, DecisionKind::Forget, None, by)?;
                format!("{server} {}", pins::noun(&item.key))
            }
            None => {
                let items = pins::of_server(&registry, &self.server)?;
                let owners = items.iter().map(|item| item.owner);
                let owner = self.owner_option.of(owners, &self.server)?;
                let mut count = registry.forget_server(ServerOf::new(owner, &self.server), by)?;
                // What no one has taken over would be left.
                let rest = ServerOf::new(Owner::Earlier, &self.server);
                if owner != Owner::Earlier {
                    count += match registry.forget_server(rest, by) {
                        Err(DecideError::UnknownItem) => 0,
                        forgotten => forgotten?,
                    };
                }
                format!("{server} ({count} items)")
            }
        };
        terminal::print(|out| writeln!(out, "forgot {what}, as uid {uid}"))?;
        Ok(ExitCode::SUCCESS)
    }
}
