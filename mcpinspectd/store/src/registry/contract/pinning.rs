//! A definition is pinned on first use, and what is missing from a listing is removed.

use super::*;

cases![
    first_use_pins_and_the_pin_stays,
    pin_and_unpin,
    what_a_complete_listing_lacks_is_removed_once,
    checking_records_nothing,
    lists_are_ordered_and_can_be_of_one_server
];

fn first_use_pins_and_the_pin_stays(mut registry: Registry) {
    assert_eq!(see(&mut registry, "a", 1, "t", OLD), PinStatus::New);
    assert_eq!(
        see(
            &mut registry,
            "a",
            2,
            "t",
            r#"{ "description":"old", "name":"\u0074" }"#
        ),
        PinStatus::AsPinned
    );
    let changed = PinStatus::Changed { pinned: hash(OLD) };
    assert_eq!(see(&mut registry, "a", 3, "t", NEW), changed);
    assert_eq!(see(&mut registry, "a", 4, "t", NEW), changed);
    assert_eq!(see(&mut registry, "a", 5, "t", OLD), PinStatus::AsPinned);
    // Another server's tool of that name is another tool.
    assert_eq!(see(&mut registry, "b", 6, "t", NEW), PinStatus::New);
}

fn pin_and_unpin(mut registry: Registry) {
    let key = ItemKey::tool("t");
    see(&mut registry, "a", 1, "t", OLD);
    see(&mut registry, "a", 2, "t", NEW);
    registry
        .decide(of("a"), &key, DecisionKind::Unpin, None, ALICE)
        .unwrap();
    assert_eq!(settled(&registry).list().unwrap()[0].pinned, None);
    assert_eq!(see(&mut registry, "a", 3, "t", NEW), PinStatus::AsPinned);
    assert_eq!(
        settled(&registry).list().unwrap()[0].pinned,
        Some(hash(NEW))
    );
    registry
        .decide(of("a"), &key, DecisionKind::Pin, Some(hash(OLD)), ALICE)
        .unwrap();
    assert_eq!(
        see(&mut registry, "a", 4, "t", NEW),
        PinStatus::Changed { pinned: hash(OLD) }
    );
}

fn what_a_complete_listing_lacks_is_removed_once(mut registry: Registry) {
    see(&mut registry, "a", 1, "t", OLD);
    see(&mut registry, "a", 1, "u", OLD);
    see(&mut registry, "b", 1, "v", OLD);
    assert_eq!(list(&mut registry, "a", &["t", "u"]), [""; 0]);
    assert_eq!(list(&mut registry, "a", &["u"]), ["t"]);
    assert_eq!(list(&mut registry, "a", &["u"]), [""; 0]);
    assert!(settled(&registry).list().unwrap()[0].removed_at.is_some());
    // Back again, and held to its old pin.
    assert_eq!(
        see(&mut registry, "a", 9, "t", NEW),
        PinStatus::Changed { pinned: hash(OLD) }
    );
    assert_eq!(settled(&registry).list().unwrap()[0].removed_at, None);
    assert_eq!(list(&mut registry, "a", &[]), ["t", "u"]);
}

fn checking_records_nothing(mut registry: Registry) {
    let check = |registry: &Registry, definition| registry.check(of("a"), "t", definition);
    assert_eq!(check(&registry, Some(hash(OLD))), None);
    assert_eq!(check(&registry, None), None);
    assert_eq!(registry.size(), (0, 0));
    see(&mut registry, "a", 1, "t", OLD);
    assert_eq!(check(&registry, Some(hash(OLD))), Some(Standing::FirstUse));
    assert_eq!(check(&registry, Some(hash(NEW))), Some(Standing::Changed));
    assert_eq!(check(&registry, None), Some(Standing::FirstUse));
    assert_eq!(
        settled(&registry)
            .versions(of("a"), &ItemKey::tool("t"))
            .unwrap()
            .len(),
        1
    );
}

fn lists_are_ordered_and_can_be_of_one_server(mut registry: Registry) {
    for (server, name) in [("b", "t"), ("a", "u"), ("a", "t")] {
        see(&mut registry, server, 1, name, OLD);
    }
    let names = |items: Vec<ItemView>| -> Vec<String> {
        let name = |item: ItemView| format!("{} {}", item.server, item.key.name);
        items.into_iter().map(name).collect()
    };
    assert_eq!(
        names(settled(&registry).list().unwrap()),
        ["a t", "a u", "b t"]
    );
    assert_eq!(
        names(settled(&registry).list_server("a").unwrap()),
        ["a t", "a u"]
    );
    assert_eq!(names(settled(&registry).list_server("x").unwrap()), [""; 0]);
}
