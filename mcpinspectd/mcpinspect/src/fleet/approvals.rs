//! `mcpinspect fleet approve`, `revoke` and `approvals`: a signed list of approved definitions.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::table::aligned;
use mcpinspect_core::model::{DefinitionHash, Timestamp};
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::event::json::terminal_safe;
use mcpinspect_runtime::files;
use mcpinspect_settings::approvals::folder::SIGNATURE;
use mcpinspect_settings::approvals::keys::Keys;
use mcpinspect_settings::approvals::list::{ApprovalList, Entry};
use mcpinspect_settings::config::Config;
use nix::unistd::User;
use serde_json::json;

use super::signing::SignerArguments;
use super::times::time;
use crate::decide;
use crate::pins;
use crate::pins::{Item, NAME, RegistryLocation};

/// Approve a definition for all machines, on a signed list
///
/// Adds the definition to the list, increments its serial number and signs it. Machines whose
/// configuration names the public key load it from /etc/mcpinspectd/approvals.d; copy FILE and
/// FILE.minisig there.
#[derive(clap::Args)]
pub struct Approve {
    #[command(flatten)]
    item: Item,
    /// Hash of the definition. With all 64 digits, this machine need not know the tool; with at
    /// least the first 8, the definition is looked up in the registry. Default: the definition that
    /// this machine saw last.
    #[arg(long)]
    hash: Option<String>,
    /// Expiry time of the approval, such as 2027-01-31T00:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time)]
    expires: Option<Timestamp>,
    #[command(flatten)]
    change: Change,
    #[command(flatten)]
    location: RegistryLocation,
}

/// Revoke what a signed list approves
///
/// The definition counts as changed again on every machine that loads the list.
#[derive(clap::Args)]
pub struct Revoke {
    #[command(flatten)]
    item: Item,
    /// Hash of the definition, or at least its first 8 digits. Default: all definitions of the item
    /// that the list approves.
    #[arg(long)]
    hash: Option<String>,
    #[command(flatten)]
    change: Change,
}

/// Show a signed list, and check its signature
///
/// Exits with status 1 if no known key has signed it.
#[derive(clap::Args)]
pub struct Approvals {
    /// The list.
    #[arg(value_name = "FILE")]
    list: PathBuf,
    #[command(flatten)]
    trust: Trust,
    /// Configuration file that names keys. Default: /etc/mcpinspectd/config.toml.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Change {
    /// The list. It is created if it does not exist, and named after the file.
    #[arg(long, value_name = "FILE")]
    list: PathBuf,
    #[command(flatten)]
    signer: SignerArguments,
    #[command(flatten)]
    trust: Trust,
    /// Reason to record.
    #[arg(long, default_value = "")]
    reason: String,
    /// Who approves or revokes. Default: your user name.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Expiry time of the whole list: machines without a newer one ignore it from then on.
    #[arg(long, value_name = "TIME", value_parser = time)]
    list_expires: Option<Timestamp>,
}

#[derive(clap::Args)]
struct Trust {
    /// Public key of someone else who signs this list, or a file with it.
    #[arg(long, value_name = "KEY")]
    trust: Vec<String>,
}

impl Approve {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let hash = self.hash.as_deref().map(str::parse::<DefinitionHash>);
        let (server, key, hash) = match hash {
            Some(Ok(hash)) => (self.item.server().to_owned(), self.item.key(), hash),
            _ => {
                let registry = self.location.read()?;
                let item = self.item.find(&registry)?;
                let digits = self.hash.as_deref();
                let hash = digits.map(|digits| decide::resolve(&registry, &item, digits));
                let hash = hash.transpose()?.unwrap_or(item.current);
                (item.server, item.key, hash)
            }
        };
        let now = Timestamp::now();
        let by = self.change.by();
        let reason = self.change.reason.clone();
        let entry = Entry {
            server,
            key,
            hash,
            by,
            time: now,
            reason,
            expires: self.expires,
        };
        let summary = format!("approved {}", named(&entry));
        self.change.make(now, |list| {
            list.approve(entry);
            Ok(summary)
        })
    }
}

impl Revoke {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let now = Timestamp::now();
        let (server, key) = (self.item.server().to_owned(), self.item.key());
        let (by, reason) = (self.change.by(), self.change.reason.clone());
        let digits = self.hash.map(|digits| digits.to_ascii_lowercase());
        self.change.make(now, |list| {
            let fits = |entry: &&Entry| entry.server == server && entry.key == key;
            let approved = list.approvals.iter().filter(fits).map(|entry| entry.hash);
            let chosen: Vec<DefinitionHash> = match &digits {
                None => approved.collect(),
                Some(digits) => {
                    ensure!(
                        digits.len() >= 8,
                        "--hash takes at least 8 digits of a hash"
                    );
                    approved
                        .filter(|hash| hash.to_string().starts_with(digits))
                        .collect()
                }
            };
            ensure!(
                !chosen.is_empty(),
                "{list} has no approval of such a definition of {} {}",
                printable(&server, NAME),
                pins::noun(&key)
            );
            let mut summary = Vec::new();
            for hash in chosen {
                list.revoke(&server, &key, Some(hash), (&by, &reason, now));
                summary.push(format!(
                    "revoked {} {} at {}",
                    printable(&server, NAME),
                    pins::noun(&key),
                    hash.short()
                ));
            }
            Ok(summary.join("\n"))
        })
    }
}

