//! A server that gets another name keeps its pins.

use super::*;

cases![
    a_server_under_another_name_keeps_its_pins,
    pins_are_taken_over_once_and_from_their_owner_alone
];

fn a_server_under_another_name_keeps_its_pins(mut registry: Registry) {
    let key = ItemKey::tool("t");
    name(&mut registry, "mcp", None);
    see(&mut registry, "mcp", 1, "t", OLD);
    see(&mut registry, "mcp", 1, "u", OLD);
    see(&mut registry, "mcp", 2, "t", NEW);
    registry
        .decide(of("mcp"), &key, DecisionKind::Approve, None, ALICE)
        .unwrap();
    let forgotten = ItemKey::tool("forgotten");
    see(&mut registry, "mcp", 3, "forgotten", OLD);
    registry
        .decide(of("mcp"), &forgotten, DecisionKind::Forget, None, ALICE)
        .unwrap();
    registry.refresh();
    settled(&registry);
    name(&mut registry, "files", Some("mcp"));
    assert_eq!(registry.size(), (2, 4));
    assert_eq!(settled(&registry).list_server("files").unwrap().len(), 2);

    assert_eq!(
        see(&mut registry, "files", 6, "u", OLD),
        PinStatus::AsPinned
    );
    assert_eq!(
        see(&mut registry, "files", 6, "t", NEW),
        PinStatus::AsPinned
    );
    let changed = PinStatus::Changed { pinned: hash(NEW) };
    assert_eq!(see(&mut registry, "files", 7, "t", OLD), changed);
    assert_eq!(see(&mut registry, "files", 7, "v", OLD), PinStatus::New);
    // What was accepted can be shown and decided on under the new name.
    let comparison = registry.compare(of("files"), &key, None, None).unwrap();
    assert_eq!(
        (comparison.previous, comparison.new),
        (hash(NEW), hash(OLD))
    );
    registry
        .decide(of("files"), &key, DecisionKind::Unpin, None, ALICE)
        .unwrap();

    let items = settled(&registry).list_server("files").unwrap();
    let pinned = |item: &ItemView| (item.key.name.to_string(), item.pinned, item.pinned_by);
    assert_eq!(
        items.iter().map(pinned).collect::<Vec<_>>(),
        [
            ("t".to_owned(), None, None),
            ("u".to_owned(), Some(hash(OLD)), None),
            ("v".to_owned(), Some(hash(OLD)), None),
        ]
    );
    // Another server of that name is held to its pins as before.
    assert_eq!(see(&mut registry, "mcp", 8, "t", NEW), PinStatus::AsPinned);
    let items = settled(&registry).list_server("mcp").unwrap();
    let pinned = |item: &ItemView| (item.key.name.to_string(), item.pinned, item.pinned_by);
    assert_eq!(
        items.iter().map(pinned).collect::<Vec<_>>(),
        [
            ("t".to_owned(), Some(hash(NEW)), Some(ALICE.by)),
            ("u".to_owned(), Some(hash(OLD)), None),
        ]
    );
}

fn pins_are_taken_over_once_and_from_their_owner_alone(mut registry: Registry) {
    name(&mut registry, "mcp", None);
    see(&mut registry, "mcp", 1, "t", OLD);
    // No server is called that.
    name(&mut registry, "a", Some("nobody"));
    assert_eq!(registry.keys(of("a")).count(), 0);
    // The name belongs to a different fingerprint than the former one.
    let stranger = ServerIdentity {
        server_id: server("b"),
        fingerprint: "b".to_owned(),
        name_source: "test".to_owned(),
        publisher: None,
        former: Some(FormerIdentity {
            server_id: server("mcp"),
            fingerprint: "another".to_owned(),
        }),
    };
    registry.assign_name(OWNER, &stranger, Timestamp(2));
    assert_eq!(registry.keys(of("b")).count(), 0);
    // A server's own pins stay, and what comes later under its old name is not its own.
    see(&mut registry, "c", 2, "t", NEW);
    name(&mut registry, "c", Some("mcp"));
    assert_eq!(see(&mut registry, "c", 3, "t", NEW), PinStatus::AsPinned);
    see(&mut registry, "mcp", 4, "u", OLD);
    name(&mut registry, "c", Some("mcp"));
    assert_eq!(see(&mut registry, "c", 5, "u", OLD), PinStatus::New);
    let names = registry.server_names();
    assert_eq!(names.owners_of("mcp").collect::<Vec<_>>(), [OWNER]);
}
