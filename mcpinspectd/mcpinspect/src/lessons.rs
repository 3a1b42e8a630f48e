//! What a person's decisions taught detection: shown by `mcpinspect explain`, undone by
//! `mcpinspect rules forget-lessons`.

use std::fmt::Write as _;
use std::fs::File;
use std::process::ExitCode;

use mcpinspect_bus::client;
use mcpinspect_bus::client::answer;
use mcpinspect_cli::terminal;
use mcpinspect_core::model::Timestamp;
use mcpinspect_core::text::escape;
use mcpinspect_judge::detect::category::Category;
use mcpinspect_settings::lessons;
use mcpinspect_settings::rule_files;
use nix::unistd::User;

use super::daemon::on_bus;
use super::decide::person;
use super::pins::{self, NAME, RegistryLocation};

impl RegistryLocation {
    /// What the person's decisions taught about a category, for them to read; empty if nothing.
    pub fn taught(&self, category: Category) -> String {
        let Ok(path) = self.suppressions() else {
            return String::new();
        };
        if let Err(error) = File::open(&path)
            && error.kind() == std::io::ErrorKind::PermissionDenied
        {
            return "\nOnly root and the group mcpinspect can read what detection has learned from your decisions about it.\n"
                .to_owned();
        }
        let (active, _) = rule_files::load(&[&path]);
        let (lessons, uid, now) = (active.rules.lessons(), person(), Timestamp::now());
        let about = lessons.about(uid, category, now);
        if about.is_empty() {
            return String::new();
        }
        let more = lessons.lenience(Some(uid), category, now);
        let mut out = format!(
            "\nYour decisions raised the limit for such an alert by {more:.1} (log odds), for servers that run as \
             uid {uid}.\nFindings below it are warnings. The decisions were about these alerts:\n"
        );
        for lesson in about {
            let _ = writeln!(
                out,
                "  - {}, {} on {}",
                escape::printable(&lesson.server, NAME),
                lesson.because.as_str(),
                pins::day(Timestamp(lesson.at))
            );
        }
        out.push_str("`sudo mcpinspect rules forget-lessons` undoes that.\n");
        out
    }
}

/// Undo what detection has learned from decisions: alerts use the built-in limits again
///
/// The decisions themselves and suppressions stay in force.
#[derive(clap::Args)]
pub struct ForgetLessons {
    /// The user whose lessons to forget, by name or id. Default: you.
    #[arg(long, value_name = "USER", value_parser = user)]
    user: Option<u32>,
    /// Forget the lessons of all users.
    #[arg(long, conflicts_with = "user")]
    all: bool,
    #[command(flatten)]
    location: RegistryLocation,
}

/// The id of a user, by name or id.
fn user(word: &str) -> Result<u32, String> {
    if let Ok(uid) = word.parse() {
        return Ok(uid);
    }
    match User::from_name(word) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        _ => Err("no such user; give a name or an id".to_owned()),
    }
}

impl ForgetLessons {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let user = match self.all {
            true => None,
            false => Some(self.user.unwrap_or_else(person)),
        };
        let path = self.location.suppressions()?;
        let count = match path.exists() {
            true => lessons::forget(&path, user)?,
            false => 0,
        };
        let reloaded = count > 0
            && on_bus(async {
                let manager = client::connect().await?;
                answer(manager.reload()).await.map_err(Into::into)
            })
            .is_ok();
        terminal::print(|out| {
            let noun = if count == 1 { "lesson" } else { "lessons" };
            writeln!(out, "forgot {count} {noun}")?;
            if count > 0 && !reloaded {
                writeln!(
                    out,
                    "a running daemon uses them until `systemctl reload mcpinspectd`"
                )?;
            }
            Ok(())
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
