//! Texts of messages, compressed together.
//!
//! A message of a few hundred bytes hardly compresses on its own. What a session says within a moment is
//! similar, so the texts of one session that are written together become one block; and a block of a single
//! message begins with a dictionary that knows what MCP looks like. Reading a message takes decompressing its
//! block, so blocks stay small, except for a single large message.

use std::io::{self, Read as _};

/// A block is full when its texts reach this many bytes.
pub(super) const FULL: usize = 64 << 10;

/// zstd's level: three is its default, and fast.
const LEVEL: i32 = 3;

/// The dictionary's number in the store. A dictionary must never change: a new one gets a new number.
const DICTIONARY: i64 = 1;

/// What MCP looks like: what messages have in common, the most frequent last.
const COMMON_TEXT: &[u8] = include_bytes!("dictionary_1.txt");

/// Texts larger than this gain nothing from a dictionary.
const DICTIONARY_BELOW: usize = 16 << 10;

/// A compressed block.
#[derive(Debug)]
pub(super) struct Compressed {
    pub(super) dictionary: i64,
    pub(super) data: Vec<u8>,
}

/// Compresses blocks.
pub(super) struct Compressor {
    plain: zstd::bulk::Compressor<'static>,
    with_dictionary: zstd::bulk::Compressor<'static>,
}

impl Compressor {
    /// # Errors
    /// No memory.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            plain: zstd::bulk::Compressor::new(LEVEL)?,
            with_dictionary: zstd::bulk::Compressor::with_dictionary(LEVEL, COMMON_TEXT)?,
        })
    }

    /// # Errors
    /// No memory.
    pub(super) fn compress(&mut self, text: &[u8]) -> io::Result<Compressed> {
        let (dictionary, compressor) = match text.len() < DICTIONARY_BELOW {
            true => (DICTIONARY, &mut self.with_dictionary),
            false => (0, &mut self.plain),
        };
        let data = compressor.compress(text)?;
        Ok(Compressed { dictionary, data })
    }
}

/// The text of a block of `size` bytes.
///
/// # Errors
/// The block is damaged.
pub(super) fn decompress(data: &[u8], dictionary: i64, size: usize) -> io::Result<Vec<u8>> {
    let known: &[u8] = match dictionary {
        0 => &[],
        DICTIONARY => COMMON_TEXT,
        _ => {
            return Err(io::Error::other("a block has an unknown dictionary"));
        }
    };
    // As a stream: a damaged size must not decide how much memory is allocated at once.
    let mut text = Vec::new();
    let reader = zstd::stream::read::Decoder::with_dictionary(data, known)?;
    reader.take(size as u64 + 1).read_to_end(&mut text)?;
    if text.len() != size {
        return Err(io::Error::other(
            "the size of a block does not match its header",
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_and_small_messages_shrink() {
        let mut compressor = Compressor::new().unwrap();
        let small = br#"{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"list_directory","arguments":{"path":"/srv/data/reports"}}}"#;
        for text in [&small[..], &small.repeat(1000), b"", &[0xff; 100]] {
            let Compressed { dictionary, data } = compressor.compress(text).unwrap();
            assert_eq!(decompress(&data, dictionary, text.len()).unwrap(), text);
            assert!(decompress(&data, dictionary, text.len() + 1).is_err());
            assert!(decompress(&data, 7, text.len()).is_err());
        }
        let compressed = compressor.compress(small).unwrap().data;
        assert!(compressed.len() * 2 < small.len(), "{}", compressed.len());
    }

    /// What was written with it can be read forever.
    #[test]
    fn the_dictionary_never_changes() {
        use sha2::Digest as _;
        let hash = hex::encode(sha2::Sha256::digest(COMMON_TEXT));
        assert_eq!(
            hash,
            include_str!("dictionary_1.sha256").trim(),
            "a changed dictionary needs a number of its own"
        );
    }
}
