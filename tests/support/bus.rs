//! A private bus with the system bus's rules and our policy, and the bus sink of a daemon on it.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpinspect_core::model::SinkTally;
use mcpinspect_tests::places;
use mcpinspectd::control::Control;
use mcpinspectd::pipeline::outputs::{Running, Settings};
use mcpinspectd::service::Endpoint;
use mcpinspectd::sink::Sinks;
use tempfile::TempDir;
use zbus::{MatchRule, MessageStream};

use super::{eventually, require, require_root};

/// Two users that every machine has, because the bus refuses those that it cannot look up: the owner
/// of the watched server (`daemon` or `bin`), and somebody else (`nobody`).
pub const OWNER: u32 = 1;
pub const STRANGER: u32 = 65_534;

pub const MANAGER: &str = "org.mcpinspect1.Manager";

/// The rules of the system bus, and ours.
const SYSTEM: &str = include_str!("../system-bus.conf");

/// The rules of a session bus: everything is allowed.
const SESSION: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=SOCKET</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>"#;

/// The path of a packaged file.
pub fn packaged(name: &str) -> String {
    let path = places::repository().join("packaging").join(name);
    path.display().to_string()
}

/// A private bus with the rules of the system's.
pub struct Bus {
    pub directory: TempDir,
    daemon: Option<Child>,
}

impl Bus {
    /// Starts it. Only root may own the daemon's name on it and become other users.
    pub fn start() -> Self {
        require_root();
        require(&["dbus-daemon", "busctl", "gdbus", "dbus-send", "setpriv"]);
        Self::with(SYSTEM.replace("POLICY", &packaged("org.mcpinspect1.conf")))
    }

    /// A bus as a user's session has it.
    pub fn session() -> Self {
        Self::with(SESSION.to_owned())
    }

    fn with(config: String) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut bus = Self {
            directory,
            daemon: None,
        };
        let config = config.replace("SOCKET", &bus.socket().display().to_string());
        fs::write(bus.directory.path().join("bus.conf"), config).unwrap();
        bus.run();
        bus
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub fn address(&self) -> String {
        format!("unix:path={}", self.socket().display())
    }

    pub fn run(&mut self) {
        let config = self.directory.path().join("bus.conf");
        let daemon = Command::new("dbus-daemon")
            .arg(format!("--config-file={}", config.display()))
            .args(["--nofork", "--nopidfile", "--nosyslog"])
            .spawn()
            .unwrap();
        self.daemon = Some(daemon);
        let socket = self.socket();
        eventually("the bus listens", || {
            std::os::unix::net::UnixStream::connect(&socket).ok()
        });
    }

    pub fn stop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = fs::remove_file(self.socket());
    }

    /// Why the daemon's object refuses this call of this user: gdbus shows the reason, busctl does not.
    pub fn refused_as(&self, uid: u32, method: &str, arguments: &[&str]) -> String {
        let output = as_user(uid, &[], "gdbus")
            .args([
                "call",
                "--address",
                &self.address(),
                "--dest",
                "org.mcpinspect1",
            ])
            .args(["--object-path", "/org/mcpinspect1", "--method"])
            .arg(format!("{MANAGER}.{method}"))
            .args(arguments)
            .output()
            .unwrap();
        refusal(&output)
    }

    /// Calls a method of the daemon's object with busctl, as this user.
    pub fn call_as(&self, uid: u32, arguments: &[&str]) -> Output {
        as_user(uid, &[], "busctl")
            .args(["--json=short", "--timeout=10"])
            .arg(format!("--address={}", self.address()))
            .args(["call", "org.mcpinspect1", "/org/mcpinspect1", MANAGER])
            .args(arguments)
            .output()
            .unwrap()
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.stop();
    }
}

/// `program`, to be started as this user.
pub fn as_user(uid: u32, groups: &[u32], program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={uid}"), format!("--regid={uid}")]);
    if groups.is_empty() {
        command.arg("--clear-groups");
    } else {
        let groups: Vec<_> = groups.iter().map(u32::to_string).collect();
        command.arg(format!("--groups={}", groups.join(",")));
    }
    command.arg(program);
    command
}

pub fn text(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn refusal(output: &Output) -> String {
    assert!(
        !output.status.success(),
        "allowed: {}",
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The bus sink of a daemon, and the runtime that it lives on.
pub struct Daemon {
    pub runtime: tokio::runtime::Runtime,
    running: Option<Running>,
    pub sinks: Sinks,
}

impl Daemon {
    pub fn start(address: String, control: Option<Arc<dyn Control>>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let settings = Settings {
            bus: Some(Endpoint::At(address)),
            ..Settings::default()
        };
        let running = {
            let _inside = runtime.enter();
            Running::start(settings, control).unwrap()
        };
        let sinks = running.sinks();
        Self {
            runtime,
            running: Some(running),
            sinks,
        }
    }

    pub fn on(bus: &Bus, control: Option<Arc<dyn Control>>) -> Self {
        let daemon = Self::start(bus.address(), control);
        daemon.wait_for_name(bus);
        daemon
    }

    pub fn wait_for_name(&self, bus: &Bus) {
        eventually("the daemon has its name", || {
            let output = Command::new("busctl")
                .arg(format!("--address={}", bus.address()))
                .args(["status", "org.mcpinspect1"])
                .output()
                .unwrap();
            output.status.success().then_some(())
        });
    }

    pub fn latest_id(&self) -> String {
        let view = self.sinks.view();
        let records = view.history().after("", 1, |_| true);
        records[0].id.to_string()
    }

    /// The Detection signals that a client hears, from this sender alone where one is given.
    pub fn signals(&self, bus: &Bus, sender: Option<&str>) -> MessageStream {
        let mut rule = MatchRule::builder()
            .msg_type(zbus::message::Type::Signal)
            .interface(MANAGER)
            .member("Detection");
        if let Some(sender) = sender {
            rule = rule.sender(sender);
        }
        let rule = rule.build().unwrap();
        let address = bus.address();
        self.runtime.block_on(async {
            let client = zbus::connection::Builder::address(address.as_str())
                .build()
                .await
                .unwrap();
            MessageStream::for_match_rule(rule, &client, None)
                .await
                .unwrap()
        })
    }

    pub fn finish(mut self) -> SinkTally {
        let running = self.running.take().unwrap();
        self.runtime
            .block_on(running.finish(Duration::from_secs(5)))
            .remove(0)
    }
}

/// Collects what a program prints.
pub struct Listener {
    child: Child,
    pub heard: Arc<Mutex<String>>,
}

impl Listener {
    pub fn start(mut command: Command) -> Self {
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .stdin(Stdio::null());
        Self::of(command.spawn().unwrap())
    }

    /// Listens to a running program, and kills it when dropped.
    pub fn of(mut child: Child) -> Self {
        let heard = Arc::new(Mutex::new(String::new()));
        if let Some(mut output) = child.stdout.take() {
            let into = Arc::clone(&heard);
            std::thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(count @ 1..) = output.read(&mut piece) {
                    into.lock()
                        .unwrap()
                        .push_str(&String::from_utf8_lossy(&piece[..count]));
                }
            });
        }
        Self { child, heard }
    }

    pub fn wait_for(&self, words: &str) -> String {
        eventually(words, || {
            let heard = self.heard.lock().unwrap();
            heard.contains(words).then(|| heard.clone())
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
