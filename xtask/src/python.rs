//! Virtual environments below `target`, with pinned packages.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::shell::{self, say};

/// Makes the environment `place` hold exactly the packages that a requirements file would list.
pub fn environment(place: &Path, requirements: &str) -> Result<()> {
    let stamp = place.join("installed.txt");
    if fs::read_to_string(&stamp).is_ok_and(|have| have == requirements) {
        return Ok(());
    }
    say(&format!(
        "installing Python packages to {}",
        place.display()
    ));
    let mut environment = Command::new("python3");
    environment.args(["-m", "venv", "--clear"]).arg(place);
    shell::run(environment.stdout(Stdio::null())).context(
        "python3 cannot make a virtual environment; on Debian or Ubuntu: sudo apt-get install python3-venv",
    )?;
    let list = place.join("requirements.txt");
    fs::write(&list, requirements)?;
    let mut pip = Command::new(place.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet"]);
    pip.args(["--disable-pip-version-check", "--requirement"]);
    shell::run(pip.arg(list))?;
    fs::write(stamp, requirements)?;
    Ok(())
}
