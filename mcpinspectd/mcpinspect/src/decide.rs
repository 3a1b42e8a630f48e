//! `mcpinspect approve`, `reject`, `pin`, `unpin`: a person's decision on a definition.
//!
//! The registry records who decided and why, and a running daemon emits an event for it.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use mcpinspect_cli::terminal;
use mcpinspect_core::model::{DefinitionHash, Timestamp};
use mcpinspect_core::text::escape;
use mcpinspect_judge::registry::{
    Attribution, DecideError, DecidedBy, DecisionKind, ItemView, Registry,
};
use nix::unistd::getuid;

use super::pins::{self, Item, NAME, RegistryLocation};

/// Accept a tool's current definition: it becomes the pin
#[derive(clap::Args)]
pub struct Approve {
    #[command(flatten)]
    definition: Definition,
    #[command(flatten)]
    decision_options: DecisionOptions,
}

/// Reject a tool's current definition: the pin stays, and the change is still reported
#[derive(clap::Args)]
pub struct Reject {
    #[command(flatten)]
    definition: Definition,
    #[command(flatten)]
    decision_options: DecisionOptions,
}

/// Pin a tool to a definition of your choice, such as an earlier one
#[derive(clap::Args)]
pub struct Pin {
    #[command(flatten)]
    definition: Definition,
    #[command(flatten)]
    decision_options: DecisionOptions,
}

/// Remove a tool's pin: the next definition seen is accepted
#[derive(clap::Args)]
pub struct Unpin {
    #[command(flatten)]
    decision_options: DecisionOptions,
}

#[derive(clap::Args)]
struct Definition {
    /// Hash of the definition, or at least its first 8 digits. Default: the definition seen last. Use
    /// it to make sure that you decide on the definition that you have read.
    #[arg(long)]
    hash: Option<String>,
}

#[derive(clap::Args)]
struct DecisionOptions {
    #[command(flatten)]
    item: Item,
    /// Reason to record with the decision.
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    location: RegistryLocation,
}

impl Approve {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.decision_options
            .decide(DecisionKind::Approve, self.definition.hash.as_deref())
    }
}

impl Reject {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.decision_options
            .decide(DecisionKind::Reject, self.definition.hash.as_deref())
    }
}

impl Pin {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.decision_options
            .decide(DecisionKind::Pin, self.definition.hash.as_deref())
    }
}

impl Unpin {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.decision_options.decide(DecisionKind::Unpin, None)
    }
}

impl DecisionOptions {
    fn decide(self, kind: DecisionKind, hash: Option<&str>) -> anyhow::Result<ExitCode> {
        let mut registry = self.location.write()?;
        let item = self.item.find(&registry)?;
        let hash = hash
            .map(|digits| resolve(&registry, &item, digits))
            .transpose()?;
        let uid = person();
        let by = Attribution {
            by: DecidedBy::Person(uid),
            time: Timestamp::now(),
            reason: &self.reason,
        };
        let decided = registry
            .decide(pins::server_of(&item), &item.key, kind, hash, by)
            .map_err(|error| match error {
                DecideError::Storage(_) => anyhow::Error::new(error)
                    .context("no decision was recorded; try again with sudo"),
                other => other.into(),
            })?;
        let done = match kind {
            DecisionKind::Approve => "approved",
            DecisionKind::Reject => "rejected",
            DecisionKind::Pin => "pinned",
            DecisionKind::Unpin => "unpinned",
            DecisionKind::Forget => "forgot",
            DecisionKind::Revoke => "revoked",
        };
        let before = match item.pinned {
            Some(pinned) if kind != DecisionKind::Reject && pinned != decided => {
                format!(" (the pin was {})", pins::short(pinned))
            }
            _ => String::new(),
        };
        terminal::print(|out| {
            writeln!(
                out,
                "{done} {} {} at {}{before}, as uid {uid}",
                escape::printable(&item.server, NAME),
                pins::noun(&item.key),
                pins::short(decided),
            )
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The person who decides: when root runs this, the one who called sudo or pkexec.
pub fn person() -> u32 {
    let own = getuid().as_raw();
    if own != 0 {
        return own;
    }
    ["SUDO_UID", "PKEXEC_UID"]
        .iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok())
        .unwrap_or(own)
}

/// The definition whose hash starts with `digits`.
pub fn resolve(
    registry: &Registry,
    item: &ItemView,
    digits: &str,
) -> anyhow::Result<DefinitionHash> {
    if digits.len() < 8 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        bail!("--hash takes at least 8 hexadecimal digits of a definition's hash");
    }
    let digits = digits.to_ascii_lowercase();
    let versions = registry
        .versions(pins::server_of(item), &item.key)
        .context("cannot read the tool registry")?;
    let fitting: Vec<DefinitionHash> = versions
        .iter()
        .map(|version| version.hash)
        .filter(|hash| hash.to_string().starts_with(&digits))
        .collect();
    match fitting.as_slice() {
        [hash] => Ok(*hash),
        [] => bail!(
            "no definition of {} has a hash that starts with {digits}; known hashes: {}",
            pins::noun(&item.key),
            versions
                .iter()
                .rev()
                .take(8)
                .map(|version| pins::short(version.hash))
                .collect::<Vec<_>>()
                .join(", ")
        ),
        _ => bail!("several hashes start with {digits}; give more digits"),
    }
}
