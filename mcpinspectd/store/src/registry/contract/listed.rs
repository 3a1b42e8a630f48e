//! Signed lists approve definitions, and no longer do.

use mcpinspect_judge::registry::{DecidedBy, Listed, Standing};

use super::*;

cases![
    what_a_list_approves_is_accepted_until_it_no_longer_does,
    what_is_known_already_is_recorded_when_the_list_comes,
    an_approval_is_recorded_once,
    a_list_of_its_own_keeps_nothing_from_being_removed
];

fn approves(definitions: &[&str]) -> Listed {
    let mut listed = Listed::default();
    for definition in definitions {
        let why = "carol: fine (list fleet, serial 1)".to_owned();
        listed.approve("a", ItemKey::tool("t"), hash(definition), why);
    }
    listed
}

fn set(registry: &mut Registry, listed: Listed) {
    registry.set_listed(listed, Timestamp(88));
    registry.save(Timestamp(88));
}

/// The decisions since the last call.
fn told(registry: &mut Registry) -> Vec<(DecisionKind, DecidedBy, String)> {
    settled(registry);
    let taken = registry.take_decisions().into_iter();
    taken
        .map(|taken| {
            let decision = taken.decision;
            (decision.kind, decision.by, decision.reason)
        })
        .collect()
}

fn what_a_list_approves_is_accepted_until_it_no_longer_does(mut registry: Registry) {
    let key = ItemKey::tool("t");
    set(&mut registry, approves(&[NEW]));
    // It is known before it was ever seen: a guard asks first.
    let check = |registry: &Registry, of_it| registry.check(of("a"), "t", Some(hash(of_it)));
    assert_eq!(check(&registry, NEW), Some(Standing::Accepted));
    see(&mut registry, "a", 1, "t", OLD);
    assert_eq!(check(&registry, OLD), Some(Standing::FirstUse));
    assert_eq!(see(&mut registry, "a", 2, "t", NEW), PinStatus::AsPinned);
    assert_eq!(registry.standing(of("a"), &key), Some(Standing::Accepted));
    // The pin is where it was, so the old definition is as pinned too.
    assert_eq!(see(&mut registry, "a", 3, "t", OLD), PinStatus::AsPinned);
    assert_eq!(see(&mut registry, "a", 4, "t", NEW), PinStatus::AsPinned);
    let view = &settled(&registry).list().unwrap()[0];
    assert_eq!((view.pinned, view.pinned_by), (Some(hash(OLD)), None));
    assert!(!view.is_changed());
    assert_eq!(
        view.listed.as_deref(),
        Some("carol: fine (list fleet, serial 1)")
    );
    let [approved] = told(&mut registry).try_into().unwrap();
    assert_eq!(
        (approved.0, approved.1),
        (DecisionKind::Approve, DecidedBy::List)
    );

    let mut revoked = Listed::default();
    revoked.revoke("a", key.clone(), hash(NEW), "dave: no".to_owned());
    set(&mut registry, revoked);
    assert_eq!(check(&registry, NEW), Some(Standing::Changed));
    assert_eq!(
        told(&mut registry),
        [(DecisionKind::Revoke, DecidedBy::List, "dave: no".to_owned())]
    );
    assert_eq!(
        see(&mut registry, "a", 5, "t", NEW),
        PinStatus::Changed { pinned: hash(OLD) }
    );
    let view = &settled(&registry).list().unwrap()[0];
    assert!(view.is_changed() && view.listed.is_none());
    assert_eq!(told(&mut registry), []);
}

fn what_is_known_already_is_recorded_when_the_list_comes(mut registry: Registry) {
    see(&mut registry, "a", 1, "t", OLD);
    see(&mut registry, "a", 2, "t", NEW);
    see(&mut registry, "b", 2, "t", NEW);
    set(&mut registry, approves(&[NEW]));
    assert_eq!(told(&mut registry).len(), 1);
    let views = settled(&registry).list().unwrap();
    assert_eq!(views.iter().filter(|view| view.listed.is_some()).count(), 1);
    // A person's decision applies whatever becomes of the list.
    registry
        .decide(
            of("a"),
            &ItemKey::tool("t"),
            DecisionKind::Approve,
            None,
            ALICE,
        )
        .unwrap();
    set(&mut registry, Listed::default());
    let kinds: Vec<_> = told(&mut registry).into_iter().map(|told| told.0).collect();
    assert_eq!(kinds, [DecisionKind::Approve, DecisionKind::Revoke]);
    assert_eq!(see(&mut registry, "a", 3, "t", NEW), PinStatus::AsPinned);
}

fn an_approval_is_recorded_once(mut registry: Registry) {
    set(&mut registry, approves(&[OLD, NEW]));
    for round in 0..50 {
        see(&mut registry, "a", 2 * round, "t", OLD);
        assert_eq!(
            see(&mut registry, "a", 2 * round + 1, "t", NEW),
            PinStatus::AsPinned
        );
    }
    set(&mut registry, approves(&[OLD, NEW]));
    assert_eq!(told(&mut registry).len(), 2);
}

fn a_list_of_its_own_keeps_nothing_from_being_removed(mut registry: Registry) {
    set(&mut registry, approves(&[NEW]));
    see(&mut registry, "a", 1, "t", NEW);
    told(&mut registry);
    registry.save(Timestamp(88));
    let later = Timestamp(EVICT_AFTER + 86_400_000_000_000);
    assert_eq!(registry.evict(later), 1);
    registry.save(later);
    assert!(settled(&registry).list().unwrap().is_empty());
}
