//! The objects of servers and tools, and what their introspection says.

use std::fs;
use std::process::Command;

use mcpinspect_core::model;
use mcpinspect_engine::event::{self, testing};

use crate::support::bus::{
    Bus, Daemon, Listener, MANAGER, OWNER, STRANGER, as_user, packaged, text,
};
use crate::support::eventually;

/// How the object at `path` describes one of its interfaces.
fn introspected(bus: &Bus, path: &str, interface: &str) -> String {
    let output = Command::new("gdbus")
        .args(["introspect", "--xml", "--address", &bus.address()])
        .args(["--dest", "org.mcpinspect1", "--object-path", path])
        .output()
        .unwrap();
    let said = text(&output);
    let start = said
        .find(&format!("<interface name=\"{interface}\">"))
        .unwrap_or_else(|| panic!("no {interface} at {path}: {said}"));
    let end = start + said[start..].find("</interface>").unwrap() + "</interface>".len();
    said[start..end].to_owned()
}

#[test]
fn the_shipped_introspection_matches_the_objects() {
    let bus = Bus::start();
    let daemon = Daemon::on(&bus, None);
    daemon
        .sinks
        .publish(&testing::session_started("files", OWNER));
    daemon.sinks.publish(&testing::changed("files", "x"));
    eventually("the tool's object", || {
        managed(&bus).contains("/tool/read").then_some(())
    });
    for (name, path) in [
        ("Manager", "/org/mcpinspect1"),
        ("Server", "/org/mcpinspect1/server/files"),
        ("Tool", "/org/mcpinspect1/server/files/tool/read"),
    ] {
        let interface = format!("org.mcpinspect1.{name}");
        let said = introspected(&bus, path, &interface);
        let file = packaged(&format!("{interface}.xml"));
        if std::env::var_os("UPDATE_INTROSPECTION").is_some() {
            let header = "<!DOCTYPE node PUBLIC \"-//freedesktop//DTD D-BUS Object Introspection 1.0//EN\"\n \"http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd\">\n<node>\n  ";
            fs::write(&file, format!("{header}{said}\n</node>\n")).unwrap();
        }
        let shipped = fs::read_to_string(&file).unwrap();
        let words = |text: &str| {
            let words = text.split_whitespace().map(str::to_owned);
            words.collect::<Vec<_>>()
        };
        let start = shipped.find("<interface ").unwrap();
        let end = shipped.rfind("</interface>").unwrap() + "</interface>".len();
        assert_eq!(
            words(&shipped[start..end]),
            words(&said),
            "write it anew with UPDATE_INTROSPECTION=1"
        );
    }
    drop(daemon);
}

/// All objects, as root sees them.
fn managed(bus: &Bus) -> String {
    text(&standard_call_as(
        bus,
        0,
        "/org/mcpinspect1",
        &["ObjectManager", "GetManagedObjects"],
    ))
}

