#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

fn folded(text: &str) -> String {
    let mut document = Document::new();
    document.push(NodeId::ROOT, Part::Text, text);
    document
        .text()
        .trim_end_matches(PIECE_END as char)
        .to_owned()
}

fn shapes(text: &str) -> Vec<Shape> {
    let mut document = Document::new();
    document.push(NodeId::ROOT, Part::Text, text);
    document
        .shaped()
        .iter()
        .map(|shaped| shaped.shape)
        .collect()
}

#[test]
fn case_blanks_and_look_alikes_fold_away() {
    assert_eq!(folded("Read  THE\tFile"), "read the file");
    assert_eq!(
        folded("ｒｅａｄ ﬁle"),
        "read file",
        "full width and ligatures"
    );
    assert_eq!(
        folded("rеаd the fіle"),
        "read the file",
        "Cyrillic inside Latin words"
    );
    assert_eq!(folded("déjà résumé"), "deja resume");
    assert_eq!(
        folded("re\u{200b}ad\u{ad} it"),
        "read it",
        "invisible characters"
    );
    assert_eq!(folded("don’t “quote”"), "don't \"quote\"");
    assert_eq!(
        folded("a\u{1b}[31mred\u{1b}[0m b"),
        "a red b",
        "terminal colours"
    );
}

#[test]
fn scripts_of_their_own_stay() {
    assert_eq!(folded("Привет, мир"), "привет, мир");
    assert_eq!(folded("委員会は月曜日"), "委員会は月曜日");
}

#[test]
fn paragraphs_and_items_part_sentences_and_wrapped_lines_do_not() {
    assert_eq!(folded("one\ntwo"), "one two");
    assert_eq!(folded("one\n\ntwo"), "one\ntwo");
    assert_eq!(folded("one\n- two\n- three"), "one\n- two\n- three");
    assert_eq!(
        folded("Args:\n  path: where\n  mode: how"),
        "args:\npath: where\nmode: how"
    );
}

#[test]
fn keys_fall_apart_into_words() {
    let mut document = Document::new();
    document.push(NodeId::ROOT, Part::Key, "systemPrompt_full");
    assert_eq!(document.text(), "system prompt full\u{1f}");
}

#[test]
fn shapes_are_remembered() {
    assert_eq!(shapes("you MUST"), [Shape::Capitals]);
    assert_eq!(shapes("call sendMail now"), [Shape::Camel]);
    assert_eq!(shapes("pаypal"), [Shape::MixedScript]);
    assert_eq!(shapes(&format!("a{}b", " ".repeat(59))), []);
    assert_eq!(
        shapes(&format!("a{}b", " ".repeat(60))),
        [Shape::AfterBlanks]
    );
    assert_eq!(shapes("GitHub and API"), []);
}

#[test]
fn a_long_value_is_looked_at_from_both_ends() {
    let text = format!("head {} tail", "x ".repeat(VALUE_LIMIT));
    let mut document = Document::new();
    document.push(NodeId::ROOT, Part::Text, text.as_str());
    assert!(document.truncated());
    assert!(document.text().len() <= VALUE_LIMIT + 2);
    assert!(document.text().starts_with("head") && document.text().contains("tail"));
    let mut whole = Document::new();
    whole.push(NodeId::ROOT, Part::Text, "y".repeat(VALUE_LIMIT));
    assert!(!whole.truncated(), "exactly at the limit");
}

#[test]
fn paths_name_the_way() {
    let mut document = Document::new();
    let schema = document.node(NodeId::ROOT, Segment::Key("inputSchema"));
    let all = document.node(schema, Segment::Key("anyOf"));
    let second = document.node(all, Segment::Index(1));
    let decoded = document.node(second, Segment::Decoded("base64"));
    assert_eq!(document.path(decoded), "inputSchema.anyOf[1]<base64>");
    assert_eq!(document.path(NodeId::ROOT), "");
}

proptest! {
    #[test]
    fn every_place_maps_back_into_the_original(text in "\\PC{0,80}") {
        let mut document = Document::new();
        document.push(NodeId::ROOT, Part::Text, "first piece");
        document.push(NodeId::ROOT, Part::Description, text.as_str());
        let pieces = document.pieces().len();
        let piece = &document.pieces()[pieces - 1];
        let mut last = 0;
        for at in piece.start..=piece.end {
            let (start, end) = document.raw_range(piece, at, at);
            prop_assert!(start <= end && end <= piece.raw.len());
            prop_assert!(piece.raw.is_char_boundary(start) && piece.raw.is_char_boundary(end));
            prop_assert!(start >= last);
            last = start;
        }
    }

    #[test]
    fn ascii_words_map_back_to_themselves(before in "[a-z ]{0,20}", word in "[A-Z]{4,9}", after in "[ a-z\n]{0,20}") {
        let text = format!("{before} {word} {after}");
        let mut document = Document::new();
        document.push(NodeId::ROOT, Part::Text, text.as_str());
        let folded = word.to_lowercase();
        if let Some(at) = document.text().find(&format!(" {folded} ")) {
            let piece = &document.pieces()[0];
            let (start, end) = document.raw_range(piece, at + 1, at + 1 + folded.len());
            prop_assert_eq!(piece.raw.get(start..end).unwrap().to_lowercase(), folded);
        }
    }
}

#[test]
fn memory_is_used_again_and_nothing_else() {
    let mut document = Document::new();
    let node = document.node(NodeId::ROOT, Segment::Key("a"));
    document.push(node, Part::Text, "LOUD words");
    let memory = document.text().as_ptr();
    let mut document = document.emptied();
    assert!(document.pieces().is_empty() && document.shaped().is_empty());
    document.push(NodeId::ROOT, Part::Text, "x");
    assert_eq!(document.text(), "x\u{1f}");
    assert_eq!(document.text().as_ptr(), memory);
    document.push(NodeId::ROOT, Part::Text, "x".repeat(VALUE_LIMIT));
    assert_eq!(document.emptied().text().len(), 0);
}
