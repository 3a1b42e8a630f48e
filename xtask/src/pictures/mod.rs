//! `cargo xtask pictures`: the pictures of the README, made by the programs themselves.
//!
//! A picture drawn by hand shows what the program once did, or was meant to do. These are a
//! recording of a real `mcpinspectd tap` and a screenshot of a real notification, both of the demo's
//! session, and this command makes them anew.

mod desktop;
mod recording;
mod stage;
mod svg;

use std::path::PathBuf;

use anyhow::{Result, ensure};

use self::stage::Directory;

use crate::shell::{self, say};
use crate::{run, setup};

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
    build.args(["--package", "mcpinspect-tests", "--bins"]);
    shell::run(&mut build)?;

    // The programs' paths are in the pictures.
    let directory = Directory::make("demo")?;
    let agent = directory.path().join("agent");
    std::fs::copy(run::built("debug", "demo"), &agent)?;
    say("recording `mcpinspectd tap`");
    let rows = recording::of_tap(&agent)?;
    std::fs::write(folder().join("tap.svg"), svg::of(&rows))?;
    say("taking a screenshot of a notification");
    desktop::screenshot(&agent, &folder().join("notification.png"))?;
    println!("{}", folder().display());
    Ok(())
}

/// Where they are.
fn folder() -> PathBuf {
    shell::root().join("mcpinspectd/docs/pictures")
}