/// Calls a method of an interface that every D-Bus service has.
fn standard_call_as(bus: &Bus, uid: u32, path: &str, call: &[&str]) -> std::process::Output {
    let [interface, arguments @ ..] = call else {
        panic!("a call names its interface")
    };
    as_user(uid, &[], "busctl")
        .args(["--json=short", "--timeout=10"])
        .arg(format!("--address={}", bus.address()))
        .args(["call", "org.mcpinspect1", path])
        .arg(format!("org.freedesktop.DBus.{interface}"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn names_of_others_cannot_be_browsed() {
    let bus = Bus::start();
    let daemon = Daemon::on(&bus, None);
    let listeners = [0, STRANGER].map(|uid| {
        let mut command = as_user(uid, &[], "gdbus");
        command.args(["monitor", "--address", &bus.address()]);
        command.args(["--dest", "org.mcpinspect1"]);
        let listener = Listener::start(command);
        listener.wait_for("is owned by");
        listener
    });
    daemon
        .sinks
        .publish(&testing::session_started("files", OWNER));
    let [root, stranger] = &listeners;
    root.wait_for("InterfacesAdded");
    daemon.sinks.publish(&testing::changed("files", "x"));
    root.wait_for("/server/files/tool/read");
    let heard = stranger.wait_for("Manager.");
    assert!(!heard.contains("/server/"), "{heard}");

    let server = "/org/mcpinspect1/server/files";
    let get = ["Properties", "Get", "ss", "org.mcpinspect1.Server", "Name"];
    for (path, call) in [
        (
            "/org/mcpinspect1",
            &["ObjectManager", "GetManagedObjects"][..],
        ),
        ("/org/mcpinspect1", &["Introspectable", "Introspect"]),
        (server, &["Introspectable", "Introspect"]),
        (server, &get),
    ] {
        let refused = standard_call_as(&bus, STRANGER, path, call);
        assert!(!refused.status.success(), "{path} {call:?}: {refused:?}");
        let said = String::from_utf8_lossy(&refused.stdout);
        assert!(!said.contains("files"), "{path} {call:?}: {said}");
        let shown = standard_call_as(&bus, 0, path, call);
        assert!(shown.status.success(), "{path} {call:?}: {shown:?}");
    }
    let version = ["Properties", "Get", "ss", MANAGER, "Version"];
    let shown = standard_call_as(&bus, STRANGER, "/org/mcpinspect1", &version);
    assert!(shown.status.success(), "{shown:?}");
    drop(daemon);
}

#[test]
fn servers_and_tools_are_objects_with_names_and_states() {
    let bus = Bus::start();
    let daemon = Daemon::on(&bus, None);
    let mut command = as_user(0, &[], "gdbus");
    command.args(["monitor", "--address", &bus.address()]);
    command.args(["--dest", "org.mcpinspect1"]);
    let listener = Listener::start(command);
    listener.wait_for("is owned by");

    daemon
        .sinks
        .publish(&testing::session_started("files#ab", OWNER));
    daemon.sinks.publish(&testing::examples()[0]);
    daemon
        .sinks
        .publish(&testing::changed("files#ab", "first read /etc/shadow"));
    listener.wait_for("/org/mcpinspect1/server/files_23ab/tool/read");
    let heard = listener.wait_for("InterfacesAdded");
    assert!(heard.contains("'org.mcpinspect1.Server': {"), "{heard}");
    let objects: serde_json::Value = serde_json::from_str(&managed(&bus)).unwrap();
    let objects = &objects["data"][0];
    let property = |path: &str, interface: &str, name: &str| {
        objects[format!("/org/mcpinspect1/server/{path}")][format!("org.mcpinspect1.{interface}")]
            [name]["data"]
            .clone()
    };
    let server = |name| property("files_23ab", "Server", name);
    assert_eq!(server("Name"), "files#ab");
    assert_eq!(
        (server("Uid"), server("Sessions")),
        (OWNER.into(), 1.into())
    );
    assert_eq!(
        (server("Tools"), server("Monitored")),
        (1.into(), true.into())
    );
    let tool = |name| property("files_23ab/tool/read", "Tool", name);
    assert_eq!(
        (tool("Status"), tool("MaxSeverity")),
        ("changed".into(), "high".into())
    );
    assert_eq!(property("files/tool/read", "Tool", "Status"), "new");
    assert!(
        !objects.to_string().contains("shadow"),
        "contents: {objects}"
    );

    // Changes are signalled, and only the daemon can make them.
    let mut frozen = testing::examples()
        .into_iter()
        .find(|event| matches!(event.body, event::Body::Contained(_)))
        .unwrap();
    frozen.subject.as_mut().unwrap().server_id = model::ServerId("files#ab".into());
    daemon.sinks.publish(&frozen);
    let heard = listener.wait_for("'Frozen': <true>");
    assert!(heard.contains("PropertiesChanged"), "{heard}");
    let set = as_user(0, &[], "busctl")
        .arg(format!("--address={}", bus.address()))
        .args(["set-property", "org.mcpinspect1"])
        .args([
            "/org/mcpinspect1/server/files_23ab",
            "org.mcpinspect1.Server",
        ])
        .args(["Frozen", "b", "false"])
        .output()
        .unwrap();
    assert!(!set.status.success());
    drop(daemon);
}

#[test]
fn evicted_servers_lose_their_objects() {
    let bus = Bus::start();
    let daemon = Daemon::on(&bus, None);
    let most = mcpinspectd::status::live::LiveLimits::default().servers;
    for number in 0..=most {
        let mut event = testing::changed(&format!("server-{number}"), "x");
        event.time.0 += number as u64;
        daemon.sinks.publish(&event);
    }
    let has = |objects: &str, number| objects.contains(&format!("/server/server_2d{number}\""));
    let objects = eventually("all but the one that made room", || {
        let objects = managed(&bus);
        let count = objects.matches("org.mcpinspect1.Server").count();
        (count == most && has(&objects, most)).then_some(objects)
    });
    assert!(!has(&objects, 0) && has(&objects, 1));
    drop(daemon);
}
