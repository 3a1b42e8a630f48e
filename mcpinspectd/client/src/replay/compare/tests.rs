use proptest::prelude::*;
use serde_json::json;

use super::*;

fn differences(depth: Depth, ignored: &[&str], old: &Value, new: &Value) -> Vec<Difference> {
    let mut patterns: Vec<Pattern> = Rules::volatile().collect();
    patterns.extend(ignored.iter().map(|text| text.parse::<Pattern>().unwrap()));
    let subject = Subject {
        method: "tools/call",
        params: Some(&json!({"name": "x", "arguments": {}})),
        number: 7,
    };
    let mut found = Differences::default();
    let rules = Rules::new(depth, patterns);
    let is_same = rules.compare(subject, old, new, &mut found);
    let (found, _) = found.sorted();
    assert_eq!(is_same, found.is_empty());
    found
}

/// Each difference, abbreviated.
fn found(ignored: &[&str], old: &Value, new: &Value) -> Vec<(Kind, String)> {
    let found = differences(Depth::Values, ignored, old, new);
    let short = |difference: Difference| {
        let path = difference.path.replace("tools/call[name=x]", "");
        (difference.kind, path)
    };
    found.into_iter().map(short).collect()
}

fn kind(kind: Kind, path: &str) -> (Kind, String) {
    (kind, path.to_owned())
}

#[test]
fn every_default_is_a_path() {
    assert_eq!(Rules::volatile().count(), VOLATILE.len());
}

#[test]
fn each_difference_has_its_kind_and_path() {
    let old = json!({"result": {"gone": 1, "type": 1, "value": "a", "same": [1, {"a": null}]}});
    let new = json!({"result": {"type": "1", "value": "b", "same": [1, {"a": null}], "more": {}}});
    assert_eq!(
        found(&[], &old, &new),
        [
            kind(Kind::Missing, ".result.gone"),
            kind(Kind::Added, ".result.more"),
            kind(Kind::Type, ".result.type"),
            kind(Kind::Value, ".result.value"),
        ]
    );
    let structure = differences(Depth::Structure, &[], &old, &new);
    assert_eq!(structure.len(), 3);
    assert_eq!(structure[2].was.as_deref(), Some("1"));
    assert_eq!(structure[2].is.as_deref(), Some("\"1\""));
    assert_eq!(structure[0].message, Some(7));
}

#[test]
fn an_error_is_no_result() {
    let (old, new) = (json!({"result": {}}), json!({"error": {"code": -1}}));
    assert_eq!(found(&[], &old, &new), [kind(Kind::Outcome, "")]);
    assert_eq!(found(&["tools/*"], &old, &new), []);
    let failed = |failed: bool| json!({"result": {"content": [failed], "isError": failed}});
    assert_eq!(
        found(&[], &failed(false), &failed(true)),
        [kind(Kind::Outcome, "")]
    );
    assert_eq!(found(&[], &failed(true), &failed(true)), []);
    assert_eq!(found(&[], &new, &json!({"error": {"code": -1}})), []);
}

#[test]
fn named_things_are_compared_by_name_and_others_in_order() {
    let old = json!({"result": {"tools": [{"name": "a", "n": 1}, {"name": "b"}, {"name": "c"}]}});
    let new = json!({"result": {"tools": [{"name": "c"}, {"name": "a", "n": 2}, {"name": "d.e"}]}});
    assert_eq!(
        found(&[], &old, &new),
        [
            kind(Kind::Missing, ".result.tools[name=b]"),
            kind(Kind::Added, ".result.tools[name=d.e]"),
            kind(Kind::Value, ".result.tools[name=a].n"),
        ]
    );
    assert_eq!(
        found(
            &[
                "*.result.tools[name=b]",
                "*.**.tools[*].n",
                "*.result.tools[name=d*]"
            ],
            &old,
            &new
        ),
        []
    );
    let list = |list: Value| json!({"result": {"l": list}});
    assert_eq!(
        found(&[], &list(json!([1, 2, 3, 4])), &list(json!([1, 3, 4]))),
        [kind(Kind::Missing, ".result.l[1]")]
    );
    assert_eq!(
        found(&[], &list(json!([1, 2])), &list(json!([1, 2, 3]))),
        [kind(Kind::Added, ".result.l[2]")]
    );
    assert_eq!(
        found(&[], &list(json!([1, 2])), &list(json!([2, 1]))),
        [
            kind(Kind::Value, ".result.l[0]"),
            kind(Kind::Value, ".result.l[1]")
        ]
    );
    // The same name twice identifies nothing.
    let twice = list(json!([{"name": "a"}, {"name": "a"}]));
    assert_eq!(
        found(&[], &twice, &list(json!([{"name": "a"}]))),
        [kind(Kind::Missing, ".result.l[1]")]
    );
}

