//! `cargo xtask pictures`: the pictures of the README, made by the programs themselves.
//!
//! A picture drawn by hand shows what the program once did, or was meant to do. These are a
//! recording of a real `mcpinspectd tap` and screenshots of real notifications, all of the demo's
//! sessions, and this command makes them anew.

mod desktop;
mod recording;
mod stage;
mod svg;

use std::path::PathBuf;

use anyhow::{Result, ensure};

use self::stage::Directory;

use crate::shell::{self, say};
use crate::{run, setup};

/// What the demo's session does, and the picture of the notification about it.
const NOTIFICATIONS: [(Option<&str>, &str); 3] = [
    (None, "notification.png"),
    (Some("quiet"), "notification-changed.png"),
    (Some("mail"), "notification-obeyed.png"),
];

/// Makes all of them.
pub fn make() -> Result<()> {
    ensure!(
        shell::is_root(),
        "this loads probes and starts several programs that have to reach each other: run it as root"
    );
    setup::toolchain()?;
    setup::kernel()?;
    desktop::install()?;
    say("building");
    let mut build = shell::cargo();
    build.args(["build", "--package", "mcpinspectd"]);
    build.args(["--package", "mcpinspect", "--package", "mcpinspect-notify"]);
    build.args(["--package", "mcpinspect-tests", "--bins"]);
    shell::run(&mut build)?;

    // The programs' paths are in the pictures.
    let directory = Directory::make("demo")?;
    let agent = directory.path().join("agent");
    std::fs::copy(run::built("debug", "demo"), &agent)?;
    say("recording `mcpinspectd tap`");
    let rows = recording::of_tap(&agent)?;
    std::fs::write(folder().join("tap.svg"), svg::of(&rows))?;
    say("taking screenshots of notifications");
    for (turn, name) in NOTIFICATIONS {
        desktop::screenshot(&agent, turn, &folder().join(name))?;
    }
    println!("{}", folder().display());
    Ok(())
}

/// Where they are.
fn folder() -> PathBuf {
    shell::root().join("mcpinspectd/docs/pictures")
}
