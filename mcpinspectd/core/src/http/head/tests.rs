use super::*;

fn head(fields: &[(&str, &str)]) -> Head {
    let mut head = Head::default();
    for (name, value) in fields {
        if let Some(name) = Name::of(name.as_bytes()) {
            head.field(name, value.as_bytes());
        }
    }
    head
}

#[test]
fn nothing_secret_is_kept() {
    let head = head(&[
        (
            ":path",
            "http://me:pass-word@host.example:8080/mcp?key=se-cret#pass-word",
        ),
        ("Authorization", "Bearer se-cret"),
        ("Cookie", "a=se-cret"),
        ("Host", "me:pass-word@other"),
        ("Mcp-Session-Id", "s1"),
    ]);
    let shown = format!("{head:?}");
    assert!(
        !shown.contains("se-cret") && !shown.contains("pass-word"),
        "{shown}"
    );
    assert_eq!(head.target.path.as_deref(), Some("/mcp"));
    assert_eq!(head.target.authority.as_deref(), Some("host.example:8080"));
    assert_eq!(
        head.target.key,
        Some(TargetKey::of(b"/mcp?key=se-cret#pass-word"))
    );
    assert_ne!(head.target.key, Some(TargetKey::of(b"/mcp?key=other")));
}

#[test]
fn types_and_codings_are_read_as_http_means_them() {
    for (value, wanted) in [
        ("application/json", Content::Json),
        ("Application/JSON; charset=utf-8", Content::Json),
        ("application/vnd.api+json", Content::Json),
        ("text/event-stream;charset=utf-8", Content::Events),
        ("text/html", Content::Other),
        ("", Content::Other),
    ] {
        assert_eq!(head(&[("content-type", value)]).content, wanted, "{value}");
    }
    for (value, wanted) in [
        ("gzip", Coding::Gzip),
        ("GZIP", Coding::Gzip),
        ("br", Coding::Brotli),
        ("identity", Coding::Identity),
        ("gzip, br", Coding::Unknown),
    ] {
        assert_eq!(head(&[("content-encoding", value)]).coding, wanted);
    }
    let both = head(&[("accept", "application/json, text/event-stream;q=0.9")]);
    assert!(both.accepts_events && both.accepts_json);
    let any = head(&[("accept", "*/*")]);
    assert!(!any.accepts_events && !any.accepts_json);
    let twice = head(&[
        ("content-type", "application/json"),
        ("content-type", "text/html"),
    ]);
    assert_eq!(twice.content, Content::Other);
}

#[test]
fn lengths_are_numbers_and_stand_alone() {
    let ambiguity = |values: &[&str]| {
        let fields: Vec<_> = values
            .iter()
            .map(|value| ("content-length", *value))
            .collect();
        head(&fields).ambiguity
    };
    assert_eq!(ambiguity(&["17"]), None);
    for value in ["", "+1", "-1", "0x1", "1 ", "99999999999999999999"] {
        assert_eq!(
            ambiguity(&[value]),
            Some(Anomaly::MalformedLength),
            "{value}"
        );
    }
    assert_eq!(ambiguity(&["5, 5"]), Some(Anomaly::SeveralLengths));
    assert_eq!(ambiguity(&["5", "5"]), Some(Anomaly::SeveralLengths));
    for value in [
        "xchunked",
        "chunked, chunked",
        "gzip, chunked",
        "identity",
        "",
    ] {
        let ambiguity = head(&[("transfer-encoding", value)]).ambiguity;
        assert_eq!(ambiguity, Some(Anomaly::UnknownTransferCoding), "{value}");
    }
    assert_eq!(head(&[("Transfer-Encoding", "Chunked")]).ambiguity, None);
}

#[test]
fn a_field_of_mcp_counts_once() {
    let same = head(&[("mcp-method", "ping"), ("Mcp-Method", "ping")]);
    assert!(!same.is_repeated);
    let other = head(&[("mcp-method", "ping"), ("Mcp-Method", "tools/call")]);
    assert!(other.is_repeated);
    assert_eq!(other.mcp.method.as_deref(), Some("ping"));
    let long = "x".repeat(5000);
    let kept = head(&[("mcp-name", &long)]).mcp.name.map(|name| name.len());
    assert_eq!(kept, Some(MAX_VALUE));
}
