use proptest::prelude::*;

use super::*;
use crate::http::head::{Method, Name};

fn read(decoder: &mut Decoder, block: &str) -> Head {
    let mut head = Head::default();
    decoder
        .read(&hex::decode(block).unwrap(), &mut head)
        .unwrap();
    head
}

/// The requests of RFC 7541, C.4.
const REQUESTS: [&str; 3] = [
    "828684418cf1e3c2e5f23a6ba0ab90f4ff",
    "828684be5886a8eb10649cbf",
    "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
];

#[test]
fn the_standards_own_requests() {
    let mut decoder = Decoder::new(100);
    for (block, path) in REQUESTS.into_iter().zip(["/", "/", "/index.html"]) {
        let head = read(&mut decoder, block);
        assert_eq!(head.method, Method::Get);
        assert_eq!(head.target.path.as_deref(), Some(path));
        assert_eq!(head.target.authority.as_deref(), Some("www.example.com"));
        assert!(!head.has_unknown_fields);
    }
}

#[test]
fn the_standards_own_responses_evict() {
    // C.6 with a table of 256 octets.
    let mut decoder = Decoder::new(100);
    decoder.table.resize(256);
    for (block, status) in [
        (
            "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
            302,
        ),
        ("4883640effc1c0bf", 307),
        (
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
            200,
        ),
    ] {
        assert_eq!(read(&mut decoder, block).status, status);
    }
}

#[test]
fn a_decoder_that_came_late_knows_what_came_since() {
    // Without the first request, the authority is unknown; what the third one adds is known.
    let mut decoder = Decoder::unknown(100);
    let head = read(&mut decoder, REQUESTS[1]);
    assert_eq!(head.target.path.as_deref(), Some("/"));
    assert_eq!(head.target.authority, None);
    assert!(head.has_unknown_fields);
    let head = read(&mut decoder, REQUESTS[2]);
    assert!(head.has_unknown_fields);
    // A literal with a known name, and then its index.
    let head = read(&mut decoder, "4103612e62");
    assert_eq!(head.target.authority.as_deref(), Some("a.b"));
    let head = read(&mut decoder, "be");
    assert_eq!(head.target.authority.as_deref(), Some("a.b"));
    assert!(!head.has_unknown_fields);
    // An emptied table contains nothing unknown.
    assert!(decoder.read(&[0x20, 0xbe], &mut Head::default()).is_err());
}

#[test]
fn what_is_wrong_is_refused_and_leaves_the_table_unknown() {
    for block in [
        "3f",           // a size that does not end: other decoders fall over it
        "80",           // index 0
        "be",           // an index that the table does not have
        "ffffffffff7f", // an index beyond all
        "4103",         // a string that is not there
        "8220",         // a size behind a field
        "3fe2ffffff01", // a size beyond the limit
    ] {
        let mut decoder = Decoder::new(100);
        let bytes = hex::decode(block).unwrap();
        assert_eq!(
            decoder.read(&bytes, &mut Head::default()),
            Err(Malformed),
            "{block}"
        );
        assert!(read(&mut decoder, "be").has_unknown_fields);
    }
}

#[test]
fn secrets_are_not_even_in_the_table() {
    let mut decoder = Decoder::new(100);
    // cookie: s, authorization: s, with indexing.
    let mut block = vec![0x60, 6];
    block.extend_from_slice(b"se-cre");
    block.extend_from_slice(&[0x57, 6]);
    block.extend_from_slice(b"se-cre");
    decoder.read(&block, &mut Head::default()).unwrap();
    let secret = format!("{:?}", b"se-cre".as_slice());
    let shown = format!("{decoder:?}");
    assert!(!shown.contains(secret.trim_matches(['[', ']'])), "{shown}");
}

#[test]
fn fields_without_end_are_counted_and_not_looked_at() {
    let mut decoder = Decoder::new(4);
    let mut head = Head::default();
    let mut block = vec![0x82; 1000];
    block.extend_from_slice(&[0x04, 1, b'x']);
    assert_eq!(decoder.read(&block, &mut head), Ok(true));
    assert_eq!(head.target.path, None);
}

