//! A configuration that starts another server under a name that has pins.

use mcpinspect_core::model::{ServerId, ServerIdentity};
use serde_json::{Value, json};

use super::fixture::{Wire, session, tool};
use crate::event::testing::party;

const ALICE: u32 = 1000;
const BOB: u32 = 1001;

/// A session of `uid` with this server, and the changes of identity reported for it.
fn changes(wire: &mut Wire, uid: u32, id: &str, fingerprint: &str, source: &str) -> Vec<Value> {
    let identity = ServerIdentity {
        server_id: ServerId(id.into()),
        fingerprint: fingerprint.to_owned(),
        name_source: source.to_owned(),
        publisher: None,
        former: None,
    };
    wire.script = session(&format!("{uid} {id}"), wire.script.time())
        .identity(identity)
        .processes(Some(party(7, uid)), None);
    wire.log.events.clear();
    wire.input(wire.script.start());
    let mut events = wire.log.take("mcp_server_changed");
    events.retain(|event| event["item"] == "identity");
    events
}

#[test]
fn a_server_that_comes_back_as_somebody_else_is_reported() {
    let mut wire = Wire::new();
    let known = ("github", "aaaa1111");
    let other = ("github#bbbb", "bbbb2222");
    let configured = "config:claude-desktop";
    assert!(changes(&mut wire, ALICE, known.0, known.1, configured).is_empty());
    // It has a name and nothing that could be lost.
    assert!(changes(&mut wire, ALICE, other.0, other.1, configured).is_empty());
    assert!(changes(&mut wire, ALICE, known.0, known.1, configured).is_empty());
    wire.list(&[tool("read", "Reads.")]);

    for _ in 0..2 {
        let told = changes(&mut wire, ALICE, other.0, other.1, configured);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["server_id"], other.0);
        assert_eq!(
            told[0]["changes"],
            json!([
                {"field": "server_id", "previous": known.0, "new": other.0},
                {"field": "fingerprint", "previous": known.1, "new": other.1},
            ])
        );
    }
    // Not configured, or another user's.
    assert!(changes(&mut wire, ALICE, "github#cccc", "cccc", "package:npm").is_empty());
    assert!(changes(&mut wire, BOB, other.0, other.1, configured).is_empty());
    // The server itself has not changed.
    assert!(changes(&mut wire, ALICE, known.0, known.1, configured).is_empty());

    // With pins of its own it is known.
    changes(&mut wire, ALICE, other.0, other.1, configured);
    wire.list(&[tool("read", "Reads.")]);
    assert!(changes(&mut wire, ALICE, other.0, other.1, configured).is_empty());
}
