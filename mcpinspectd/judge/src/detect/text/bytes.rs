//! The bytes of a text by class, and the runs of them that folding skips.
//!
//! Most of any text is lower-case ASCII words with single spaces between them, which fold to
//! themselves. Finding the end of such a run with a table costs far less than folding byte by byte.

/// What folding does with a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteClass {
    Lower,
    Upper,
    Digit,
    Blank,
    Control,
    Other,
    Wide,
}

/// The class of each byte.
pub(super) static BYTE_CLASS: [ByteClass; 256] = {
    let mut table = [ByteClass::Other; 256];
    let mut byte = 0usize;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'a'..=b'z' => ByteClass::Lower,
            b'A'..=b'Z' => ByteClass::Upper,
            b'0'..=b'9' => ByteClass::Digit,
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => ByteClass::Blank,
            0..=0x1f | 0x7f => ByteClass::Control,
            0x80.. => ByteClass::Wide,
            _ => ByteClass::Other,
        };
        byte += 1;
    }
    table
};

/// The end of the run from `from` on that folds to itself: words without capitals, separated by
/// punctuation and single spaces. It ends between words.
pub(super) fn foldless_run_end(bytes: &[u8], from: usize, to: usize, identifier: bool) -> usize {
    let mut words = from;
    for (at, byte) in bytes[..to].iter().enumerate().skip(from) {
        match BYTE_CLASS[*byte as usize] {
            ByteClass::Lower | ByteClass::Digit => {}
            ByteClass::Other if !identifier => words = at + 1,
            ByteClass::Blank
                if *byte == b' '
                    && at > from
                    && bytes.get(at + 1).is_some_and(u8::is_ascii_graphic) =>
            {
                words = at + 1;
            }
            ByteClass::Blank | ByteClass::Control | ByteClass::Other => return at,
            ByteClass::Upper | ByteClass::Wide => return words,
        }
    }
    to
}

/// The position after the control character at `at`, or after the terminal sequence that it starts (ECMA-48, 5.4).
/// What breaks a sequence off is not part of it.
pub(super) fn skip_control(bytes: &[u8], at: usize, to: usize) -> usize {
    if bytes[at] != 0x1b || bytes.get(at + 1) != Some(&b'[') {
        return at + 1;
    }
    let limit = to.min(at + 34);
    match (at + 2..limit).find(|index| !matches!(bytes[*index], 0x20..=0x3f)) {
        Some(end) if matches!(bytes[end], 0x40..=0x7e) => end + 1,
        end => end.unwrap_or(limit),
    }
}

/// Whether a line that starts like this is a new item, and not the rest of a wrapped sentence.
pub(super) fn opens_item(line: &[u8]) -> bool {
    match line.first() {
        Some(b'-' | b'*' | b'#' | b'<' | b'@' | b'|' | b'>' | b'{' | b'}' | b'[') => true,
        Some(b'0'..=b'9') => {
            let digits = line
                .iter()
                .take(4)
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            matches!(line.get(digits), Some(b'.' | b')'))
        }
        Some(first) if first.is_ascii_alphabetic() => {
            let name = line
                .iter()
                .take(40)
                .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
                .count();
            matches!(line.get(name), Some(b':'))
                || (line.get(name) == Some(&b' ') && line.get(name + 1) == Some(&b'('))
        }
        Some(0xe2) => true,
        _ => false,
    }
}
