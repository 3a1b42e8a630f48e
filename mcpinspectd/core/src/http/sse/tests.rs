use proptest::prelude::*;

use super::*;

/// An owned [`Item`].
#[derive(Clone, Debug, PartialEq)]
enum RecordedItem {
    Event(u64, String, Option<String>, String),
    Oversize(u64, u64),
    Unfinished(u64, u64),
}

fn run(max: usize, chunks: &[&[u8]]) -> Vec<RecordedItem> {
    let mut events = Events::new(max);
    let mut seen = Vec::new();
    let mut take = collect(&mut seen);
    let mut position = 0;
    for chunk in chunks {
        events.push(position, chunk, &mut take);
        position += chunk.len() as u64;
    }
    events.finish(&mut take);
    drop(take);
    seen
}

fn collect(seen: &mut Vec<RecordedItem>) -> impl FnMut(Item<'_>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    move |item| {
        seen.push(match item {
            Item::Event {
                position,
                name,
                id,
                data,
            } => {
                let data = text(data.unwrap_or_default());
                RecordedItem::Event(position, text(name), id.map(text), data)
            }
            Item::Oversize { position, bytes } => RecordedItem::Oversize(position, bytes),
            Item::Unfinished { position, bytes } => RecordedItem::Unfinished(position, bytes),
        });
    }
}

fn event(position: u64, name: &str, id: Option<&str>, data: &str) -> RecordedItem {
    RecordedItem::Event(position, name.into(), id.map(Into::into), data.into())
}

#[test]
fn the_standards_own_examples() {
    let seen = run(100, &[b"data: YHOO\ndata: +2\ndata: 10\n\n"]);
    assert_eq!(seen, [event(0, "", None, "YHOO\n+2\n10")]);
    let seen = run(
        100,
        &[b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n"],
    );
    let expected = [
        event(15, "", Some("1"), "first event"),
        event(40, "", Some(""), "second event"),
        RecordedItem::Unfinished(62, 12),
    ];
    assert_eq!(seen, expected);
    let seen = run(100, &[b"data\n\ndata\ndata\n\ndata:"]);
    assert_eq!(seen, [event(0, "", None, ""), event(6, "", None, "\n")]);
    let seen = run(100, &[b"data:test\n\ndata: test\n\n"]);
    assert_eq!(
        seen,
        [event(0, "", None, "test"), event(11, "", None, "test")]
    );
}

#[test]
fn lines_end_in_any_of_three_ways() {
    for end in ["\n", "\r", "\r\n"] {
        let text = format!(
            "event: message{end}id: 7{end}data: {{}}{end}retry: 10{end}{end}data: x{end}{end}"
        );
        let seen = run(100, &[text.as_bytes()]);
        assert_eq!(seen.len(), 2, "{end:?}");
        assert_eq!(seen[0], event(0, "message", Some("7"), "{}"));
    }
}

#[test]
fn a_byte_order_mark_is_skipped_at_the_beginning_alone() {
    let seen = run(100, &[b"\xef\xbb", b"\xbfdata: a\n\n"]);
    assert_eq!(seen, [event(3, "", None, "a")]);
    let seen = run(100, &[b"data: a\n\n\xef\xbb\xbfdata: b\n\n"]);
    assert_eq!(seen, [event(0, "", None, "a")]);
    assert_eq!(run(100, &[b"\xefdata: a\n\n"]), []);
}

#[test]
fn an_id_alone_is_told_and_a_comment_is_not() {
    // Since 2025-11-25, servers begin a stream with an id and no data.
    let seen = run(100, &[b"id: p1\ndata:\n\n:ping\n\nid: a\0b\ndata: x\n\n"]);
    assert_eq!(
        seen,
        [event(0, "", Some("p1"), ""), event(21, "", None, "x")]
    );
}

#[test]
fn an_event_without_a_field_for_data_has_none() {
    let mut has_data = Vec::new();
    Events::new(100).push(0, b"id: 1\n\nid: 2\ndata\n\n", &mut |item| {
        has_data.push(matches!(item, Item::Event { data: Some(_), .. }));
    });
    assert_eq!(has_data, [false, true]);
}

#[test]
fn the_last_pause_that_is_a_number_counts() {
    let mut events = Events::new(100);
    for (text, retry) in [
        ("retry: 7", None),
        ("0\n", Some(70)),
        ("retry: soon\nretry\nretry: \nretry: -1\n", Some(70)),
        ("retry:99999999999999999999999\n", Some(u64::MAX)),
    ] {
        events.push(0, text.as_bytes(), &mut |_| {});
        assert_eq!(events.retry(), retry, "{text}");
    }
}

#[test]
fn the_maximum_is_exact() {
    let seen = run(
        3,
        &[b"data: abc\n\ndata: abcd\n\ndata: a\ndata: b\n\ndata: a\ndata: bc\n\n"],
    );
    let expected = [
        event(0, "", None, "abc"),
        RecordedItem::Oversize(11, 4),
        event(23, "", None, "a\nb"),
        RecordedItem::Oversize(40, 4),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_torn_event_is_skipped() {
    for (before, after, left) in [
        (
            &b"data: a\n\ndata: b"[..],
            &b"c\n\ndata: d\n\n"[..],
            &["a", "d"][..],
        ),
        (b"data: a\n\n", b"\n\ndata: d\n\n", &["a", "d"]),
        (b"", b"data: forged\n\ndata: d\n\n", &["d"]),
        (b"data: b\n", b"\ndata: d\n\n", &[]),
    ] {
        let mut events = Events::new(100);
        let mut seen = Vec::new();
        events.push(0, before, &mut collect(&mut seen));
        events.hole();
        assert!(events.is_within());
        events.push(1000, after, &mut collect(&mut seen));
        let data: Vec<_> = seen
            .iter()
            .map(|seen| match seen {
                RecordedItem::Event(_, _, _, data) => data.as_str(),
                _ => "?",
            })
            .collect();
        assert_eq!(data, left);
    }
}

#[test]
fn an_endless_event_is_not_kept() {
    let mut events = Events::new(1 << 20);
    events.push(0, b"data: ", &mut |_| {});
    for index in 0..100 {
        events.push(6 + (index << 16), &[b'x'; 1 << 16], &mut |_| {});
        assert!(events.usage().total() <= 1 << 20);
    }
    let mut seen = Vec::new();
    events.push(6 + (100 << 16), b"\n\n", &mut collect(&mut seen));
    assert_eq!(seen, [RecordedItem::Oversize(0, 100 << 16)]);
    for _ in 0..10_000 {
        events.push(0, b"event: name without end", &mut |_| {});
    }
    assert!(events.name.len() <= MAX_WORD);
}

proptest! {
    #[test]
    fn cuts_make_no_difference(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "data", "data: ", "data:x", "id: 1", "event: e", ":", " ", "\n", "\r", "\r\n", "\n\n", "\u{feff}", "y",
            ]),
            0..40,
        ),
        max in 1_usize..20,
    ) {
        let text = pieces.concat();
        let whole = run(max, &[text.as_bytes()]);
        for cut in 0..=text.len() {
            let (one, other) = text.as_bytes().split_at(cut);
            prop_assert_eq!(&run(max, &[one, other]), &whole);
        }
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        prop_assert_eq!(run(max, &bytes), whole);
    }
}
