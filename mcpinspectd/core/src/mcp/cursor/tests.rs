use super::*;

fn keys(text: &[u8]) -> (Vec<String>, Result<(), Flaw>) {
    let mut keys = Vec::new();
    let end = Cursor::new(text).object(|cursor, key| {
        keys.push(key.to_owned());
        cursor.skip()
    });
    (keys, end)
}

#[test]
fn visits_members_and_skips_their_values() {
    let (found, end) =
        keys(br#" { "a" : {"x":[1,{"y":"}]\""}]} , "b":-1.5e3,"c":null,"d":"\\" } "#);
    assert_eq!(found, ["a", "b", "c", "d"]);
    assert_eq!(end, Ok(()));
    assert_eq!(keys(b"{}"), (vec![], Ok(())));
}

#[test]
fn text_cut_anywhere_ends_and_is_never_invalid() {
    let text = br#"{"a":{"x":[1,"\u00e9\\"]},"\u0062":true,"c":"z"}"#;
    for cut in 0..text.len() {
        let (found, end) = keys(&text[..cut]);
        assert_eq!(end, Err(Flaw::Truncated), "cut at {cut}");
        assert!(found.len() <= 3);
    }
    assert_eq!(keys(text).0, ["a", "b", "c"]);
}

#[test]
fn text_that_is_not_json_is_invalid() {
    for text in [
        &b"[1]"[..],
        b"{a:1}",
        b"{\"a\" 1}",
        b"{\"a\":}",
        b"{\"a\":1 2}",
        b"{\"a\":?}",
    ] {
        assert_eq!(
            keys(text).1,
            Err(Flaw::Invalid),
            "{}",
            String::from_utf8_lossy(text)
        );
    }
}

#[test]
fn depth_costs_no_stack() {
    let deep = [vec![b'['; 1 << 20], vec![b']'; 1 << 20]].concat();
    let mut cursor = Cursor::new(&deep);
    assert_eq!(cursor.skip(), Ok(()));
    assert_eq!(cursor.end(), Ok(()));
}

#[test]
fn walks_arrays() {
    let mut strings = Vec::new();
    let mut cursor = Cursor::new(br#"["a", "\u0041"]"#);
    cursor
        .array(|cursor| {
            strings.push(cursor.string()?.into_owned());
            Ok(())
        })
        .unwrap();
    assert_eq!(strings, ["a", "A"]);
    assert_eq!(Cursor::new(b"[]").array(|_| Err(Flaw::Invalid)), Ok(()));
}

#[test]
fn ends_of_strings() {
    for (text, end) in [
        (r#""""#, Some((1, false))),
        (r#""a" "b""#, Some((2, false))),
        (r#""a\"b\\" x"#, Some((7, true))),
        (r#""open"#, None),
        (r#""open\"#, None),
        (r#""open\""#, None),
        ("\"", None),
    ] {
        assert_eq!(string_end(text.as_bytes(), 1), end, "{text}");
    }
    assert_eq!(string_end(b"", 1), None);
}
