//! Shows that a package can be rebuilt: the same commit, elsewhere, to the byte.
//!
//! To check that a package holds what its sources say, build it yourself and compare. That works
//! only if nothing about the machine, the folder or the time gets in, so it is tried here in another
//! folder at another time. Another machine needs the same compilers: the one that the repository pins, and the
//! C compiler and the packers of the same distribution.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::shell::{self, say};

/// Makes the packages again, with these arguments of `cargo xtask package`, and compares.
pub(super) fn compare(packages: &[PathBuf], arguments: &[String]) -> Result<()> {
    let commit = shell::commit().context("packages can be compared only in a git repository")?;
    ensure!(
        !commit.ends_with("-dirty"),
        "commit your changes first: the second build is made from the commit"
    );
    let place = shell::target().join("again");
    let _ = fs::remove_dir_all(&place);
    say(&format!(
        "building the packages again in {}",
        place.display()
    ));
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--no-hardlinks"]);
    shell::run(clone.arg(shell::root()).arg(&place))?;
    // The linker for the probes is not part of the packages; it need not be built again.
    let tools = place.join("target/tools");
    fs::create_dir_all(place.join("target"))?;
    std::os::unix::fs::symlink(shell::target().join("tools"), &tools)?;
    let mut again = shell::cargo();
    again.current_dir(&place).env_remove("CARGO_TARGET_DIR");
    again.args(["xtask", "package"]).args(arguments);
    shell::run(&mut again)?;
    for package in packages {
        let below = package.strip_prefix(shell::target())?;
        same(package, &place.join("target").join(below))?;
    }
    say("both builds are identical");
    let _ = fs::remove_dir_all(&place);
    Ok(())
}

fn same(one: &Path, other: &Path) -> Result<()> {
    let read = |path: &Path| fs::read(path).with_context(|| path.display().to_string());
    ensure!(
        read(one)? == read(other)?,
        "{} and {} differ; use `diffoscope` to see where",
        one.display(),
        other.display()
    );
    Ok(())
}
