//! Man pages and shell completions, generated from the command lines.
//!
//! A page written by hand contradicts its program sooner or later. So each program can write its own
//! pages, one for itself and one for each command, and completions for three shells.
//! `cargo xtask package` calls:
//!
//! ```text
//! mcpinspect --write-manual DIR    DIR/man/mcpinspect.1 …  DIR/completions/{bash,zsh,fish}/…
//! ```
//!
//! The option is not part of the command line's definition, or it would appear on every page.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::terminal;

/// The option that asks for the manual, followed by a directory.
const OPTION: &str = "--write-manual";

/// The manual's name in the header of each page.
const TITLE: &str = "mcpinspectd";

/// Pages that every page refers to.
const SEE_ALSO: &[(&str, &str)] = &[
    ("mcpinspect", "1"),
    ("mcpinspect-notify", "1"),
    ("mcpinspectd.toml", "5"),
    ("mcpinspectd", "8"),
    ("journalctl", "1"),
];

/// The daemon's files, listed on its page.
const FILES: &[(&str, &str)] = &[
    (
        "/etc/mcpinspectd/config.toml",
        "Settings; see mcpinspectd.toml(5).",
    ),
    (
        "/etc/mcpinspectd/rules.d",
        "Your own detection rules and suppressions.",
    ),
    (
        "/var/lib/mcpinspectd/registry.db",
        "The registry: every tool definition seen, and the pins.",
    ),
];

/// A section of the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Section 1: commands for everyone.
    Commands,
    /// Section 8: administration.
    Administration,
}

impl Section {
    fn number(self) -> &'static str {
        match self {
            Self::Commands => "1",
            Self::Administration => "8",
        }
    }
}

/// Writes the manual if this program's arguments ask for that and nothing else, and returns the exit
/// code.
pub fn asked_for(command: impl FnOnce() -> Command, section: Section) -> Option<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).take(3).collect();
    let [option, directory] = arguments.as_slice() else {
        return None;
    };
    if option != OPTION {
        return None;
    }
    Some(match write(command(), section, Path::new(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let directory = Path::new(directory).display();
            terminal::complain(format_args!("cannot write to {directory}: {error}"));
            ExitCode::FAILURE
        }
    })
}

/// Writes the pages and completions of a program below `directory`, which is created if missing.
///
/// # Errors
/// A file cannot be written.
pub fn write(command: Command, section: Section, directory: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    let name = command.get_name().to_owned();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let completions = directory.join("completions").join(shell.to_string());
        fs::create_dir_all(&completions)?;
        generate_to(shell, &mut command, name.as_str(), completions)?;
    }
    let pages = directory.join("man");
    fs::create_dir_all(&pages)?;
    command.build();
    page(&command, section, &pages)
}

/// Writes the page of a command, and those of its subcommands.
fn page(command: &Command, section: Section, pages: &Path) -> io::Result<()> {
    let man = Man::new(command.clone())
        .section(section.number())
        .manual(TITLE)
        .source(format!("{TITLE} {}", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    man.render(&mut text)?;
    let mut more = Roff::new();
    if command.get_name() == TITLE {
        files(&mut more);
    }
    see_also(&mut more, command.get_name());
    // The page already has the portability preamble.
    text.extend_from_slice(more.to_roff().as_bytes());
    fs::write(pages.join(man.get_filename()), text)?;
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .try_for_each(|command| page(command, section, pages))
}

fn files(roff: &mut Roff) {
    roff.control("SH", ["FILES"]);
    for (file, what) in FILES {
        roff.control("TP", []);
        roff.text([bold(*file)]);
        roff.text([roman(*what)]);
    }
}

fn see_also(roff: &mut Roff, own: &str) {
    roff.control("SH", ["SEE ALSO"]);
    let others: Vec<_> = SEE_ALSO.iter().filter(|(name, _)| *name != own).collect();
    let mut line = Vec::new();
    for (at, (name, section)) in others.iter().enumerate() {
        let end = if at + 1 == others.len() { "" } else { ", " };
        line.push(bold(*name));
        line.push(roman(format!("({section}){end}")));
    }
    roff.text(line);
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn every_command_has_a_page_and_every_shell_a_completion() {
        let command = Command::new("mcpinspectd")
            .about("Watches")
            .arg(Arg::new("config").long("config").help("the file"))
            .subcommand(Command::new("run").about("Runs"))
            .subcommand(Command::new("secret").hide(true));
        let directory = tempfile::tempdir().unwrap();
        write(command, Section::Administration, directory.path()).unwrap();
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        let page = read("man/mcpinspectd.8");
        assert!(page.contains(".SH FILES"), "{page}");
        assert!(page.contains("mcpinspectd.toml"), "{page}");
        assert!(page.contains("\\-\\-config"), "{page}");
        let run = read("man/mcpinspectd-run.8");
        assert!(run.contains("SEE ALSO") && !run.contains("FILES"), "{run}");
        assert!(!directory.path().join("man/mcpinspectd-secret.8").exists());
        assert!(read("completions/bash/mcpinspectd.bash").contains("--config"));
        assert!(read("completions/zsh/_mcpinspectd").contains("config"));
        assert!(read("completions/fish/mcpinspectd.fish").contains("config"));
    }
}
