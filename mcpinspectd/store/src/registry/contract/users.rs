//! Each user has pins of their own, unless users share them.

use super::*;

cases![
    users_have_pins_of_their_own,
    a_pin_from_before_goes_to_whoever_shows_it,
    a_change_from_before_stays_one_and_tells_nothing,
    those_who_share_have_one_set_of_pins
];

fn users_have_pins_of_their_own(mut registry: Registry) {
    let key = ItemKey::tool("t");
    assert_eq!(
        see_as(BOB, &mut registry, "a", 1, "t", NEW),
        PinStatus::New,
        "he comes first"
    );
    assert_eq!(see(&mut registry, "a", 1, "t", OLD), PinStatus::New);
    assert_eq!(
        see_as(BOB, &mut registry, "a", 2, "t", OLD),
        PinStatus::Changed { pinned: hash(NEW) }
    );
    registry
        .decide(of("a"), &key, DecisionKind::Unpin, None, ALICE)
        .unwrap();
    assert_eq!(see(&mut registry, "a", 3, "t", NEW), PinStatus::AsPinned);
    assert_eq!(
        see_as(BOB, &mut registry, "a", 3, "t", NEW),
        PinStatus::AsPinned
    );
    // Her texts are not his.
    let huge = r#"{"name":"t","description":"hers alone"}"#;
    see(&mut registry, "a", 4, "t", huge);
    settled(&registry);
    assert!(registry.text(of("a"), &key, hash(huge)).is_some());
    let his = ServerOf::new(BOB, "a");
    assert!(registry.text(his, &key, hash(huge)).is_none());
    assert!(registry.decisions(his, &key).unwrap().is_empty());
    let owners = |items: Vec<ItemView>| items.into_iter().map(|item| item.owner).collect();
    let owners: Vec<Owner> = owners(settled(&registry).list().unwrap());
    assert_eq!(owners, [OWNER, BOB]);
    let usage = registry.usage().unwrap();
    let usage: Vec<_> = usage.iter().map(|one| (one.owner, one.items)).collect();
    assert_eq!(usage, [(OWNER, 1), (BOB, 1)]);
    assert_eq!(registry.size(), (2, 2));

    assert_eq!(list(&mut registry, "a", &[]), ["t"], "hers");
    assert_eq!(
        see_as(BOB, &mut registry, "a", 9, "t", NEW),
        PinStatus::AsPinned
    );
    assert_eq!(registry.forget_server(his, ALICE).unwrap(), 1);
    settled(&registry);
    registry.refresh();
    assert_eq!(
        see_as(BOB, &mut registry, "a", 10, "t", OLD),
        PinStatus::New
    );
    assert_eq!(see(&mut registry, "a", 10, "t", NEW), PinStatus::AsPinned);
    let decided = registry.take_decisions();
    let owners: Vec<Owner> = decided.iter().map(|one| one.owner).collect();
    assert_eq!(owners, [OWNER, BOB]);
}

