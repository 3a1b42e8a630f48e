//! What the registry does with any storage. Each storage is tested by these cases.

use serde_json::value::RawValue;

use super::*;
use crate::model::{
    DefinitionHash, FormerIdentity, ItemKind, ServerId, ServerIdentity, SessionId, Timestamp,
};

/// A case, given an empty registry.
pub(crate) type Case = fn(Registry);

/// All cases, by name.
pub(crate) const CASES: &[(&str, Case)] = &[
    (
        "first_use_pins_and_the_pin_stays",
        first_use_pins_and_the_pin_stays,
    ),
    (
        "approval_moves_the_pin_and_is_recorded",
        approval_moves_the_pin_and_is_recorded,
    ),
    ("pin_and_unpin", pin_and_unpin),
    (
        "only_definitions_that_were_seen_can_be_decided_on",
        only_definitions_that_were_seen_can_be_decided_on,
    ),
    (
        "what_a_complete_listing_lacks_is_removed_once",
        what_a_complete_listing_lacks_is_removed_once,
    ),
    (
        "the_number_of_items_and_definitions_is_bounded",
        the_number_of_items_and_definitions_is_bounded,
    ),
    ("decisions_are_taken_out_once", decisions_are_taken_out_once),
    (
        "what_is_forgotten_is_new_when_seen_again",
        what_is_forgotten_is_new_when_seen_again,
    ),
    (
        "only_what_was_never_decided_on_is_evicted_after_a_year",
        only_what_was_never_decided_on_is_evicted_after_a_year,
    ),
    (
        "the_policy_accepts_and_says_so",
        the_policy_accepts_and_says_so,
    ),
    (
        "a_policys_decisions_are_bounded_and_a_persons_stay",
        a_policys_decisions_are_bounded_and_a_persons_stay,
    ),
    ("checking_records_nothing", checking_records_nothing),
    (
        "lists_are_ordered_and_can_be_of_one_server",
        lists_are_ordered_and_can_be_of_one_server,
    ),
    (
        "a_server_under_another_name_keeps_its_pins",
        a_server_under_another_name_keeps_its_pins,
    ),
    (
        "pins_are_taken_over_once_and_from_their_owner_alone",
        pins_are_taken_over_once_and_from_their_owner_alone,
    ),
    ("users_have_pins_of_their_own", users_have_pins_of_their_own),
    (
        "a_pin_from_before_goes_to_whoever_shows_it",
        a_pin_from_before_goes_to_whoever_shows_it,
    ),
    (
        "a_change_from_before_stays_one_and_tells_nothing",
        a_change_from_before_stays_one_and_tells_nothing,
    ),
    (
        "those_who_share_have_one_set_of_pins",
        those_who_share_have_one_set_of_pins,
    ),
    ("users_do_not_share_room", users_do_not_share_room),
    (
        "bytes_of_definitions_are_bounded_and_pins_go_on",
        bytes_of_definitions_are_bounded_and_pins_go_on,
    ),
];

pub(crate) fn server(name: &str) -> ServerId {
    ServerId(name.into())
}

/// The user whom everything belongs to unless a case says otherwise.
pub(crate) const OWNER: Owner = Owner::User(1000);

/// That user's server.
pub(crate) fn of(server: &str) -> ServerOf<'_> {
    ServerOf::new(OWNER, server)
}

