//! Decompresses bodies piece by piece.
//!
//! A few bytes may become gigabytes, so output is handed over in pieces of a fixed size, and the receiver
//! says when it has enough. Checking the checksum at the end of a body is up to the real recipient.

mod gzip;
mod step;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::Decompress;

use self::gzip::Gzip;
pub use self::step::Failed;
use self::step::{Step, inflated};
use super::head::Coding;

/// Output is handed over in pieces of at most this many bytes.
const PIECE: usize = 16 << 10;

/// The window of deflate (RFC 1951, 2).
const DEFLATE_WINDOW: usize = 32 << 10;

/// The largest window of zstd, as a power of two: the 8 MiB that HTTP allows.
const ZSTD_WINDOW: u32 = 23;

/// Decompresses one body.
pub struct Decompressor {
    format: Format,
    is_over: bool,
    /// Bytes of output so far.
    made: u64,
}

enum Format {
    Gzip(Box<Gzip>),
    /// What HTTP calls deflate is zlib, but some senders omit zlib's frame. The first byte tells.
    Deflate(Option<Box<Decompress>>),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(Box<zstd::stream::raw::Decoder<'static>>),
}

impl Decompressor {
    /// A decompressor for a coding; `None` for an unknown one, and for none at all.
    pub fn new(coding: Coding) -> Option<Self> {
        let format = match coding {
            Coding::Identity | Coding::Unknown => return None,
            Coding::Gzip => Format::Gzip(Box::default()),
            Coding::Deflate => Format::Deflate(None),
            Coding::Brotli => {
                let allocator = StandardAlloc::default;
                let state = BrotliState::new(allocator(), allocator(), allocator());
                Format::Brotli(Box::new(state))
            }
            Coding::Zstd => {
                let mut decoder = zstd::stream::raw::Decoder::new().ok()?;
                let window = zstd::zstd_safe::DParameter::WindowLogMax(ZSTD_WINDOW);
                decoder.set_parameter(window).ok()?;
                Format::Zstd(Box::new(decoder))
            }
        };
        Some(Self {
            format,
            is_over: false,
            made: 0,
        })
    }