fn a_pin_from_before_goes_to_whoever_shows_it(mut registry: Registry) {
    let key = ItemKey::tool("t");
    for name in ["t", "forgotten"] {
        see_as(Owner::Earlier, &mut registry, "a", 1, name, OLD);
    }
    assert_eq!(settled(&registry).list().unwrap()[0].owner, Owner::Earlier);
    // Another definition is another item: no one learns what was pinned.
    assert_eq!(see_as(BOB, &mut registry, "a", 2, "t", NEW), PinStatus::New);
    let check = registry.check(of("a"), "t", Some(hash(OLD)));
    assert_eq!(check, Some(Standing::FirstUse));
    assert_eq!(see(&mut registry, "a", 2, "t", OLD), PinStatus::AsPinned);
    let third = Owner::User(1002);
    assert_eq!(
        see_as(third, &mut registry, "a", 2, "t", OLD),
        PinStatus::AsPinned
    );
    assert_eq!(
        see(&mut registry, "a", 3, "t", NEW),
        PinStatus::Changed { pinned: hash(OLD) }
    );
    assert!(registry.text(of("a"), &key, hash(OLD)).is_some());
    let items = settled(&registry).list_server("a").unwrap();
    let tools = items.iter().filter(|item| item.key == key);
    let owners: Vec<Owner> = tools.clone().map(|item| item.owner).collect();
    assert_eq!(
        owners,
        [OWNER, BOB, third],
        "the one from before is not shown"
    );
    assert_eq!(tools.clone().next().unwrap().first_seen, Timestamp(1));

    // What was forgotten is not taken over again.
    let forgotten = ItemKey::tool("forgotten");
    see(&mut registry, "a", 3, "forgotten", OLD);
    registry
        .decide(of("a"), &forgotten, DecisionKind::Forget, None, ALICE)
        .unwrap();
    registry.refresh();
    assert_eq!(see(&mut registry, "a", 4, "forgotten", OLD), PinStatus::New);
    // What no one has taken over goes after a year.
    see_as(Owner::Earlier, &mut registry, "b", 5, "t", OLD);
    let before = registry.size().1;
    registry.evict(Timestamp(EVICT_AFTER + 6));
    registry.save(Timestamp(EVICT_AFTER + 6));
    assert!(registry.size().1 < before);
    let left = settled(&registry).list().unwrap();
    assert!(left.iter().all(|item| item.owner != Owner::Earlier));
}

fn a_change_from_before_stays_one_and_tells_nothing(mut registry: Registry) {
    let key = ItemKey::tool("t");
    let before = ServerOf::new(Owner::Earlier, "a");
    see_as(Owner::Earlier, &mut registry, "a", 1, "t", OLD);
    see_as(Owner::Earlier, &mut registry, "a", 2, "t", NEW);
    registry
        .decide(before, &key, DecisionKind::Reject, None, ALICE)
        .unwrap();
    let changed = PinStatus::Changed { pinned: hash(OLD) };
    assert_eq!(see(&mut registry, "a", 3, "t", NEW), changed);
    settled(&registry);
    assert!(registry.text(of("a"), &key, hash(OLD)).is_none());
    assert!(registry.text(of("a"), &key, hash(NEW)).is_some());
    // Those who may read everything can compare the two.
    let comparison = registry.compare(of("a"), &key, None, None).unwrap();
    assert_eq!(comparison.changes.len(), 1);
    let [decision] = &registry.decisions(of("a"), &key).unwrap()[..] else {
        panic!("the decision")
    };
    assert_eq!(decision.kind, DecisionKind::Reject);
    registry.take_decisions();
    registry
        .decide(of("a"), &key, DecisionKind::Approve, None, ALICE)
        .unwrap();
    assert_eq!(see(&mut registry, "a", 4, "t", NEW), PinStatus::AsPinned);
}

fn those_who_share_have_one_set_of_pins(mut registry: Registry) {
    see(&mut registry, "a", 1, "t", OLD);
    see_as(BOB, &mut registry, "a", 1, "t", NEW);
    see_as(BOB, &mut registry, "a", 1, "u", OLD);
    let sharing = Sharing {
        users: [1000, 1002].into(),
        ..Sharing::default()
    };
    let mut registry = registry.with_sharing(sharing);
    assert_eq!(registry.owner(Some(1002)), Owner::Shared);
    assert_eq!(registry.owner(Some(1001)), BOB);
    let mut see =
        |time, name, definition| see_as(Owner::Shared, &mut registry, "a", time, name, definition);
    // She brings hers along, and he does not share.
    assert_eq!(see(2, "t", OLD), PinStatus::AsPinned);
    assert_eq!(see(2, "u", OLD), PinStatus::New);
    assert_eq!(see(3, "t", NEW), PinStatus::Changed { pinned: hash(OLD) });
}