impl Change {
    fn by(&self) -> String {
        let name = || {
            let uid = decide::person();
            let user = User::from_uid(uid.into()).ok().flatten();
            user.map_or_else(|| format!("uid {uid}"), |user| user.name)
        };
        self.by.clone().unwrap_or_else(name)
    }

    /// Changes the list and signs it. Both files are replaced, the signature last.
    fn make(
        &self,
        now: Timestamp,
        change: impl FnOnce(&mut ApprovalList) -> anyhow::Result<String>,
    ) -> anyhow::Result<ExitCode> {
        let signer = self.signer.open()?;
        let _lock = lock(&self.list)?;
        let mut keys = self.trust.trust.clone();
        keys.push(signer.public());
        let mut list = match read(&self.list)? {
            Some((text, signature)) => {
                Keys::new(&keys)?
                    .verify(text.as_bytes(), &signature)
                    .with_context(|| {
                        format!(
                            "{} was not signed by your key; give the signer's public key with --trust",
                            self.list.display()
                        )
                    })?;
                ApprovalList::parse(&text).with_context(|| self.list.display().to_string())?
            }
            None => {
                let name = self.list.file_stem().unwrap_or_default();
                ApprovalList::new(&name.to_string_lossy(), now)?
            }
        };
        let summary = change(&mut list)?;
        list.serial = list
            .serial
            .checked_add(1)
            .context("there is no higher serial number; begin a new list")?;
        list.issued = now;
        if self.list_expires.is_some() {
            list.expires = self.list_expires;
        }
        let text = list.text()?;
        let signature = signer.sign(&text, &format!("{list} of {now}"))?;
        let write = |path: &Path, text: &str| {
            files::replace(path, text.as_bytes(), 0o644)
                .with_context(|| format!("cannot write {}", path.display()))
        };
        write(&self.list, &text)?;
        write(&beside(&self.list), &signature)?;
        terminal::print(|out| {
            writeln!(out, "{summary}")?;
            writeln!(
                out,
                "{list}, {} approvals: {} and {}",
                list.approvals.len(),
                self.list.display(),
                beside(&self.list).display()
            )
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Approvals {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut keys = Config::load(self.config.as_deref())?.approvals.keys;
        keys.extend(self.trust.trust);
        let path = self.list.display();
        let Some((text, signature)) = read(&self.list)? else {
            bail!("{path} does not exist");
        };
        let keys = Keys::new(&keys)?;
        let verified = keys.verify(text.as_bytes(), &signature);
        let list = ApprovalList::parse(&text).with_context(|| path.to_string())?;
        let signed = match &verified {
            Ok(key) => format!("signed by {}", printable(key, NAME)),
            Err(error) => format!("NOT TRUSTED: {error}"),
        };
        terminal::print(|out| match self.json {
            true => {
                let list: serde_json::Value = serde_json::from_str(&text)?;
                let shown = json!({ "list": list, "signed_by": verified.as_ref().ok() });
                writeln!(out, "{}", terminal_safe(&shown)?)
            }
            false => show(out, &list, &signed),
        })?;
        Ok(match verified {
            Ok(_) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(1),
        })
    }
}

fn show(out: &mut dyn Write, list: &ApprovalList, signed: &str) -> std::io::Result<()> {
    writeln!(out, "{list}, issued {}; {signed}", list.issued)?;
    if let Some(end) = list.expires {
        writeln!(out, "ends {end}")?;
    }
    aligned(out, |out| {
        writeln!(out, "SERVER\tTOOL\tHASH\tDECISION\tBY\tTIME\tREASON")?;
        let approved = list.approvals.iter().map(|entry| ("approved", entry));
        let revoked = list.revoked.iter().map(|entry| ("revoked", entry));
        for (decision, entry) in approved.chain(revoked) {
            writeln!(
                out,
                "{}\t{}\t{}\t{decision}\t{}\t{}\t{}",
                printable(&entry.server, NAME),
                pins::noun(&entry.key),
                entry.hash.short(),
                printable(&entry.by, NAME),
                pins::day(entry.time),
                printable(&entry.reason, NAME),
            )?;
        }
        Ok(())
    })
}

fn named(entry: &Entry) -> String {
    format!(
        "{} {} at {}",
        printable(&entry.server, NAME),
        pins::noun(&entry.key),
        entry.hash.short()
    )
}

fn beside(list: &Path) -> PathBuf {
    let mut name = list.as_os_str().to_owned();
    name.push(SIGNATURE);
    name.into()
}

/// A list and its signature; `None` if there is no list.
fn read(list: &Path) -> anyhow::Result<Option<(String, String)>> {
    let text = match std::fs::read_to_string(list) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", list.display()));
        }
    };
    let path = beside(list);
    let signature = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read the signature {}", path.display()))?;
    Ok(Some((text, signature)))
}

/// If two people change one list, the second waits. The folder is locked, because files are replaced.
fn lock(list: &Path) -> anyhow::Result<File> {
    let folder = match list.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let opened = File::open(folder);
    let folder = opened.with_context(|| format!("cannot open {}", folder.display()))?;
    folder.lock().context("cannot lock the list's folder")?;
    Ok(folder)
}
