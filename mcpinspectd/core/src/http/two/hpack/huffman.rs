//! The Huffman code of HPACK (RFC 7541, appendix B).
//!
//! The code is canonical: codes of one length follow each other in the order of their symbols, and
//! begin where those of the previous length end. So the lengths define it completely.

/// The length of each octet's code in bits.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11,
    10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8,
    15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5,
    6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23,
    23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21,
    23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25,
    26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26,
    28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The longest code of an octet, in bits. Only the end-of-string symbol, which is not an octet, has one as long.
const LONGEST: usize = 30;

/// How the codes of one length are laid out.
#[derive(Clone, Copy)]
struct Row {
    /// The first code.
    first: u32,
    /// How many there are.
    count: u32,
    /// Where their symbols start in [`SYMBOLS`].
    at: usize,
}

/// By length.
static ROWS: [Row; LONGEST + 1] = layout().0;

/// Octets in the order of their codes.
static SYMBOLS: [u8; 256] = layout().1;

const fn layout() -> ([Row; LONGEST + 1], [u8; 256]) {
    let mut rows = [Row {
        first: 0,
        count: 0,
        at: 0,
    }; LONGEST + 1];
    let mut symbols = [0; 256];
    let (mut code, mut at, mut length) = (0_u32, 0, 1);
    while length <= LONGEST {
        code <<= 1;
        rows[length].first = code;
        rows[length].at = at;
        let mut symbol = 0_u8;
        loop {
            if LENGTHS[symbol as usize] as usize == length {
                symbols[at] = symbol;
                at += 1;
                code += 1;
                rows[length].count += 1;
            }
            if symbol == 255 {
                break;
            }
            symbol += 1;
        }
        length += 1;
    }
    (rows, symbols)
}

/// Decodes a string and hands over its octets. `None` if it is wrong: it contains the end-of-string
/// symbol, or ends in anything but the beginning of that.
pub(super) fn decode(bytes: &[u8], mut octet: impl FnMut(u8)) -> Option<()> {
    let (mut bits, mut count) = (0_u64, 0_usize);
    for &byte in bytes {
        bits = bits << 8 | u64::from(byte);
        count += 8;
        while let Some((symbol, length)) = first_code(bits, count) {
            octet(symbol);
            count -= length;
            bits &= (1 << count) - 1;
        }
        if count > LONGEST {
            return None;
        }
    }
    // The rest must be shorter than an octet, and all ones.
    (count < 8 && bits == (1 << count) - 1).then_some(())
}

/// The symbol whose code is the first of `count` bits, and the code's length.
fn first_code(bits: u64, count: usize) -> Option<(u8, usize)> {
    // No code is shorter than five bits.
    for (length, row) in ROWS.iter().enumerate().take(count + 1).skip(5) {
        let code = u32::try_from(bits >> (count - length)).ok()?;
        if code.wrapping_sub(row.first) < row.count {
            let index = row.at + usize::try_from(code - row.first).ok()?;
            return Some((SYMBOLS[index], length));
        }
    }
    None
}

/// Encodes a string.
#[cfg(test)]
pub(super) fn encode(bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut bits, mut count) = (Vec::new(), 0_u64, 0_u32);
    for &byte in bytes {
        let length = LENGTHS[usize::from(byte)];
        let row = ROWS[usize::from(length)];
        let same = &SYMBOLS[row.at..];
        let place = same.iter().position(|&symbol| symbol == byte);
        let code = u64::from(row.first) + place.unwrap_or(0) as u64;
        bits = bits << length | code;
        count += u32::from(length);
        while count >= 8 {
            count -= 8;
            out.push((bits >> count).to_le_bytes()[0]);
        }
    }
    if count > 0 {
        let padded = bits << (8 - count) | ((1 << (8 - count)) - 1);
        out.push(padded.to_le_bytes()[0]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(bytes, |octet| out.push(octet))?;
        Some(out)
    }

    #[test]
    fn the_standards_own_examples() {
        for (text, code) in [
            ("www.example.com", "f1e3c2e5f23a6ba0ab90f4ff"),
            ("no-cache", "a8eb10649cbf"),
            ("custom-value", "25a849e95bb8e8b4bf"),
            (
                "Mon, 21 Oct 2013 20:13:21 GMT",
                "d07abe941054d444a8200595040b8166e082a62d1bff",
            ),
            ("", ""),
        ] {
            let code = hex::decode(code).unwrap();
            assert_eq!(decoded(&code).as_deref(), Some(text.as_bytes()));
        }
    }

    #[test]
    fn what_is_wrong_is_refused() {
        // Padding of a whole octet, of zeros, and the end-of-string symbol.
        assert_eq!(decoded(&[0xff]), None);
        assert_eq!(decoded(&[0b0000_0000]), None);
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfc]), None);
    }
}
