//! Servers that want another name than the one they were launched under, such as another server's.

use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context, Result};

use super::server::{Server, Wire};
use super::{Evasion, Family, PYTHON, each_is_reported, fully_reported, on_both};

fn evasions() -> Vec<Evasion> {
    on_both(&[
        "title",
        "relocated",
        "comm",
        "again",
        "often",
        "nameless",
        "verbose",
        "detached",
        "vfork-storm",
        "exec-storm",
        "deleted",
        "replaced",
        "in-memory",
        "loader",
        "chrooted",
        "namespaces",
        "other-user",
        "other-pids",
        "undumpable",
        "nobody",
        "disguised",
        "recycled",
    ])
}

fn hold(busy: usize) -> Result<()> {
    // Some delete or replace what they were started from, so each has files of its own.
    let families = RefCell::new(Vec::new());
    let start = |evasion: &Evasion| {
        let family = Family::new("launches.py")?;
        let started = family.start(evasion)?;
        families.borrow_mut().push(family);
        Ok(started)
    };
    each_is_reported(&evasions(), &start, busy)
}

#[test]
fn servers_that_want_another_name() -> Result<()> {
    hold(0)
}

#[test]
fn servers_that_want_another_name_beside_busy_loops() -> Result<()> {
    hold(6)
}

/// Ways to start a server, and names, that are made to be misread.
fn odd_starts(busy: usize) -> Result<()> {
    let family = Family::new("launches.py")?;
    let start = |evasion: &Evasion| odd_start(&family, evasion);
    let all = [
        "shebang",
        "long-shebang",
        "called-npm",
        "lookalike",
        "escape-sequences",
        "right-to-left",
        "line-breaks",
        "very-long",
        "hash-sign",
    ];
    let both =
        |how: &&'static str| [Wire::Pipes, Wire::Socket].map(|wire| fully_reported(how, wire));
    let evasions: Vec<Evasion> = all.iter().flat_map(both).collect();
    each_is_reported(&evasions, &start, busy)
}

fn odd_start(family: &Family, evasion: &Evasion) -> Result<(Server, String)> {
    let long = "x".repeat(200);
    let (file, name) = match evasion.how {
        "lookalike" => ("g\u{456}thub.py", "g-thub"),
        "escape-sequences" => ("evader\u{1b}[2J\u{1b}[31mred.py", "evader-2J-31mred"),
        "right-to-left" => ("evader\u{202e}yp.tif.py", "evader-yp.tif"),
        "line-breaks" => ("evader\nserver: github\r.py", "evader-server-github"),
        "very-long" => (long.as_str(), &long[..48]),
        "hash-sign" => ("github#0123.py", "github-0123"),
        "shebang" => ("evader-shebang", "evader-shebang"),
        "long-shebang" => ("evader-long-shebang", "evader-long-shebang"),
        _ => ("evader-called-npm.py", "evader-called-npm"),
    };
    let path = family.named(file)?;
    let mut command = match evasion.how {
        "shebang" | "long-shebang" => {
            let first = match evasion.how {
                "shebang" => format!("#!{PYTHON}"),
                _ => "#! \t/usr/bin/env   -S   python3   -u   -B".to_owned(),
            };
            let program = std::fs::read_to_string(&path)?;
            std::fs::write(&path, format!("{first}\n{program}"))?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
            Command::new(&path)
        }
        "called-npm" => {
            let mut command = Command::new(PYTHON);
            command.arg0("npm").arg(&path);
            command
        }
        _ => {
            let mut command = Command::new(PYTHON);
            command.arg(&path);
            command
        }
    };
    command.arg("plain").current_dir(family.files());
    let server = Server::start(command, evasion.wire).context(name.to_owned())?;
    Ok((server, name.to_owned()))
}

#[test]
fn starts_that_are_made_to_be_misread() -> Result<()> {
    odd_starts(0)
}

#[test]
fn starts_that_are_made_to_be_misread_beside_busy_loops() -> Result<()> {
    odd_starts(6)
}
