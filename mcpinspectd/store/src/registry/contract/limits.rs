//! What the registry keeps is bounded.

use super::*;

cases![
    the_number_of_items_and_definitions_is_bounded,
    only_what_was_never_decided_on_is_evicted_after_a_year,
    a_policys_decisions_are_bounded_and_a_persons_stay,
    users_do_not_share_room,
    bytes_of_definitions_are_bounded_and_pins_go_on
];

fn the_number_of_items_and_definitions_is_bounded(mut registry: Registry) {
    let (server, session) = (server("a"), SessionId("s".into()));
    let sighting = |time| Sighting {
        owner: OWNER,
        server: &server,
        session: &session,
        time: Timestamp(time),
    };
    for index in 0..MAX_ITEMS_PER_SERVER {
        let status = registry
            .observe(sighting(1), ItemKind::Tool, &index.to_string(), &raw("{}"))
            .status;
        assert_eq!(status, PinStatus::New);
    }
    assert_eq!(
        registry
            .observe(sighting(1), ItemKind::Tool, "more", &raw("{}"))
            .status,
        PinStatus::NoRoom
    );
    for index in 0..200 {
        registry.observe(
            sighting(2 + index),
            ItemKind::Tool,
            "0",
            &raw(&index.to_string()),
        );
    }
    registry.save(Timestamp(1));
    let versions = settled(&registry)
        .versions(of("a"), &ItemKey::tool("0"))
        .unwrap();
    assert_eq!(versions.len(), 66);
    assert_eq!(&*versions[0].definition, "{}", "the pinned one stays");
    let huge = format!("\"{}\"", "x".repeat(MAX_DEFINITION));
    registry.observe(sighting(300), ItemKind::Tool, "0", &raw(&huge));
    registry.save(Timestamp(1));
    assert!(
        settled(&registry)
            .versions(of("a"), &ItemKey::tool("0"))
            .unwrap()
            .last()
            .unwrap()
            .definition
            .contains("not kept")
    );
}

fn only_what_was_never_decided_on_is_evicted_after_a_year(mut registry: Registry) {
    for (name, time) in [("old", 1), ("decided", 1), ("young", EVICT_AFTER / 2)] {
        see(&mut registry, "a", time, name, OLD);
    }
    registry
        .decide(
            of("a"),
            &ItemKey::tool("decided"),
            DecisionKind::Approve,
            None,
            ALICE,
        )
        .unwrap();
    let later = Timestamp(EVICT_AFTER + 1);
    assert_eq!(registry.evict(later), 1);
    assert_eq!(registry.evict(later), 0, "once a day is enough");
    registry.save(later);
    let left = settled(&registry).list().unwrap();
    let left: Vec<_> = left.iter().map(|item| &*item.key.name).collect();
    assert_eq!(left, ["decided", "young"]);
    assert_eq!(see(&mut registry, "a", later.0, "old", NEW), PinStatus::New);
}

fn a_policys_decisions_are_bounded_and_a_persons_stay(mut registry: Registry) {
    let key = ItemKey::tool("t");
    see(&mut registry, "a", 1, "t", OLD);
    registry
        .decide(of("a"), &key, DecisionKind::Reject, None, ALICE)
        .unwrap();
    for time in 0..200 {
        registry
            .accept(of("a"), &key, hash(OLD), Timestamp(time), "")
            .unwrap();
        // Those that no event has reported are kept.
        settled(&registry);
        registry.take_decisions();
        registry.save(Timestamp(time));
    }
    let decisions = settled(&registry).decisions(of("a"), &key).unwrap();
    assert_eq!(decisions[0].by, ALICE.by);
    assert!(
        (64..=66).contains(&decisions.len()),
        "{} decisions",
        decisions.len()
    );
}

