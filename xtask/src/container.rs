//! A clean Debian for the tests that install the package. It is unpacked once below `target`; each
//! test boots it with an overlay that is discarded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::setup;
use crate::shell::{self, say};

/// The oldest release that packages must run on: the kernels of older ones cannot run the probes.
const RELEASE: &str = "bookworm";

/// What a small server installation has, plus the standard tools that ship journals.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,polkitd,libpam-systemd,systemd-journal-remote,rpm,openssl,rsyslog,rsyslog-gnutls";

/// Programs that create and boot it, and their Debian packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("debootstrap", "debootstrap"),
    ("systemd-nspawn", "systemd-container"),
    ("nsenter", "util-linux"),
];

/// The path of the unpacked system.
fn place() -> PathBuf {
    shell::target().join("container").join(RELEASE)
}

/// Unpacks the system, unless that was done before.
pub fn install() -> Result<()> {
    setup::programs(PROGRAMS)?;
    let place = place();
    let stamp = place.with_extension("packages");
    if fs::read_to_string(&stamp).is_ok_and(|have| have == PACKAGES) {
        return Ok(());
    }
    say(&format!(
        "unpacking a clean Debian {RELEASE} to {} (takes a minute)",
        place.display()
    ));
    let parent = place.parent().context("no parent directory")?;
    fs::create_dir_all(parent)?;
    // The remains of an interrupted run belong to root.
    let mut clean = shell::as_root("rm", &[])?;
    shell::run(clean.args(["-rf", "--"]).arg(&place).arg(&stamp))?;
    let mut bootstrap = shell::as_root("debootstrap", &[])?;
    bootstrap
        .args(["--variant=minbase", "--include", PACKAGES, RELEASE])
        .arg(&place);
    let log = fs::File::create(parent.join("debootstrap.log"))?;
    bootstrap.stdout(Stdio::from(log)).stdin(Stdio::null());
    shell::run(&mut bootstrap).with_context(|| {
        format!(
            "cannot unpack the container; see {}",
            parent.join("debootstrap.log").display()
        )
    })?;
    anonymous(&place)?;
    // The test that ships with it starts it.
    let mut disable = shell::as_root("systemctl", &[])?;
    disable.arg(format!("--root={}", place.display()));
    shell::run(disable.args(["disable", "--quiet", "rsyslog.service"]))?;
    fs::write(stamp, PACKAGES)?;
    Ok(())
}

/// Removes what identifies a machine: each container gets its own identity.
fn anonymous(place: &Path) -> Result<()> {
    for name in ["etc/hostname", "etc/machine-id", "var/lib/dbus/machine-id"] {
        let mut remove = shell::as_root("rm", &[])?;
        shell::run(remove.args(["-f", "--"]).arg(place.join(name)))?;
    }
    Ok(())
}