#[test]
fn what_servers_make_up_is_not_compared() {
    let old = json!({"result": {"_meta": {"timestamp": 1, "a": {"createdAt": 1}}, "nextCursor": "x",
        "contents": [{"annotations": {"lastModified": "x", "priority": 1}}]}});
    let new = json!({"result": {"_meta": {"a": {"createdAt": "2"}}, "nextCursor": "y",
        "contents": [{"annotations": {"lastModified": "y", "priority": 1}}]}});
    assert_eq!(found(&[], &old, &new), []);
    let new =
        json!({"result": {"_meta": {"a": {}}, "contents": [{"annotations": {"priority": 2}}]}});
    assert_eq!(
        found(&[], &old, &new),
        [
            kind(Kind::Missing, ".result.nextCursor"),
            kind(Kind::Value, ".result.contents[0].annotations.priority"),
        ]
    );
}

#[test]
fn numbers_are_equal_by_value_and_texts_are_shown_safely() {
    let number = |number: Value| json!({"result": {"n": number}});
    assert_eq!(found(&[], &number(json!(1)), &number(json!(1.0))), []);
    assert_eq!(
        found(
            &[],
            &number(json!(9_007_199_254_740_993_u64)),
            &number(json!(9_007_199_254_740_992_u64))
        ),
        [kind(Kind::Value, ".result.n")]
    );
    let long = json!({"result": "\u{1b}[2J".repeat(100_000)});
    let shown = excerpt(&long);
    assert!(
        shown.chars().count() <= EXCERPT && !shown.contains('\u{1b}'),
        "{shown}"
    );
}

#[test]
fn the_same_difference_is_counted_and_their_number_is_bounded() {
    let mut all = Differences::default();
    let one = |path: String| Difference {
        kind: Kind::Added,
        method: "m".to_owned(),
        path,
        was: None,
        is: None,
        message: Some(1),
        times: 1,
    };
    for at in 0..MAX_DIFFERENCES + 5 {
        all.add(one(at.to_string()));
    }
    all.add(one("0".to_owned()));
    let (found, more) = all.sorted();
    assert_eq!((found.len(), more), (MAX_DIFFERENCES, 5));
    assert_eq!(found[0].times, 2);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        "[a-b\\. ]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("name|a|b\\.c|uri", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn only_what_differs_differs(old in any_json(), new in any_json()) {
        let (old, new) = (json!({"result": old}), json!({"result": new}));
        prop_assert_eq!(found(&[], &old, &old), []);
        let (forth, back) = (found(&[], &old, &new), found(&[], &new, &old));
        prop_assert_eq!(forth.len(), back.len());
        let mirrored = |(kind, _): &(Kind, String)| match kind {
            Kind::Missing => Kind::Added,
            Kind::Added => Kind::Missing,
            other => *other,
        };
        let mut mirror: Vec<Kind> = forth.iter().map(mirrored).collect();
        mirror.sort_unstable();
        let mut back: Vec<Kind> = back.into_iter().map(|(kind, _)| kind).collect();
        back.sort_unstable();
        prop_assert_eq!(mirror, back);
    }

    #[test]
    fn a_path_of_a_report_ignores_what_it_reports(old in any_json(), new in any_json()) {
        let (old, new) = (json!({"result": old}), json!({"result": new}));
        let all = differences(Depth::Values, &[], &old, &new);
        for difference in &all {
            let rest = differences(Depth::Values, &[&difference.path], &old, &new);
            prop_assert!(!rest.contains(difference), "{difference:?}");
        }
        let paths: Vec<&str> = all.iter().map(|difference| difference.path.as_str()).collect();
        prop_assert_eq!(differences(Depth::Values, &paths, &old, &new), []);
    }
}
