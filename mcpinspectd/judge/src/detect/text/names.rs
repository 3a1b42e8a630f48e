//! Names of tools as people read them.
//!
//! Clients distinguish tools by name alone, so a name is what an impostor imitates. This file answers
//! when two names look the same, when one is a variant of the other, and when two servers that share a
//! name hardly do so by chance.

use super::subject_text::fold;
use crate::detect::words::WORDS;

/// Longest name to compare, in bytes.
const NAME_LIMIT: usize = 96;

/// A name in lower case, of bounded length.
pub(in crate::detect) fn folded(name: &str) -> Box<str> {
    mcpinspect_core::text::bound(name, NAME_LIMIT)
        .to_lowercase()
        .into()
}

/// What is left of a name without case, separators and look-alikes.
pub(in crate::detect) fn skeleton(name: &str) -> String {
    // For most names this is all that folding does.
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_graphic() || byte == b' ');
    let folded = match plain {
        true => name.to_ascii_lowercase(),
        false => fold(name),
    };
    folded
        .chars()
        .filter(|c| c.is_alphanumeric())
        .map(|c| match c {
            '0' => 'o',
            '1' | 'i' => 'l',
            '5' => 's',
            '3' => 'e',
            _ => c,
        })
        .collect()
}

/// The words of a name in any of the usual spellings, in lower case; at most 16.
pub(in crate::detect) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut lower = false;
    for c in name.chars().take(96) {
        if !c.is_alphanumeric() || (c.is_uppercase() && lower) {
            words.push(String::new());
        }
        lower = c.is_lowercase();
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words.truncate(16);
    words
}

/// Whether two names are the same words in different spellings: `read_file`, `readFile`, `read-file`.
pub(in crate::detect) fn same_words(a: &str, b: &str) -> bool {
    let letters = |name: &str| {
        name.chars()
            .filter(|c| c.is_alphanumeric())
            .collect::<String>()
    };
    letters(a) == letters(b)
}

/// The words of a name without an affix such as `v2` or `secure`, separated by blanks; `None` if the
/// name has none.
pub(in crate::detect) fn without_affix(name: &str) -> Option<String> {
    let words: Vec<&str> = name
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let affixes = &WORDS.tool_names.affixes;
    let rest = match words.as_slice() {
        [rest @ .., last] if !rest.is_empty() && affixes.contains(*last) => rest,
        [first, rest @ ..] if !rest.is_empty() && affixes.contains(*first) => rest,
        [only] => {
            let stem = only.trim_end_matches(|c: char| c.is_ascii_digit());
            let stem = stem.strip_suffix('v').unwrap_or(stem);
            return (stem.len() >= 4 && stem.len() < only.len()).then(|| stem.to_owned());
        }
        _ => return None,
    };
    Some(rest.join(" "))
}

/// Whether two servers are unlikely to choose this name by chance.
pub(in crate::detect) fn distinctive(name: &str) -> bool {
    let mut words = 0;
    let mut rare = 0;
    for word in name
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        words += 1;
        rare += usize::from(!WORDS.tool_names.common.contains(word));
    }
    (rare >= 1 && words >= 2) || words >= 4
}

/// Whether two skeletons differ in one letter other than a plural's `s`.
pub(in crate::detect) fn near(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if short.len() < 5
        || long.len() - short.len() > 1
        || long.strip_suffix('s') == Some(short)
        || short == long
    {
        return false;
    }
    let (short, long) = (short.as_bytes(), long.as_bytes());
    let front = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let back = short
        .iter()
        .rev()
        .zip(long.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let transposed = short.len() == long.len()
        && front + 2 + back == short.len()
        && short[front] == long[front + 1]
        && short[front + 1] == long[front];
    transposed || front + back + 1 >= long.len()
}

/// Whether two names differ in a long word that few tools are named after. `lists` and `gists` are two
/// words; `weahter` is a misspelt one.
pub(in crate::detect) fn rare_word_changed(a: &str, b: &str) -> bool {
    let words = |name: &str| {
        name.split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (a, b) = (words(a), words(b));
    let common = &WORDS.tool_names.common;
    a.len() != b.len()
        || a.iter()
            .zip(&b)
            .any(|(a, b)| a != b && a.len().min(b.len()) >= 5 && !common.contains(a.as_str()))
}

/// Keys under which a skeleton is found by those that differ from it in one letter: wherever that letter
/// is, one half is the same.
pub(in crate::detect) fn halves(skeleton: &str, of_length: usize) -> [(bool, u32); 2] {
    let bytes = skeleton.as_bytes();
    let half = (of_length / 2).min(bytes.len());
    let rest = (of_length - of_length / 2).min(bytes.len());
    [
        (true, hash_bytes(&bytes[..half])),
        (false, hash_bytes(&bytes[bytes.len() - rest..])),
    ]
}

/// FNV-1a: fast, and the same on every machine.
pub(in crate::detect) fn hash_bytes(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}
