//! People and policies decide on definitions.

use super::*;

cases![
    approval_moves_the_pin_and_is_recorded,
    only_definitions_that_were_seen_can_be_decided_on,
    decisions_are_taken_out_once,
    what_is_forgotten_is_new_when_seen_again,
    the_policy_accepts_and_says_so
];

fn approval_moves_the_pin_and_is_recorded(mut registry: Registry) {
    let key = ItemKey::tool("t");
    see(&mut registry, "a", 1, "t", OLD);
    see(&mut registry, "a", 2, "t", NEW);
    let comparison = registry.compare(of("a"), &key, None, None).unwrap();
    assert_eq!(
        (comparison.previous, comparison.new),
        (hash(OLD), hash(NEW))
    );
    assert_eq!(comparison.changes[0].field, "description");

    assert_eq!(
        registry
            .decide(of("a"), &key, DecisionKind::Reject, None, ALICE)
            .unwrap(),
        hash(NEW)
    );
    assert_eq!(
        see(&mut registry, "a", 3, "t", NEW),
        PinStatus::Changed { pinned: hash(OLD) }
    );
    assert_eq!(
        registry
            .decide(of("a"), &key, DecisionKind::Approve, Some(hash(NEW)), ALICE)
            .unwrap(),
        hash(NEW)
    );
    assert_eq!(see(&mut registry, "a", 4, "t", NEW), PinStatus::AsPinned);
    assert_eq!(
        see(&mut registry, "a", 5, "t", OLD),
        PinStatus::Changed { pinned: hash(NEW) }
    );

    let kinds: Vec<DecisionKind> = settled(&registry)
        .decisions(of("a"), &key)
        .unwrap()
        .iter()
        .map(|decision| decision.kind)
        .collect();
    assert_eq!(kinds, [DecisionKind::Reject, DecisionKind::Approve]);
    let view = &settled(&registry).list().unwrap()[0];
    assert_eq!(
        (view.pinned, view.pinned_by, view.current),
        (Some(hash(NEW)), Some(ALICE.by), hash(OLD))
    );
    assert!(view.is_changed());
    assert_eq!(view.last_decision.as_ref().unwrap().reason, "looked at it");
}

fn only_definitions_that_were_seen_can_be_decided_on(mut registry: Registry) {
    see(&mut registry, "a", 1, "t", OLD);
    let unknown = registry.decide(
        of("a"),
        &ItemKey::tool("x"),
        DecisionKind::Approve,
        None,
        ALICE,
    );
    assert!(matches!(unknown, Err(DecideError::UnknownItem)));
    let never = registry.decide(
        of("a"),
        &ItemKey::tool("t"),
        DecisionKind::Approve,
        Some(hash(NEW)),
        ALICE,
    );
    assert!(matches!(never, Err(DecideError::UnknownDefinition { .. })));
    assert!(
        settled(&registry)
            .decisions(of("a"), &ItemKey::tool("t"))
            .unwrap()
            .is_empty()
    );
}

fn decisions_are_taken_out_once(mut registry: Registry) {
    let key = ItemKey::tool("t");
    see(&mut registry, "a", 1, "t", OLD);
    assert_eq!(registry.take_decisions(), []);
    for number in 0..65 {
        let by = Attribution {
            reason: &number.to_string(),
            ..ALICE
        };
        registry
            .decide(of("a"), &key, DecisionKind::Pin, None, by)
            .unwrap();
    }
    let first = registry.take_decisions();
    assert_eq!((first.len(), &*first[63].decision.reason), (64, "63"));
    assert_eq!((&*first[0].server, &first[0].key), ("a", &key));
    assert_eq!(registry.take_decisions().len(), 1);
    assert_eq!(registry.take_decisions(), []);
}

fn what_is_forgotten_is_new_when_seen_again(mut registry: Registry) {
    let key = ItemKey::tool("t");
    see(&mut registry, "a", 1, "t", OLD);
    see(&mut registry, "a", 1, "other", OLD);
    see(&mut registry, "b", 1, "t", OLD);
    registry
        .decide(of("a"), &key, DecisionKind::Forget, None, ALICE)
        .unwrap();
    assert_eq!(registry.size(), (2, 2));
    assert!(matches!(
        registry.decide(of("a"), &key, DecisionKind::Approve, None, ALICE),
        Err(DecideError::UnknownItem)
    ));
    assert_eq!(see(&mut registry, "a", 2, "t", NEW), PinStatus::New);
    assert_eq!(see(&mut registry, "a", 3, "t", NEW), PinStatus::AsPinned);
    let versions = settled(&registry).versions(of("a"), &key).unwrap();
    assert_eq!(versions.len(), 1, "the old definition is gone");

    assert_eq!(registry.forget_server(of("a"), ALICE).unwrap(), 2);
    settled(&registry);
    registry.refresh();
    assert_eq!(registry.size(), (1, 1));
    let servers: Vec<_> = settled(&registry).list().unwrap();
    assert!(servers.iter().all(|item| item.server == "b"));
    let usage = registry.usage().unwrap();
    assert_eq!((usage.len(), usage[0].items, usage[0].versions), (1, 1, 1));
    assert!(registry.forget_server(of("a"), ALICE).is_err());
    let kinds: Vec<_> = registry
        .take_decisions()
        .iter()
        .map(|taken| taken.decision.kind)
        .collect();
    assert_eq!(kinds, [DecisionKind::Forget; 3]);
}

fn the_policy_accepts_and_says_so(mut registry: Registry) {
    let key = ItemKey::tool("t");
    see(&mut registry, "a", 1, "t", OLD);
    see(&mut registry, "a", 2, "t", NEW);
    registry
        .accept(of("a"), &key, hash(NEW), Timestamp(3), "harmless")
        .unwrap();
    assert_eq!(see(&mut registry, "a", 4, "t", NEW), PinStatus::AsPinned);
    let view = &settled(&registry).list().unwrap()[0];
    assert_eq!(view.pinned_by, Some(DecidedBy::Policy));
    let [decided] = registry.take_decisions().try_into().unwrap();
    assert_eq!(decided.decision.by, DecidedBy::Policy);
    assert_eq!(decided.decision.reason, "harmless");
    let unknown = ItemKey::tool("x");
    let result = registry.accept(of("a"), &unknown, hash(NEW), Timestamp(5), "");
    assert!(matches!(result, Err(DecideError::UnknownItem)));
}
