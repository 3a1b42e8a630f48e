//! What the service manager is notified of, on a socket that stands in for systemd's.
//!
//! A process learns of the socket and the watchdog from its environment, so this test binary starts
//! itself again, with the environment that systemd would set.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use mcpinspectd::systemd::{self, Heartbeat, Watchdog};

use crate::support::own_name;

/// Set in the process that acts as the service.
const SERVICE: &str = "ACT_AS_SERVICE";

#[test]
fn the_manager_receives_states_and_watchdog_pings() {
    if std::env::var_os(SERVICE).is_some() {
        return service();
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let test = "the_manager_receives_states_and_watchdog_pings";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &own_name(module_path!(), test)])
        .env(SERVICE, "1")
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "200000")
        // Its verdict is in its status; printed, it would count as another suite's.
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let hear = || {
        let mut bytes = [0; 1000];
        let count = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    };
    assert_eq!(hear(), "READY=1\nSTATUS=watching 3 servers\\nREADY=0\n");
    assert_eq!(hear(), "WATCHDOG=1\n");
    assert_eq!(hear(), "WATCHDOG=1\n");
    let reloading = hear();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert_eq!(hear(), "STOPPING=1\nSTATUS=stopping\n");
    assert!(child.wait().unwrap().success());
}

fn service() {
    // A line break in a status must not start another assignment.
    systemd::ready("watching 3 servers\nREADY=0");
    let heartbeat = Heartbeat::default();
    let watchdog = Watchdog::new(heartbeat.clone()).unwrap();
    assert_eq!(watchdog.interval(), Duration::from_millis(100));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let fed = tokio::spawn(watchdog.run());
        // Beat after the watchdog's first check and well before its second.
        tokio::time::sleep(Duration::from_millis(50)).await;
        heartbeat.beat();
        // Long enough for checks that find no beat, which must send nothing.
        tokio::time::sleep(Duration::from_millis(400)).await;
        fed.abort();
    });
    systemd::reloading();
    systemd::stopping();
}

#[test]
fn without_a_manager_nothing_happens() {
    assert!(
        std::env::var_os("WATCHDOG_USEC").is_some()
            || Watchdog::new(Heartbeat::default()).is_none()
    );
    systemd::status("nobody listens");
}