proptest! {
    #[test]
    fn damage_never_panics(block in prop::collection::vec(any::<u8>(), 0..200), is_unknown in any::<bool>()) {
        let mut decoder = if is_unknown { Decoder::unknown(50) } else { Decoder::new(50) };
        for _ in 0..3 {
            let _ = decoder.read(&block, &mut Head::default());
        }
    }

    /// Compared with another decoder: the same fields, block after block, however they were encoded.
    #[test]
    fn another_decoder_reads_the_same(
        blocks in prop::collection::vec(
            prop::collection::vec((prop::sample::select(vec![
                ":authority", "mcp-session-id", "x-other", "cookie", "mcp-name", "content-type",
            ]), "[ -~]{0,40}", 0_u8..6), 0..12),
            1..12,
        ),
        size in 0_usize..300,
    ) {
        let mut other = loona_hpack::Decoder::new();
        let mut own = Decoder::new(1000);
        let mut table = 0;
        for (at, fields) in blocks.iter().enumerate() {
            let mut block = Vec::new();
            if at == 0 && !fields.is_empty() {
                put(&mut block, 0x20, 5, size);
            }
            for (name, value, form) in fields {
                // An index of the table, whatever is there, or a literal in one of four ways.
                if *form == 0 && table > 0 {
                    put(&mut block, 0x80, 7, FIXED_LENGTH + 1 + usize::from(name.len() > 8) % table);
                    continue;
                }
                let (first, bits) = [(0x40, 6), (0x00, 4), (0x10, 4), (0x40, 6)][usize::from(*form) % 4];
                put(&mut block, first, bits, 0);
                put(&mut block, 0, 7, name.len());
                block.extend_from_slice(name.as_bytes());
                put(&mut block, 0, 7, value.len());
                block.extend_from_slice(value.as_bytes());
            }
            let mut read = Vec::new();
            let ours = own.fields(&block, &mut |name, value| {
                read.push((name, match name { KnownName::Wanted(_) => value.to_vec(), _ => Vec::new() }));
            });
            let theirs = other.decode(&block);
            prop_assert_eq!(ours.is_some(), theirs.is_ok());
            let Ok(theirs) = theirs else { break };
            let expected: Vec<_> = theirs.into_iter().map(|(name, value)| {
                let name = KnownName::of(&name);
                (name, match name { KnownName::Wanted(_) => value, _ => Vec::new() })
            }).collect();
            prop_assert_eq!(read, expected);
            table = own.table.known();
        }
    }

    /// A Huffman-coded string is the same to another decoder.
    #[test]
    fn the_code_is_that_of_another_decoder(text in prop::collection::vec(any::<u8>(), 0..60)) {
        let coded = huffman::encode(&text);
        let mut block = vec![0x00, 1, b'x'];
        put(&mut block, 0x80, 7, coded.len());
        block.extend_from_slice(&coded);
        let theirs = loona_hpack::Decoder::new().decode(&block);
        prop_assert_eq!(theirs.unwrap(), vec![(b"x".to_vec(), text.clone())]);
        let mut value = Vec::new();
        prop_assert!(Decoder::new(9).fields(&block, &mut |_, read| value = read.to_vec()).is_some());
        prop_assert_eq!(value, text);
    }
}

fn put(block: &mut Vec<u8>, first: u8, bits: u32, value: usize) {
    let mask = (1_usize << bits) - 1;
    if value < mask {
        block.push(first | u8::try_from(value).unwrap());
        return;
    }
    block.push(first | u8::try_from(mask).unwrap());
    let mut rest = value - mask;
    while rest >= 128 {
        block.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    block.push(u8::try_from(rest).unwrap());
}

#[test]
fn names_of_the_fixed_table_are_those_that_are_looked_at() {
    let wanted: Vec<Name> = (1..=FIXED_LENGTH)
        .filter_map(|index| Name::of(fixed(index).unwrap().0.as_bytes()))
        .collect();
    assert_eq!(wanted.len(), 18);
    assert_eq!(fixed(0), None);
    assert_eq!(fixed(62), None);
}