fn users_do_not_share_room(registry: Registry) {
    let mut registry = registry.with_limits(RegistryLimits {
        items_of_one: 3,
        items: 8,
        ..RegistryLimits::default()
    });
    for name in ["a", "b", "c"] {
        assert_eq!(see(&mut registry, "x", 1, name, OLD), PinStatus::New);
    }
    registry
        .decide(
            of("x"),
            &ItemKey::tool("a"),
            DecisionKind::Approve,
            None,
            ALICE,
        )
        .unwrap();
    see(&mut registry, "x", MAKES_ROOM_AFTER, "b", NEW);
    // What is in use stays, and no other owner notices.
    assert_eq!(
        see(&mut registry, "y", MAKES_ROOM_AFTER, "d", OLD),
        PinStatus::NoRoom
    );
    let bob = |registry: &mut Registry, name: &str| {
        see_as(BOB, registry, "x", MAKES_ROOM_AFTER, name, OLD)
    };
    assert_eq!(bob(&mut registry, "a"), PinStatus::New);
    // What was neither decided on nor seen for a month makes room.
    let later = MAKES_ROOM_AFTER + 1;
    assert_eq!(see(&mut registry, "y", later, "d", OLD), PinStatus::New);
    assert_eq!(see(&mut registry, "y", later, "e", OLD), PinStatus::NoRoom);
    assert_eq!(see(&mut registry, "x", later, "c", OLD), PinStatus::NoRoom);
    let pinned = PinStatus::Changed { pinned: hash(OLD) };
    assert_eq!(see(&mut registry, "x", later, "b", NEW), pinned);
    // Once everything is full, the largest owner makes way for smaller ones.
    for name in ["b", "c"] {
        assert_eq!(bob(&mut registry, name), PinStatus::New);
    }
    let carol = Owner::User(1002);
    for name in ["a", "b", "c"] {
        let status = see_as(carol, &mut registry, "x", later, name, OLD);
        assert_eq!(status, PinStatus::New, "{name}");
    }
    let status = see_as(carol, &mut registry, "x", later, "d", OLD);
    assert_eq!(status, PinStatus::NoRoom, "her own share");
    let items = settled(&registry).list().unwrap();
    assert_eq!(items.len(), registry.size().1);
    assert!(
        items
            .iter()
            .any(|item| item.owner == OWNER && &*item.key.name == "a")
    );
}

fn bytes_of_definitions_are_bounded_and_pins_go_on(registry: Registry) {
    let mut registry = registry.with_limits(RegistryLimits {
        bytes_of_one: 100,
        ..RegistryLimits::default()
    });
    let text = |fill: &str| format!(r#"{{"description":"{}"}}"#, fill.repeat(60));
    let observe = |registry: &mut Registry, name: &str, fill: &str| {
        let (server, session) = (server("a"), SessionId("s".into()));
        let sighting = Sighting {
            owner: OWNER,
            server: &server,
            session: &session,
            time: Timestamp(1),
        };
        let seen = registry.observe(sighting, ItemKind::Tool, name, &raw(&text(fill)));
        registry.save(Timestamp(1));
        (seen.status, seen.shortage)
    };
    assert_eq!(observe(&mut registry, "t", "x"), (PinStatus::New, None));
    let short = Some(Shortage::Bytes);
    assert_eq!(observe(&mut registry, "u", "y"), (PinStatus::New, short));
    // It is held to its definition all the same.
    assert_eq!(
        observe(&mut registry, "u", "y"),
        (PinStatus::AsPinned, None)
    );
    let changed = PinStatus::Changed {
        pinned: hash(&text("y")),
    };
    assert_eq!(observe(&mut registry, "u", "z"), (changed, short));
    // A known definition takes no more room.
    let changed = PinStatus::Changed {
        pinned: hash(&text("x")),
    };
    assert_eq!(observe(&mut registry, "t", "z"), (changed, short));
    assert_eq!(
        observe(&mut registry, "t", "x"),
        (PinStatus::AsPinned, None)
    );
    let versions = settled(&registry)
        .versions(of("a"), &ItemKey::tool("u"))
        .unwrap();
    assert!(
        versions
            .iter()
            .all(|one| one.definition.contains("not kept"))
    );
    registry
        .decide(
            of("a"),
            &ItemKey::tool("t"),
            DecisionKind::Forget,
            None,
            ALICE,
        )
        .unwrap();
    settled(&registry);
    registry.refresh();
    assert_eq!(observe(&mut registry, "v", "y"), (PinStatus::New, None));
}
