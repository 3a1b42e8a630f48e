//! `cargo xtask pictures`: the pictures of the README, made by the programs themselves.
//!
//! A picture that somebody drew shows what the program once did, or was meant to do. These are a
//! recording of a real `mcpinspectd tap` and a screenshot of a real notification, both of the demo's
//! session, and this command makes them anew.

mod desktop;
mod recording;
mod svg;

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

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
    let agent = directory.0.join("agent");
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

/// One of the programs just built.
fn program(name: &str) -> Command {
    Command::new(run::built("debug", name))
}

/// A program that ends with this value.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        Ok(Self(command.spawn()?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A temporary folder that goes away with this value.
struct Directory(PathBuf);

impl Directory {
    fn make(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits until something is the case.
fn eventually(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        ensure!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
