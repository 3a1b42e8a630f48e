//! A real notification on a screen that nobody sees: a virtual X server, a notification daemon from
//! Debian, two buses of their own, and the programs themselves.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::stage::{Directory, Running, eventually, program};
use crate::{setup, shell};

const DISPLAY: &str = ":97";

/// Both buses let everybody say everything: only what is started here is on them.
const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path=SOCKET</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
  </policy>
</busconfig>"#;

/// A font that does not cut our headings.
const SETTINGS: &str = "[Settings]\ngtk-font-name=Cantarell 9\n";

/// The notification daemon of Xfce, which shows a card's buttons.
fn notifier() -> String {
    format!(
        "/usr/lib/{}-linux-gnu/xfce4/notifyd/xfce4-notifyd",
        std::env::consts::ARCH
    )
}

/// Makes sure of what it takes.
pub fn install() -> Result<()> {
    setup::programs(&[
        ("Xvfb", "xvfb"),
        ("import", "imagemagick"),
        ("dbus-daemon", "dbus-daemon"),
        (&notifier(), "xfce4-notifyd"),
        ("/usr/share/icons/Adwaita/index.theme", "adwaita-icon-theme"),
        (
            "/usr/share/fonts/opentype/cantarell/Cantarell-Regular.otf",
            "fonts-cantarell",
        ),
    ])
}

/// Plays a session of the demo (without `turn`, a tool turns bad under its user), and takes a picture of what the
/// desktop shows.
pub fn screenshot(agent: &Path, turn: Option<&str>, to: &Path) -> Result<()> {
    let directory = Directory::make(&format!("pictures-{}", std::process::id()))?;
    let place = |name: &str| directory.path().join(name);
    let (_system, system) = bus(&place("system"))?;
    let (_session, session) = bus(&place("session"))?;
    let mut screen = Command::new("Xvfb");
    screen
        .args([DISPLAY, "-screen", "0", "1600x1200x24", "-nolisten", "tcp"])
        .stderr(Stdio::null());
    let _screen = Running::start(&mut screen)?;
    let number = DISPLAY.trim_start_matches(':');
    eventually("a screen", || {
        Path::new("/tmp/.X11-unix")
            .join(format!("X{number}"))
            .exists()
    })?;
    let settings = place("gtk-3.0");
    fs::create_dir(&settings)?;
    fs::write(settings.join("settings.ini"), SETTINGS)?;
    let mut notifier = Command::new(notifier());
    notifier
        .env("XDG_CONFIG_HOME", directory.path())
        .env("DISPLAY", DISPLAY)
        .env("DBUS_SESSION_BUS_ADDRESS", &session)
        // For sharp screens.
        .env("GDK_SCALE", "2")
        .stderr(Stdio::null());
    let _notifier = Running::start(&mut notifier)?;

    let log = place("log");
    let configuration = place("config.toml");
    let registry = place("registry.db");
    fs::write(
        &configuration,
        format!("[events]\njournal = false\n[registry]\npath = {registry:?}\n"),
    )?;
    let mut daemon = program("mcpinspectd");
    daemon
        .args(["run", "--log", "info", "--config"])
        .arg(&configuration)
        .env("DBUS_SYSTEM_BUS_ADDRESS", &system)
        .stderr(fs::File::create(&log)?);
    let _daemon = Running::start(&mut daemon)?;
    let logged = |what: &str| fs::read_to_string(&log).is_ok_and(|text| text.contains(what));
    eventually("the daemon on its bus", || logged("on the system bus"))?;

    let notify_log = place("notify-log");
    let mut notify = program("mcpinspect-notify");
    notify
        .args(["--log", "info"])
        .env("DBUS_SYSTEM_BUS_ADDRESS", &system)
        .env("DBUS_SESSION_BUS_ADDRESS", &session)
        .stderr(fs::File::create(&notify_log)?);
    let _notify = Running::start(&mut notify)?;
    eventually("mcpinspect-notify on both buses", || {
        fs::read_to_string(&notify_log).is_ok_and(|text| text.matches("connected to").count() == 2)
    })?;
    shell::run(Command::new(agent).arg("session").args(turn))?;
    // The card fades in, and is updated once more.
    std::thread::sleep(Duration::from_secs(4));

    let whole = place("screen.png");
    let mut import = Command::new("import");
    import.args(["-display", DISPLAY, "-window", "root"]);
    shell::run(import.arg(&whole))?;
    let mut cut = Command::new("convert");
    cut.arg(&whole)
        .args(["-trim", "+repage", "-bordercolor", "#40566b"])
        .args(["-border", "36", "-strip", "-colors", "128"])
        .arg(format!("png8:{}", to.display()));
    shell::run(&mut cut)?;
    let size = fs::metadata(to)?.len();
    ensure!(size > 4096, "no notification appeared on the screen");
    Ok(())
}

/// A bus with its socket at `socket`, and its address.
fn bus(socket: &Path) -> Result<(Running, String)> {
    let configuration = socket.with_extension("conf");
    let text = BUS.replace("SOCKET", &socket.display().to_string());
    fs::write(&configuration, text)?;
    let mut daemon = Command::new("dbus-daemon");
    daemon
        .arg(format!("--config-file={}", configuration.display()))
        .args(["--nofork", "--nopidfile", "--nosyslog"]);
    let daemon = Running::start(&mut daemon)?;
    eventually("a bus", || {
        std::os::unix::net::UnixStream::connect(socket).is_ok()
    })?;
    Ok((daemon, format!("unix:path={}", socket.display())))
}
