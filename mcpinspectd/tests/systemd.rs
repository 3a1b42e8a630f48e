//! What the service manager hears, by a socket that stands in for its own.
//!
//! The socket and the watchdog are told to a process by its environment, so the talking is done by
//! this test binary started once more with the environment that a manager would give it.
#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use mcpinspectd::systemd::{self, Heartbeat, Watchdog};

/// Set in the process that plays the service.
const SERVICE: &str = "PLAY_THE_SERVICE";

#[test]
fn the_manager_hears_the_service_and_its_pulse() {
    if std::env::var_os(SERVICE).is_some() {
        return service();
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_manager_hears_the_service_and_its_pulse"])
        .env(SERVICE, "1")
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "200000")
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
    // A line break in a status must not become a state of its own.
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
        // Past the first look, and well before the second.
        tokio::time::sleep(Duration::from_millis(50)).await;
        heartbeat.beat();
        // One look at once, one that finds the beat, and then looks that find nothing.
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
