//! gzip's frame around deflate.

use flate2::Decompress;

use super::step::{Failed, Step, inflated};

const HEADER_CHECKSUM: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;

/// One member of a gzip stream.
pub(super) struct Gzip {
    state: State,
    /// Parts of the header that are still to come.
    flags: u8,
    inflate: Decompress,
}

#[derive(Clone, Copy)]
enum State {
    /// The fixed part of the header, and how many of its bytes came.
    Fixed(u8),
    /// The length of the extra field, and how many of its bytes came.
    ExtraLength(u16, u8),
    /// Bytes to skip before the next part of the header.
    Skip(u16),
    /// A text that ends with a zero.
    Text,
    Data,
    /// The trailer, and how many of its bytes came.
    Trailer(u8),
}

impl Default for Gzip {
    fn default() -> Self {
        Self {
            state: State::Fixed(0),
            flags: 0,
            inflate: Decompress::new(false),
        }
    }
}

impl Gzip {
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Failed> {
        for (read, &byte) in input.iter().enumerate() {
            self.state = match self.state {
                State::Data => {
                    let mut step = inflated(&mut self.inflate, &input[read..], output)?;
                    step.read += read;
                    if std::mem::take(&mut step.is_over) {
                        self.state = State::Trailer(0);
                    }
                    return Ok(step);
                }
                State::Trailer(7) => {
                    return Ok(Step {
                        read: read + 1,
                        written: 0,
                        is_over: true,
                    });
                }
                State::Trailer(came) => State::Trailer(came + 1),
                header => self.header(header, byte)?,
            };
        }
        if input.is_empty() && matches!(self.state, State::Data) {
            // Output that found no room before.
            return inflated(&mut self.inflate, input, output);
        }
        Ok(Step {
            read: input.len(),
            ..Step::default()
        })
    }

    fn header(&mut self, state: State, byte: u8) -> Result<State, Failed> {
        Ok(match state {
            State::Fixed(came) => {
                let expected = [0x1f, 0x8b, 8].get(usize::from(came));
                if expected.is_some_and(|&expected| expected != byte) {
                    return Err(Failed);
                }
                if came == 3 {
                    self.flags = byte;
                }
                if came == 9 {
                    self.next()
                } else {
                    State::Fixed(came + 1)
                }
            }
            State::ExtraLength(length, 0) => State::ExtraLength(length | u16::from(byte), 1),
            State::ExtraLength(length, _) => match length | u16::from(byte) << 8 {
                0 => self.next(),
                length => State::Skip(length),
            },
            State::Skip(1) => self.next(),
            State::Skip(left) => State::Skip(left - 1),
            State::Text if byte == 0 => self.next(),
            other => other,
        })
    }

    /// The next part of the header, or the data.
    fn next(&mut self) -> State {
        let mut has = |flag: u8| {
            let has = self.flags & flag != 0;
            self.flags &= !flag;
            has
        };
        if has(EXTRA) {
            State::ExtraLength(0, 0)
        } else if has(NAME) || has(COMMENT) {
            State::Text
        } else if has(HEADER_CHECKSUM) {
            State::Skip(2)
        } else {
            State::Data
        }
    }
}