/// Says that a server is called this, and was called `former` before.
pub(crate) fn name(registry: &mut Registry, name: &str, former: Option<&str>) {
    let identity = ServerIdentity {
        server_id: server(name),
        fingerprint: format!("print of {name}"),
        name_source: "test".to_owned(),
        publisher: None,
        former: former.map(|former| FormerIdentity {
            server_id: server(former),
            fingerprint: format!("print of {former}"),
        }),
    };
    registry.assign_name(OWNER, &identity, Timestamp(5));
    registry.save(Timestamp(5));
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

pub(crate) fn see(
    registry: &mut Registry,
    of: &str,
    time: u64,
    name: &str,
    definition: &str,
) -> PinStatus {
    see_as(OWNER, registry, of, time, name, definition)
}

/// What a server of this owner shows.
pub(crate) fn see_as(
    owner: Owner,
    registry: &mut Registry,
    of: &str,
    time: u64,
    name: &str,
    definition: &str,
) -> PinStatus {
    let (server, session) = (server(of), SessionId("s".into()));
    let sighting = Sighting {
        owner,
        server: &server,
        session: &session,
        time: Timestamp(time),
    };
    registry.refresh();
    let status = registry
        .observe(sighting, ItemKind::Tool, name, &raw(definition))
        .status;
    registry.save(sighting.time);
    status
}

/// The registry, once what it recorded can be read.
fn settled(registry: &Registry) -> &Registry {
    while !registry.is_settled() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    registry
}

fn list(registry: &mut Registry, of: &str, names: &[&str]) -> Vec<String> {
    let (server, session) = (server(of), SessionId("s".into()));
    let sighting = Sighting {
        owner: OWNER,
        server: &server,
        session: &session,
        time: Timestamp(9),
    };
    let removed = registry.listed(sighting, |name| names.contains(&name));
    registry.save(sighting.time);
    removed.into_iter().map(|(name, _)| name.into()).collect()
}

pub(crate) fn hash(definition: &str) -> DefinitionHash {
    canonical::hash(&raw(definition))
}

pub(crate) const ALICE: Attribution<'_> = Attribution {
    by: DecidedBy::Person(1000),
    time: Timestamp(77),
    reason: "looked at it",
};
pub(crate) const OLD: &str = r#"{"name":"t","description":"old"}"#;
pub(crate) const NEW: &str = r#"{"name":"t","description":"new"}"#;

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
        // Those that no event has told of are kept.
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

fn checking_records_nothing(mut registry: Registry) {
    let check = |registry: &mut Registry, definition| {
        registry
            .check(of("a"), ItemKind::Tool, "t", &raw(definition))
            .status
    };
    assert_eq!(check(&mut registry, OLD), PinStatus::New);
    assert_eq!(registry.size(), (0, 0));
    see(&mut registry, "a", 1, "t", OLD);
    assert_eq!(check(&mut registry, OLD), PinStatus::AsPinned);
    let changed = PinStatus::Changed { pinned: hash(OLD) };
    assert_eq!(check(&mut registry, NEW), changed);
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
    // What else was called so is held to its pins as before.
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
    // Nobody is called that.
    name(&mut registry, "a", Some("nobody"));
    assert_eq!(registry.keys(of("a")).count(), 0);
    // The name belongs to another fingerprint than the one that was had.
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
    // A server's own pins stay, and what comes later under its old name is none of its.
    see(&mut registry, "c", 2, "t", NEW);
    name(&mut registry, "c", Some("mcp"));
    assert_eq!(see(&mut registry, "c", 3, "t", NEW), PinStatus::AsPinned);
    see(&mut registry, "mcp", 4, "u", OLD);
    name(&mut registry, "c", Some("mcp"));
    assert_eq!(see(&mut registry, "c", 5, "u", OLD), PinStatus::New);
    let names = registry.server_names();
    assert_eq!(names.owners_of("mcp").collect::<Vec<_>>(), [OWNER]);
}

const BOB: Owner = Owner::User(1001);

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
    // Another definition is another item: nobody learns what was pinned.
    assert_eq!(see_as(BOB, &mut registry, "a", 2, "t", NEW), PinStatus::New);
    let check = registry.check(of("a"), ItemKind::Tool, "t", &raw(OLD));
    assert_eq!(check.status, PinStatus::AsPinned);
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

    // What is forgotten is not taken over again.
    let forgotten = ItemKey::tool("forgotten");
    see(&mut registry, "a", 3, "forgotten", OLD);
    registry
        .decide(of("a"), &forgotten, DecisionKind::Forget, None, ALICE)
        .unwrap();
    registry.refresh();
    assert_eq!(see(&mut registry, "a", 4, "forgotten", OLD), PinStatus::New);
    // What nobody has taken over goes after a year.
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
    // What is in use stays, and nobody else notices.
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
    // A definition that is known takes no more room.
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
