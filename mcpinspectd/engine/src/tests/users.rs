//! Two users whose servers have the same name: neither learns anything about the other's.

use mcpinspect_judge::registry::{Owner, Sharing};
use serde_json::{Value, json};

use super::fixture::{Wire, session, tool};
use crate::event::testing::party;

const ALICE: u32 = 1000;
const BOB: u32 = 1001;

/// A session with the server `files`, run by `uid`, that lists these tools; and what is reported about it.
fn listed(wire: &mut Wire, name: &str, uid: u32, tools: &[Value]) -> Vec<Value> {
    wire.script = session(name, wire.script.time()).processes(Some(party(7, uid)), None);
    wire.input(wire.script.start());
    wire.log.events.clear();
    wire.list(tools);
    std::mem::take(&mut wire.log.events)
}

/// `type status` of each.
fn told(events: &[Value]) -> Vec<String> {
    let word = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let told = events
        .iter()
        .map(|event| format!("{} {}", word(event, "type"), word(event, "status")));
    told.collect()
}

#[test]
fn what_one_user_pinned_is_nothing_to_another() {
    let mut wire = Wire::new();
    let hers = [tool("read", "Reads a file of the payroll.")];
    let his = [tool("read", "x")];
    let seen = |status: &str| vec![format!("mcp_tool_seen {status}")];
    assert_eq!(told(&listed(&mut wire, "a", ALICE, &hers)), seen("new"));
    // Her tool is neither changed nor gone for him, and he sees none of it.
    let events = listed(&mut wire, "b", BOB, &his);
    assert_eq!(told(&events), seen("new"));
    assert!(!json!(events).to_string().contains("payroll"));
    let other = [tool("write", "x")];
    let removed = listed(&mut wire, "c", BOB, &other);
    assert_eq!(
        told(&removed),
        ["mcp_tool_seen new", "mcp_tool_changed removed"]
    );
    assert_eq!(
        told(&listed(&mut wire, "d", ALICE, &hers)),
        seen("unchanged")
    );
    // She is not held to what he pinned first.
    assert_eq!(
        told(&listed(&mut wire, "e", ALICE, &his)),
        ["mcp_tool_changed changed"]
    );
    let owners = |wire: &Wire| -> Vec<Owner> {
        let items = wire.engine.registry().list().unwrap();
        items.iter().map(|item| item.owner).collect()
    };
    let [alice, bob] = [Owner::User(ALICE), Owner::User(BOB)];
    assert_eq!(owners(&wire), [alice, bob, bob]);
}

#[test]
fn users_share_pins_where_the_administrator_says_so() {
    let mut wire = Wire::new();
    let sharing = Sharing {
        everyone: true,
        ..Sharing::default()
    };
    let registry = std::mem::replace(
        wire.engine.registry_mut(),
        mcpinspect_judge::registry::Registry::in_memory(),
    );
    *wire.engine.registry_mut() = registry.with_sharing(sharing);
    let tools = [tool("read", "x")];
    assert_eq!(
        told(&listed(&mut wire, "a", ALICE, &tools)),
        ["mcp_tool_seen new"]
    );
    assert_eq!(
        told(&listed(&mut wire, "b", BOB, &tools)),
        ["mcp_tool_seen unchanged"]
    );
    assert_eq!(
        told(&listed(&mut wire, "c", BOB, &[tool("read", "y")])),
        ["mcp_tool_changed changed"]
    );
}
