use proptest::prelude::*;
use serde_json::json;

use super::*;

fn pattern(text: &str) -> Pattern {
    text.parse().unwrap()
}

/// Whether the pattern leads to a place with this value.
fn leads(pattern: &Pattern, value: &Value, wanted: &Value) -> bool {
    pattern.find(value).contains(&wanted)
}

#[test]
fn a_path_leads_where_it_says() {
    let value = json!({"tools": [{"name": "a", "x.y": 1}, {"name": "b", "deep": {"deeper": [2]}}]});
    for (path, wanted, found) in [
        ("m.tools[0].name", json!("a"), true),
        ("m.tools[1].name", json!("a"), false),
        ("m.tools[*].name", json!("b"), true),
        ("m.tools[name=b].deep.deeper[0]", json!(2), true),
        ("m.tools[name=a].deep.deeper[0]", json!(2), false),
        ("m.tools[0][\"x.y\"]", json!(1), true),
        ("m.**.deeper", json!([2]), true),
        ("m.**.deep*[0]", json!(2), true),
        ("m.**", json!(2), true),
        ("m.**.tools", value["tools"].clone(), true),
        ("m.*.name", json!("a"), false),
    ] {
        assert_eq!(leads(&pattern(path), &value, &wanted), found, "{path}");
    }
}

#[test]
fn a_pattern_concerns_methods_and_parameters() {
    let params = json!({"name": "get-sum", "n": 3});
    for (path, concerns) in [
        ("tools/call", true),
        ("tools/*", true),
        ("*", true),
        ("tools/list", false),
        ("tools/call[name=get-sum][n=3].x", true),
        ("tools/call[name=get-*]", true),
        ("tools/call[name=\"get-*\"]", false),
        ("tools/call[missing=1]", false),
    ] {
        let pattern = pattern(path);
        assert_eq!(
            pattern.concerns("tools/call", Some(&params)),
            concerns,
            "{path}"
        );
    }
    assert!(!pattern("tools/call[name=x]").concerns("tools/call", None));
}

#[test]
fn values_are_put_in_place() {
    let put = |text: &str, mut value: Value| {
        let assignment: Assignment = text.parse().unwrap();
        let places = assignment.pattern.set(&mut value, &assignment.value);
        (places, value)
    };
    assert_eq!(
        put(
            "m[a=b].arguments.path=/tmp",
            json!({"arguments": {"path": "/home"}})
        ),
        (1, json!({"arguments": {"path": "/tmp"}}))
    );
    assert_eq!(put("m.a.b=1=2", json!({})), (1, json!({"a": {"b": "1=2"}})));
    assert_eq!(
        put("m.a[0]={\"x\":[]}", json!({"a": [1]})),
        (1, json!({"a": [{"x": []}]}))
    );
    assert_eq!(put("m.a[7]=1", json!({"a": [1]})), (0, json!({"a": [1]})));
    assert_eq!(put("m.*.b=1", json!({"a": {}})), (0, json!({"a": {}})));
    assert_eq!(
        put("m.**.b=0", json!({"a": [{"b": 1}], "b": {"b": 2}})),
        (3, json!({"a": [{"b": 0}], "b": 0}))
    );
    assert_eq!(
        put("m.**.b={\"b\":1}", json!({"b": 2})),
        (1, json!({"b": {"b": 1}}))
    );
    assert_eq!(put("m=null", json!({})), (1, Value::Null));
}

#[test]
fn what_is_no_path_says_why() {
    let error = |text: &str| text.parse::<Pattern>().unwrap_err();
    assert_eq!(error(".a"), PathError::NoMethod);
    assert_eq!(error(""), PathError::NoMethod);
    assert_eq!(error("m."), PathError::EmptyStep);
    assert_eq!(error("m..a"), PathError::EmptyStep);
    assert_eq!(error("m[0"), PathError::Open('['));
    assert_eq!(error("m[\"a]"), PathError::Open('"'));
    assert_eq!(error("m[a]"), PathError::Bracket("a".to_owned()));
    assert_eq!(error("m.a]"), PathError::Unexpected(']'));
    assert_eq!(error("m.a=1"), PathError::Unexpected('='));
    assert_eq!(error(&format!("m{}", ".a".repeat(61))), PathError::TooLong);
    assert_eq!("m.a".parse::<Assignment>().unwrap_err(), PathError::NoValue);
    let longest = pattern(&format!("m{}", ".**.a".repeat(30)));
    assert!(!leads(&longest, &json!({"a": [1]}), &json!(1)));
}

#[test]
fn wildcards_stand_for_any_characters() {
    for (pattern, text, matches) in [
        ("*", "", true),
        ("a*c", "abc", true),
        ("a*c", "ac", true),
        ("a*a", "a", false),
        ("*b*", "abc", true),
        ("*ab*ab", "abab", true),
        ("*ab*ab", "ab", false),
        ("abc", "abcd", false),
    ] {
        assert_eq!(glob(pattern, text), matches, "{pattern} {text}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "[a.*\\[\\]=\"0é\\\\]{0,24}") {
        let _ = text.parse::<Pattern>();
        if let Ok(assignment) = text.parse::<Assignment>() {
            assignment.pattern.set(&mut json!({"a": [{"a": 0}], "": 1}), &assignment.value);
        }
    }

    #[test]
    fn a_path_that_is_written_is_the_one_that_is_read(names in prop::collection::vec(".{0,6}", 1..6), index in 0_usize..9) {
        let mut text = "m".to_owned();
        let mut value = json!("here");
        for name in names.iter().rev() {
            value = json!({ name: value });
        }
        for name in &names {
            write_member(&mut text, name);
        }
        let pattern: Pattern = text.parse().unwrap();
        prop_assert!(leads(&pattern, &value, &json!("here")), "{text}");
        prop_assert_eq!(pattern.to_string(), text.clone());
        write_filter(&mut text, "name", &names[0]);
        text.push_str(&format!("[{index}]"));
        let pattern: Pattern = text.parse().unwrap();
        prop_assert_eq!(pattern.to_string(), text);
    }
}