    /// Decompresses the body's next bytes, and hands over the result. `take` returns false when it
    /// has enough.
    ///
    /// # Errors
    /// `take` had enough, the bytes are damaged, or something follows their end.
    pub fn push(
        &mut self,
        mut input: &[u8],
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Failed> {
        let mut piece = [0; PIECE];
        loop {
            if self.is_over {
                // Some readers continue with what follows, and others do not.
                return if input.is_empty() {
                    Ok(())
                } else {
                    Err(Failed)
                };
            }
            let step = self.format.step(input, &mut piece)?;
            input = &input[step.read..];
            self.is_over = step.is_over;
            self.made += step.written as u64;
            if step.written > 0 && !take(&piece[..step.written]) {
                return Err(Failed);
            }
            if input.is_empty() && step.written < piece.len() {
                return Ok(());
            }
            if step.read == 0 && step.written == 0 && !step.is_over {
                return Err(Failed);
            }
        }
    }

    /// The memory it takes in bytes: the part of its window that has been written to.
    pub fn memory(&self) -> usize {
        let made = usize::try_from(self.made).unwrap_or(usize::MAX);
        made.min(self.format.window())
    }

    /// Whether the end of the compressed data was seen.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Format {
    /// How many bytes of output it remembers, at most.
    fn window(&self) -> usize {
        match self {
            Self::Gzip(_) | Self::Deflate(_) => DEFLATE_WINDOW,
            Self::Brotli(state) => usize::try_from(state.ringbuffer_size).unwrap_or(0),
            Self::Zstd(_) => 1 << ZSTD_WINDOW,
        }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Failed> {
        match self {
            Self::Gzip(gzip) => gzip.step(input, output),
            Self::Deflate(inflate) => {
                if let (None, Some(&first)) = (&inflate, input.first()) {
                    let has_frame = first & 0x0f == 8 && first >> 4 <= 7;
                    *inflate = Some(Box::new(Decompress::new(has_frame)));
                }
                match inflate {
                    Some(inflate) => inflated(inflate, input, output),
                    None => Ok(Step::default()),
                }
            }
            Self::Brotli(state) => {
                let (mut left, mut read) = (input.len(), 0);
                let (mut room, mut written, mut total) = (output.len(), 0, 0);
                let result = BrotliDecompressStream(
                    &mut left,
                    &mut read,
                    input,
                    &mut room,
                    &mut written,
                    output,
                    &mut total,
                    state,
                );
                if matches!(result, BrotliResult::ResultFailure) {
                    return Err(Failed);
                }
                Ok(Step {
                    read,
                    written,
                    is_over: matches!(result, BrotliResult::ResultSuccess),
                })
            }
            Self::Zstd(decoder) => {
                use zstd::stream::raw::Operation as _;

                let status = decoder.run_on_buffers(input, output).map_err(|_| Failed)?;
                Ok(Step {
                    read: status.bytes_read,
                    written: status.bytes_written,
                    is_over: status.remaining == 0,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use proptest::prelude::*;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn deflate(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn decompress(coding: Coding, chunks: &[&[u8]]) -> Result<(Vec<u8>, bool), Failed> {
        let mut decompressor = Decompressor::new(coding).unwrap();
        let mut out = Vec::new();
        for chunk in chunks {
            decompressor.push(chunk, |bytes| {
                out.extend_from_slice(bytes);
                true
            })?;
        }
        Ok((out, decompressor.is_over()))
    }

    /// `hello\n` by the reference encoder.
    const BROTLI: &[u8] = b"\x8b\x02\x80hello\n\x03";

    #[test]
    fn every_coding_comes_back_at_any_cut() {
        let text = br#"{"jsonrpc":"2.0","id":1,"result":{}}"#.repeat(50);
        let samples = vec![
            (Coding::Gzip, gzip(&text), text.clone()),
            (Coding::Deflate, zlib(&text), text.clone()),
            (Coding::Deflate, deflate(&text), text.clone()),
            (Coding::Brotli, BROTLI.to_vec(), b"hello\n".to_vec()),
            (Coding::Zstd, zstd::encode_all(&text[..], 3).unwrap(), text),
        ];
        for (coding, compressed, text) in samples {
            for cut in 0..=compressed.len() {
                let (one, other) = compressed.split_at(cut);
                let whole = Ok((text.clone(), true));
                assert_eq!(
                    decompress(coding, &[one, other]),
                    whole,
                    "{coding:?} at {cut}"
                );
            }
            let bytes: Vec<&[u8]> = compressed.chunks(1).collect();
            assert_eq!(decompress(coding, &bytes), Ok((text, true)), "{coding:?}");
        }
    }

    #[test]
    fn what_follows_the_end_is_not_guessed_at() {
        let mut twice = gzip(b"one");
        twice.extend(gzip(b"two"));
        assert_eq!(decompress(Coding::Gzip, &[&twice]), Err(Failed));
        assert!(Decompressor::new(Coding::Unknown).is_none());
    }

    #[test]
    fn a_bomb_is_stopped_where_it_is_enough() {
        let bomb = gzip(&vec![0; 64 << 20]);
        assert!(bomb.len() < 400 << 10);
        let mut decompressor = Decompressor::new(Coding::Gzip).unwrap();
        let mut taken = 0;
        let result = decompressor.push(&bomb, |bytes| {
            taken += bytes.len();
            taken < 1 << 20
        });
        assert_eq!(result, Err(Failed));
        assert!(taken <= (1 << 20) + PIECE);
    }

    proptest! {
        #[test]
        fn damage_never_panics(
            mut bytes in prop::collection::vec(any::<u8>(), 0..300),
            coding in prop::sample::select(vec![Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd]),
            has_start in any::<bool>(),
        ) {
            if has_start {
                let start = gzip(b"some text to begin with");
                bytes.splice(0..0, start[..start.len() - 12].iter().copied());
            }
            if let Some(mut decompressor) = Decompressor::new(coding) {
                let _ = decompressor.push(&bytes, |_| true);
            }
        }
    }
}
