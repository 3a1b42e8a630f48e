use proptest::prelude::*;

use super::*;
use crate::detect::category::Part;

fn shapes(text: &str) -> Vec<Shape> {
    let mut subject = SubjectText::new();
    subject.push(PathId::ROOT, Part::Text, text);
    subject.shaped().iter().map(|shaped| shaped.shape).collect()
}

#[test]
fn case_blanks_and_look_alikes_fold_away() {
    assert_eq!(fold("Read  THE\tFile"), "read the file");
    assert_eq!(
        fold("ｒｅａｄ ﬁle"),
        "read file",
        "full width and ligatures"
    );
    assert_eq!(
        fold("rеаd the fіle"),
        "read the file",
        "Cyrillic inside Latin words"
    );
    assert_eq!(fold("déjà résumé"), "deja resume");
    assert_eq!(
        fold("re\u{200b}ad\u{ad} it"),
        "read it",
        "invisible characters"
    );
    assert_eq!(fold("don’t “quote”"), "don't \"quote\"");
    assert_eq!(
        fold("a\u{1b}[31mred\u{1b}[0m b"),
        "a red b",
        "terminal colours"
    );
    assert_eq!(
        fold("a\u{1b}[;;줍 b\u{1b}[3\u{1b}[1mc"),
        "a 줍 b c",
        "sequences that are broken off"
    );
}

#[test]
fn words_in_one_script_stay() {
    assert_eq!(fold("Привет, мир"), "привет, мир");
    assert_eq!(fold("委員会は月曜日"), "委員会は月曜日");
}

#[test]
fn paragraphs_and_items_separate_sentences_and_wrapped_lines_do_not() {
    assert_eq!(fold("one\ntwo"), "one two");
    assert_eq!(fold("one\n\ntwo"), "one\ntwo");
    assert_eq!(fold("one\n- two\n- three"), "one\n- two\n- three");
    assert_eq!(
        fold("Args:\n  path: where\n  mode: how"),
        "args:\npath: where\nmode: how"
    );
}

#[test]
fn keys_are_split_into_words() {
    let mut subject = SubjectText::new();
    subject.push(PathId::ROOT, Part::Key, "systemPrompt_full");
    assert_eq!(subject.folded(), "system prompt full\u{1f}");
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
fn head_and_tail_of_a_long_value_are_kept() {
    let text = format!("head {} tail", "x ".repeat(VALUE_LIMIT));
    let mut subject = SubjectText::new();
    subject.push(PathId::ROOT, Part::Text, text.as_str());
    assert!(subject.truncated());
    assert!(subject.folded().len() <= VALUE_LIMIT + 2);
    assert!(subject.folded().starts_with("head") && subject.folded().contains("tail"));
    let mut whole = SubjectText::new();
    whole.push(PathId::ROOT, Part::Text, "y".repeat(VALUE_LIMIT));
    assert!(!whole.truncated(), "exactly at the limit");
}

#[test]
fn paths_name_every_step() {
    let mut subject = SubjectText::new();
    let schema = subject.child(PathId::ROOT, PathSegment::Key("inputSchema"));
    let all = subject.child(schema, PathSegment::Key("anyOf"));
    let second = subject.child(all, PathSegment::Index(1));
    let decoded = subject.child(second, PathSegment::Decoded("base64"));
    assert_eq!(subject.path(decoded), "inputSchema.anyOf[1]<base64>");
    assert_eq!(subject.path(PathId::ROOT), "");
}

proptest! {
    #[test]
    fn every_position_maps_back_into_the_original(text in "\\PC{0,80}") {
        let mut subject = SubjectText::new();
        subject.push(PathId::ROOT, Part::Text, "first piece");
        subject.push(PathId::ROOT, Part::Description, text.as_str());
        let pieces = subject.pieces().len();
        let piece = &subject.pieces()[pieces - 1];
        let mut last = 0;
        for at in piece.start..=piece.end {
            let (start, end) = subject.raw_range(piece, at, at);
            prop_assert!(start <= end && end <= piece.raw.len());
            prop_assert!(piece.raw.is_char_boundary(start) && piece.raw.is_char_boundary(end));
            prop_assert!(start >= last);
            last = start;
        }
    }

    #[test]
    fn ascii_words_map_back_to_themselves(before in "[a-z ]{0,20}", word in "[A-Z]{4,9}", after in "[ a-z\n]{0,20}") {
        let text = format!("{before} {word} {after}");
        let mut subject = SubjectText::new();
        subject.push(PathId::ROOT, Part::Text, text.as_str());
        let folded = word.to_lowercase();
        let at = subject.folded().find(&folded).unwrap();
        let piece = &subject.pieces()[0];
        let (start, end) = subject.raw_range(piece, at, at + folded.len());
        prop_assert_eq!(piece.raw.get(start..end).unwrap().to_lowercase(), folded);
    }
}

#[test]
fn memory_is_reused_and_nothing_else() {
    let mut subject = SubjectText::new();
    let path = subject.child(PathId::ROOT, PathSegment::Key("a"));
    subject.push(path, Part::Text, "LOUD words");
    let memory = subject.folded().as_ptr();
    let mut subject = subject.emptied();
    assert!(subject.pieces().is_empty() && subject.shaped().is_empty());
    subject.push(PathId::ROOT, Part::Text, "x");
    assert_eq!(subject.folded(), "x\u{1f}");
    assert_eq!(subject.folded().as_ptr(), memory);
    subject.push(PathId::ROOT, Part::Text, "x".repeat(VALUE_LIMIT));
    assert_eq!(subject.emptied().folded().len(), 0);
}
