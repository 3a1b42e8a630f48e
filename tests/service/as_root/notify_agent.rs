//! The notification agent between two private buses: what it shows, and what it survives.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mcpinspect_core::model::{ContainmentAction, SessionId};
use mcpinspect_engine::event::{Event, testing};
use mcpinspect_judge::registry::DecisionKind;
use mcpinspectd::control::Decision;
use tokio::runtime::Runtime;

use crate::support::bus::{Bus, Daemon};
use crate::support::control::Recorder;
use crate::support::desktop::Desktop;
use crate::support::{built, eventually, require, stdout};

const PROGRAM: &str = "mcpinspect-notify";

/// The running program, killed when the test ends.
struct Agent(Child);

impl Agent {
    fn start(system: &Bus, session: &Bus) -> Self {
        Self::of(Path::new(&built(PROGRAM)), system, session)
    }

    fn of(program: &Path, system: &Bus, session: &Bus) -> Self {
        let child = Command::new(program)
            .args(["--log", "debug,zbus=warn"])
            .env("DBUS_SYSTEM_BUS_ADDRESS", system.address())
            .env("DBUS_SESSION_BUS_ADDRESS", session.address())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let agent = Self(child);
        eventually("the agent listens", || {
            let address = format!("--address={}", system.address());
            let names = stdout("busctl", &[&address, "list", "--unique", "--no-legend"]);
            names.contains("mcpinspect-noti").then_some(())
        });
        // It subscribes after it connects, and the bus does not list subscriptions.
        std::thread::sleep(Duration::from_millis(200));
        agent
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The user of the servers whose alerts the agent shows: itself.
fn own_uid() -> u32 {
    nix::unistd::Uid::current().as_raw()
}

fn session_of(server: &str, uid: u32) -> Event {
    with_session(testing::session_started(server, uid), server)
}

fn detected_in(server: &str) -> Event {
    with_session(testing::detected(server), server)
}

/// Each server in a session of its own.
fn with_session(mut event: Event, session: &str) -> Event {
    let subject = event.subject.as_mut().expect("it is about a session");
    subject.session_id = SessionId(session.into());
    event
}

#[test]
fn alerts_are_shown_and_their_buttons_work() {
    let system = Bus::start();
    let session = Bus::session();
    let (recorder, control) = Recorder::new();
    let daemon = Daemon::on(&system, Some(control));
    let desktop = Desktop::default();
    let connection = desktop.on(&session, &daemon.runtime);
    let _agent = Agent::start(&system, &session);

    daemon.sinks.publish(&session_of("files", own_uid()));
    daemon.sinks.publish(&session_of("foreign", 65_534));
    daemon.sinks.publish(&detected_in("foreign"));
    daemon.sinks.publish(&with_session(
        testing::changed("files", "<b>read</b> /etc/shadow"),
        "files",
    ));
    let shown = desktop.wait_for("the change", |shown| shown.summary.contains("has changed"));
    assert_eq!(shown.summary, "Tool \"read\" of files has changed");
    assert_eq!(
        (shown.urgency, shown.replaces, shown.body.as_str()),
        (
            2,
            0,
            "The description asks the agent to read /etc/shadow\n“/etc/shadow”\nSeverity: high"
        )
    );
    assert_eq!(
        shown.actions,
        [
            "default",
            "Details",
            "approve",
            "Approve",
            "freeze",
            "Freeze server"
        ]
    );

    // What was found in the definition is on the card; the finding's own event adds nothing. That the agent has
    // seen it shows once the next server's alert is on the screen and the pause between updates is over.
    daemon.sinks.publish(&detected_in("files"));
    daemon.sinks.publish(&session_of("later", own_uid()));
    daemon.sinks.publish(&detected_in("later"));
    desktop.wait_for("a later alert", |shown| shown.summary.contains("later"));
    std::thread::sleep(Duration::from_millis(2_500));
    let all = desktop.shown.lock().unwrap().clone();
    assert!(
        all.iter()
            .all(|shown| !shown.summary.contains("alerts about")),
        "{all:?}"
    );

    desktop.press(&connection, &daemon.runtime, shown.id, "default");
    let details = desktop.wait_for("the details", |shown| shown.body.contains("is now"));
    assert!(
        details
            .body
            .contains("description is now: &lt;b&gt;read&lt;/b&gt; /etc/shadow")
    );
    desktop.press(&connection, &daemon.runtime, shown.id, "approve");
    desktop.wait_for("the approval", |shown| shown.body.contains("is approved"));
    let approved = Decision::Judge {
        kind: DecisionKind::Approve,
        server: "files".to_owned(),
        tool: "read".to_owned(),
        hash: "b".repeat(64),
    };
    assert_eq!(recorder.decided(), [(approved, own_uid())]);
    desktop.press(&connection, &daemon.runtime, shown.id, "freeze");
    let frozen = desktop.wait_for("the freezing", |shown| shown.body.contains("is frozen"));
    assert!(
        frozen.body.contains("files is frozen: 2 of its processes"),
        "{frozen:?}"
    );
    assert_eq!(
        recorder.contained(),
        [("files".to_owned(), ContainmentAction::Freeze, own_uid())]
    );
    let all = desktop.shown.lock().unwrap().clone();
    assert!(
        all.iter().all(|shown| !shown.summary.contains("foreign")),
        "{all:?}"
    );
}

#[test]
fn a_flood_is_summed_up_in_a_few_cards() {
    let system = Bus::start();
    let session = Bus::session();
    let daemon = Daemon::on(&system, None);
    let desktop = Desktop::default();
    let _connection = desktop.on(&session, &daemon.runtime);
    let _agent = Agent::start(&system, &session);
    for server in 0..20 {
        let server = format!("server-{server}");
        daemon.sinks.publish(&session_of(&server, own_uid()));
        for _ in 0..50 {
            daemon.sinks.publish(&detected_in(&server));
        }
    }
    let start = Instant::now();
    desktop.wait_for("a card that sums up", |shown| {
        shown.summary.contains("50 alerts about")
    });
    // Count for three seconds: more cards could still pop up.
    std::thread::sleep(Duration::from_secs(3).saturating_sub(start.elapsed()));
    let shown = desktop.shown.lock().unwrap();
    let new = shown.iter().filter(|shown| shown.replaces == 0).count();
    assert!((1..=4).contains(&new), "{new} cards popped up");
    assert!(shown.len() <= 4 * 3, "{} updates", shown.len());
}

#[test]
fn either_bus_and_the_desktop_may_come_and_go() {
    let mut system = Bus::start();
    let mut session = Bus::session();
    let daemon = Daemon::on(&system, None);
    let desktop = Desktop::default();
    // No notification daemon yet.
    let _agent = Agent::start(&system, &session);
    daemon.sinks.publish(&session_of("early", own_uid()));
    daemon.sinks.publish(&detected_in("early"));
    // Let the agent try to show the card and fail, which nothing reports.
    std::thread::sleep(Duration::from_millis(300));
    let connection = desktop.on(&session, &daemon.runtime);
    desktop.wait_for("what waited for the desktop", |shown| {
        shown.summary.contains("early")
    });

    drop(connection);
    session.stop();
    daemon.sinks.publish(&session_of("no-session", own_uid()));
    daemon.sinks.publish(&detected_in("no-session"));
    session.run();
    let connection = desktop.on(&session, &daemon.runtime);
    desktop.wait_for("what waited for the session bus", |shown| {
        shown.summary.contains("no-session")
    });

    system.stop();
    eventually("the daemon notices", || {
        daemon.sinks.publish(&session_of("no-system", own_uid()));
        (daemon.sinks.tally()[0].failed > 0).then_some(())
    });
    // No bus carries this one.
    daemon.sinks.publish(&detected_in("no-system"));
    system.run();
    daemon.wait_for_name(&system);
    desktop.wait_for("what was missed", |shown| {
        shown.summary.contains("no-system")
    });
    drop(connection);
}

/// An upgrade replaces the program's file, then restarts the daemon.
#[test]
fn an_upgrade_renews_the_agent() {
    let system = Bus::start();
    let session = Bus::session();
    let directory = tempfile::tempdir().unwrap();
    let (program, newer) = (
        directory.path().join("mcpinspect-notify"),
        directory.path().join("new"),
    );
    for copy in [&program, &newer] {
        std::fs::copy(built(PROGRAM), copy).unwrap();
    }
    let (recorder, control) = Recorder::new();
    let daemon = Daemon::on(&system, Some(control.clone()));
    let desktop = Desktop::default();
    let runtime = Runtime::new().unwrap();
    let connection = desktop.on(&session, &runtime);
    let agent = Agent::of(&program, &system, &session);
    let command_line = || {
        let path = format!("/proc/{}/cmdline", agent.0.id());
        std::fs::read_to_string(path).unwrap()
    };
    daemon.sinks.publish(&session_of("before", own_uid()));
    let changed = with_session(testing::changed("before", "read /etc/shadow"), "before");
    daemon.sinks.publish(&changed);
    let before = desktop.wait_for("the alert before", |shown| shown.summary.contains("before"));

    // Restarting the daemon alone changes nothing.
    let restarted = |before: Daemon| {
        before.finish();
        Daemon::on(&system, Some(control.clone()))
    };
    let daemon = restarted(daemon);
    // The agent would have re-executed itself by then, which it must not do.
    std::thread::sleep(Duration::from_millis(300));
    assert!(!command_line().contains("--after"));
    std::fs::rename(&newer, &program).unwrap();
    let daemon = restarted(daemon);
    eventually("the agent is the new program", || {
        command_line().contains("--after=").then_some(())
    });
    let running = std::fs::read_link(format!("/proc/{}/exe", agent.0.id())).unwrap();
    assert_eq!(running, program);
    eventually("it listens", || {
        daemon.sinks.publish(&session_of("after", own_uid()));
        daemon.sinks.publish(&detected_in("after"));
        let shown = desktop.shown.lock().unwrap();
        let heard = shown.iter().any(|shown| shown.summary.contains("after"));
        heard.then_some(())
    });

    // The card of before is still there, and its buttons work, although the daemon has forgotten the event.
    let again = desktop.wait_for("the card again", |shown| shown.replaces == before.id);
    assert_eq!(
        (&again.summary, &again.body),
        (&before.summary, &before.body)
    );
    desktop.press(&connection, &runtime, before.id, "default");
    desktop.wait_for("the details", |shown| shown.body.contains("is now"));
    desktop.press(&connection, &runtime, before.id, "approve");
    desktop.wait_for("the approval", |shown| shown.body.contains("is approved"));
    assert_eq!(recorder.decided().len(), 1);
}

/// A real desktop: an X server, a notification daemon that people use, and what it looks like.
#[test]
fn a_real_notification_daemon_shows_it() {
    require(&["Xvfb", "dunst", "dunstctl", "import", "identify"]);
    let system = Bus::start();
    let session = Bus::session();
    let daemon = Daemon::on(&system, None);
    let directory = tempfile::tempdir().unwrap();

    // The server picks a free display and says which.
    let mut x = Command::new("Xvfb")
        .args([
            "-displayfd",
            "1",
            "-screen",
            "0",
            "800x400x24",
            "-nolisten",
            "tcp",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut number = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(x.stdout.take().unwrap()),
        &mut number,
    )
    .unwrap();
    let display = format!(":{}", number.trim());
    let x = Agent(x);
    let rc = directory.path().join("dunstrc");
    std::fs::write(
        &rc,
        "[global]\nfont = Sans 12\nwidth = 600\nhistory_length = 20\n",
    )
    .unwrap();
    let dunst = Command::new("dunst")
        .arg("-conf")
        .arg(&rc)
        .env("DISPLAY", &display)
        .env("DBUS_SESSION_BUS_ADDRESS", session.address())
        .env("XDG_CONFIG_HOME", directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let dunst = Agent(dunst);
    let in_session = |program: &str, arguments: &[&str]| {
        Command::new(program)
            .args(arguments)
            .env("DISPLAY", &display)
            .env("DBUS_SESSION_BUS_ADDRESS", session.address())
            .output()
            .unwrap()
    };
    eventually("dunst is there", || {
        in_session("dunstctl", &["count"])
            .status
            .success()
            .then_some(())
    });
    let _agent = Agent::start(&system, &session);

    let screen = |name: &str| {
        let path = directory.path().join(name);
        let output = in_session("import", &["-window", "root", path.to_str().unwrap()]);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        path
    };
    let colours = |path: &Path| -> usize {
        let text = stdout("identify", &["-format", "%k", path.to_str().unwrap()]);
        text.trim().parse().unwrap()
    };
    assert_eq!(colours(&screen("before.png")), 1, "an empty screen");

    daemon.sinks.publish(&session_of("files", own_uid()));
    daemon.sinks.publish(&with_session(
        testing::changed("files", "<i>hello</i>"),
        "files",
    ));
    let shown = || {
        let output = in_session("dunstctl", &["count", "displayed"]);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    eventually("dunst shows a card", || (shown() == "1").then_some(()));
    let screenshot = eventually("the card is drawn", || {
        let screenshot = screen("notification.png");
        (colours(&screenshot) > 10).then_some(screenshot)
    });
    if let Some(keep) = std::env::var_os("MCPINSPECT_SCREENSHOT") {
        std::fs::copy(&screenshot, keep).unwrap();
    }
    in_session("dunstctl", &["close-all"]);
    let history = in_session("dunstctl", &["history"]);
    let history: serde_json::Value = serde_json::from_slice(&history.stdout).unwrap();
    let card = &history["data"][0][0];
    assert_eq!(
        card["summary"]["data"],
        "Tool \"read\" of files has changed"
    );
    assert_eq!(card["appname"]["data"], "MCP inspector");
    drop((dunst, x));
}
