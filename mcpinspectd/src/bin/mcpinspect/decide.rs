//! `mcpinspect approve`, `reject`, `pin`, `unpin`: a person's word on a definition.
//!
//! The registry keeps who gave it and why, and a running daemon makes an event of it.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use mcpinspectd::model::{DefinitionHash, Timestamp};
use mcpinspectd::registry::{
    Attribution, DecideError, DecidedBy, DecisionKind, ItemView, Registry,
};
use mcpinspectd::terminal;
use mcpinspectd::text::escape;
use nix::unistd::getuid;

use super::pins::{self, Item, NAME, Place};

/// Accept what a tool says now: it becomes the pin
#[derive(clap::Args)]
pub struct Approve {
    #[command(flatten)]
    definition: Definition,
    #[command(flatten)]
    rest: Rest,
}

/// Refuse what a tool says now: the pin stays, and the change goes on being told
#[derive(clap::Args)]
pub struct Reject {
    #[command(flatten)]
    definition: Definition,
    #[command(flatten)]
    rest: Rest,
}

/// Hold a tool to a definition of your choice, such as an earlier one
#[derive(clap::Args)]
pub struct Pin {
    #[command(flatten)]
    definition: Definition,
    #[command(flatten)]
    rest: Rest,
}

/// Forget a tool's pin: what it says when it is seen next is accepted
#[derive(clap::Args)]
pub struct Unpin {
    #[command(flatten)]
    rest: Rest,
}

#[derive(clap::Args)]
struct Definition {
    /// The definition meant: its hash, or the first 8 digits and more. Without it, the one seen last;
    /// with it, nothing that came in between is accepted unseen.
    #[arg(long)]
    hash: Option<String>,
}

#[derive(clap::Args)]
struct Rest {
    #[command(flatten)]
    item: Item,
    /// Why, for those who read the record later.
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    place: Place,
}

impl Approve {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.rest
            .decide(DecisionKind::Approve, self.definition.hash.as_deref())
    }
}

impl Reject {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.rest
            .decide(DecisionKind::Reject, self.definition.hash.as_deref())
    }
}

impl Pin {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.rest
            .decide(DecisionKind::Pin, self.definition.hash.as_deref())
    }
}

impl Unpin {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.rest.decide(DecisionKind::Unpin, None)
    }
}

impl Rest {
    fn decide(self, kind: DecisionKind, hash: Option<&str>) -> anyhow::Result<ExitCode> {
        let mut registry = self.place.write()?;
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
            .decide(&item.server, &item.key, kind, hash, by)
            .map_err(|error| match error {
                DecideError::Storage(_) => {
                    anyhow::Error::new(error).context("nothing was decided; try again with sudo")
                }
                other => other.into(),
            })?;
        let done = match kind {
            DecisionKind::Approve => "approved",
            DecisionKind::Reject => "rejected",
            DecisionKind::Pin => "pinned",
            DecisionKind::Unpin => "unpinned",
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

/// The person at the keyboard: the one who called sudo or pkexec, where it is root who runs this.
fn person() -> u32 {
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
fn resolve(registry: &Registry, item: &ItemView, digits: &str) -> anyhow::Result<DefinitionHash> {
    if digits.len() < 8 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        bail!("--hash takes at least 8 hexadecimal digits of a definition's hash");
    }
    let digits = digits.to_ascii_lowercase();
    let versions = registry
        .versions(&item.server, &item.key)
        .context("cannot read the tool registry")?;
    let fitting: Vec<DefinitionHash> = versions
        .iter()
        .map(|version| version.hash)
        .filter(|hash| hash.to_string().starts_with(&digits))
        .collect();
    match fitting.as_slice() {
        [hash] => Ok(*hash),
        [] => bail!(
            "no definition of {} has a hash that starts with {digits}; seen were {}",
            pins::noun(&item.key),
            versions
                .iter()
                .rev()
                .take(8)
                .map(|version| pins::short(version.hash))
                .collect::<Vec<_>>()
                .join(", ")
        ),
        _ => bail!("several definitions start with {digits}; give more digits"),
    }
}
