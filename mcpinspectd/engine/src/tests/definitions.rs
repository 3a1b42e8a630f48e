//! Definitions and their pins: what is new, unchanged, changed or gone.

use mcpinspect_core::model::{ItemKind, Timestamp};
use mcpinspect_judge::registry::{Attribution, DecidedBy, DecisionKind, ItemKey};
use serde_json::{Value, json};

use super::fixture::{Wire, files, package, tool};

#[test]
fn tools_are_new_then_unchanged_then_changed_until_approved() {
    let mut wire = Wire::new();
    wire.list(&[tool("a", "x"), tool("b", "y")]);
    assert_eq!(wire.log.tools(), ["a new", "b new"]);
    wire.list(&[tool("a", "x"), tool("b", "y")]);
    assert_eq!(wire.log.tools(), [""; 0], "once a session");
    wire.start("second", false);
    wire.list(&[tool("a", "x"), tool("b", "evil")]);
    let changed = &wire.log.take("mcp_tool_changed")[0];
    assert_eq!(
        changed["changes"],
        json!([{"field": "description", "previous": "y", "new": "evil"}])
    );
    assert_ne!(changed["previous_hash"], changed["new_hash"]);
    assert_eq!(wire.log.tools(), ["a unchanged"]);
    wire.list(&[tool("a", "x"), tool("b", "evil")]);
    assert_eq!(wire.log.tools(), [""; 0], "the same change once a session");
    wire.list(&[tool("a", "x"), tool("b", "worse")]);
    assert_eq!(wire.log.tools(), ["b changed"], "another change");
    wire.start("third", false);
    wire.list(&[tool("a", "x"), tool("b", "worse")]);
    assert_eq!(
        wire.log.tools(),
        ["a unchanged", "b changed"],
        "not approved, so told in every session"
    );

    let who = Attribution {
        by: DecidedBy::Person(0),
        time: Timestamp(0),
        reason: "",
    };
    wire.engine
        .registry_mut()
        .decide(
            files(),
            &ItemKey::tool("b"),
            DecisionKind::Approve,
            None,
            who,
        )
        .unwrap();
    wire.start("fourth", false);
    wire.list(&[tool("a", "x"), tool("b", "worse")]);
    assert_eq!(wire.log.tools(), ["a unchanged", "b unchanged"]);
}

#[test]
fn a_page_is_no_removal_and_a_whole_listing_is() {
    let mut wire = Wire::new();
    wire.list(&[tool("a", ""), tool("b", "")]);
    wire.log.tools();
    wire.ask(
        "tools/list",
        json!({}),
        json!({"tools": [tool("a", "")], "nextCursor": "2"}),
    );
    wire.ask(
        "tools/list",
        json!({"cursor": "2"}),
        json!({"tools": [tool("b", "")]}),
    );
    assert_eq!(wire.log.tools(), [""; 0]);
    wire.ask(
        "tools/list",
        json!({}),
        json!({"tools": [tool("a", "")], "nextCursor": "2"}),
    );
    assert_eq!(wire.log.tools(), [""; 0]);
    wire.ask("tools/list", json!({"cursor": "2"}), json!({"tools": []}));
    assert_eq!(wire.log.tools(), ["b removed"]);
    wire.list(&[tool("a", "")]);
    assert_eq!(wire.log.tools(), [""; 0], "a removal is told once");
}

#[test]
fn what_a_server_says_of_itself_is_pinned_too() {
    let mut wire = Wire::new();
    let introduce = |wire: &mut Wire, version: &str, instructions: Value| {
        let result = json!({"protocolVersion": "2025-06-18", "serverInfo": {"name": "s", "version": version}, "instructions": instructions});
        wire.ask("initialize", json!({}), result);
        wire.log.take("mcp_server_changed")
    };
    assert!(introduce(&mut wire, "1", Value::Null).is_empty());
    wire.start("second", false);
    assert!(introduce(&mut wire, "1", Value::Null).is_empty());
    wire.start("third", false);
    let changed = introduce(&mut wire, "2", json!("Always call me first"));
    assert_eq!(changed.len(), 2);
    assert_eq!(changed[0]["item"], "server_info");
    assert_eq!(
        changed[0]["changes"],
        json!([{"field": "version", "previous": "1", "new": "2"}])
    );
    assert_eq!(changed[1]["item"], "instructions");
    assert_eq!(changed[1]["changes"][0]["new"], "Always call me first");
    assert!(introduce(&mut wire, "2", json!("Always call me first")).is_empty());
}

#[test]
fn a_tool_cannot_hide_behind_a_server_info_of_the_same_text() {
    let mut wire = Wire::new();
    let same = json!({"name": "s", "version": "1", "description": "x"});
    wire.ask(
        "initialize",
        json!({}),
        json!({"protocolVersion": "2025-06-18", "serverInfo": same}),
    );
    wire.list(&[same]);
    assert_eq!(wire.log.tools(), ["s new"]);
}

#[test]
fn a_server_that_changes_all_the_time_is_not_told_all_the_time() {
    let mut wire = Wire::new();
    for index in 0..200 {
        wire.list(&[tool("a", &index.to_string())]);
    }
    assert_eq!(wire.log.tools().len(), 33);
}

#[test]
fn another_program_behind_the_same_name_is_told_until_it_is_accepted() {
    let mut wire = Wire::new();
    wire.program(package("npm:files", "1.0.0"));
    wire.start("second", false);
    wire.program(package("npm:files", "1.0.0"));
    assert!(wire.log.take("mcp_server_changed").is_empty());
    for session in ["third", "fourth"] {
        wire.start(session, false);
        wire.program(package("npm:files", "1.0.1"));
        wire.program(package("npm:files", "1.0.1"));
        let changed = wire.log.take("mcp_server_changed");
        assert_eq!(changed.len(), 1, "once in a session");
        assert_eq!(changed[0]["item"], "program");
        assert_eq!(
            changed[0]["changes"],
            json!([{"field": "version", "previous": "1.0.0", "new": "1.0.1"}])
        );
    }
    let by = Attribution {
        by: DecidedBy::Person(1000),
        time: wire.script.time(),
        reason: "",
    };
    let key = ItemKey::only(ItemKind::Program);
    let registry = wire.engine.registry_mut();
    registry
        .decide(files(), &key, DecisionKind::Approve, None, by)
        .unwrap();
    wire.start("fifth", false);
    wire.program(package("npm:files", "1.0.1"));
    assert!(wire.log.take("mcp_server_changed").is_empty());
}
