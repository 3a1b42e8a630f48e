//! The chunked transfer coding (RFC 9112, 7.1).
//!
//! Most request smuggling happens here, so nothing is tolerated that another reader may take for something
//! else: sizes are hexadecimal digits, and lines end in a carriage return and a line feed.

/// The most digits of a size. Real sizes have no more.
const MAX_DIGITS: u8 = 15;

/// The most bytes of a chunk's extension, and of all trailers together.
const MAX_ASIDE: u32 = 8 << 10;

/// A size, an end or an extension is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Malformed;

/// A body in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    state: State,
    /// Bytes of the extension or the trailers so far.
    aside: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size {
        value: u64,
        digits: u8,
    },
    Extension {
        size: u64,
    },
    /// After the carriage return that ends a size.
    SizeEnd {
        size: u64,
    },
    Data {
        left: u64,
    },
    /// After a chunk's data.
    Return,
    Feed,
    /// At the start of a trailer, or of the blank line after them.
    Trailers,
    Trailer,
    TrailerEnd,
    LastFeed,
}

impl Default for Chunks {
    fn default() -> Self {
        Self {
            state: State::Size {
                value: 0,
                digits: 0,
            },
            aside: 0,
        }
    }
}

impl Chunks {
    /// The bytes of data that come before anything else.
    pub(super) fn left(&self) -> u64 {
        match self.state {
            State::Data { left } => left,
            _ => 0,
        }
    }

    /// Skips bytes of data, at most [`Chunks::left`].
    pub(super) fn skip(&mut self, bytes: u64) {
        if let State::Data { left } = &mut self.state {
            *left -= bytes.min(*left);
            if *left == 0 {
                self.state = State::Return;
            }
        }
    }

    /// Takes in the next bytes, at least one. Returns how many, and whether the body is over; or how many came
    /// before the wrong one. `data` receives data and where it starts among the bytes.
    pub(super) fn step(
        &mut self,
        bytes: &[u8],
        data: &mut dyn FnMut(&[u8], usize),
    ) -> Result<(usize, bool), usize> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if let State::Data { left } = self.state {
                let rest = &bytes[at..];
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                data(&rest[..taken], at);
                self.skip(taken as u64);
                at += taken;
                continue;
            }
            at += 1;
            if self.state == State::LastFeed {
                return if byte == b'\n' {
                    Ok((at, true))
                } else {
                    Err(at - 1)
                };
            }
            self.state = self.after(byte).map_err(|Malformed| at - 1)?;
        }
        Ok((at, false))
    }

    /// The state after a byte that is not data.
    fn after(&mut self, byte: u8) -> Result<State, Malformed> {
        Ok(match (self.state, byte) {
            (State::Size { value, digits }, byte) => match char::from(byte).to_digit(16) {
                Some(digit) if digits < MAX_DIGITS => State::Size {
                    value: value << 4 | u64::from(digit),
                    digits: digits + 1,
                },
                _ if digits == 0 => return Err(Malformed),
                None if byte == b'\r' => State::SizeEnd { size: value },
                None if byte == b';' => State::Extension { size: value },
                _ => return Err(Malformed),
            },
            (State::Extension { size }, b'\r') => State::SizeEnd { size },
            (State::Extension { .. } | State::Trailer, byte) if byte != b'\n' && byte != b'\r' => {
                self.aside += 1;
                if self.aside > MAX_ASIDE {
                    return Err(Malformed);
                }
                self.state
            }
            (State::SizeEnd { size: 0 }, b'\n') => State::Trailers,
            (State::SizeEnd { size }, b'\n') => {
                self.aside = 0;
                State::Data { left: size }
            }
            (State::Return, b'\r') => State::Feed,
            (State::Feed, b'\n') => State::Size {
                value: 0,
                digits: 0,
            },
            (State::Trailers, b'\r') => State::LastFeed,
            (State::Trailers, byte) if byte != b'\n' => State::Trailer,
            (State::Trailer, b'\r') => State::TrailerEnd,
            (State::TrailerEnd, b'\n') => State::Trailers,
            _ => return Err(Malformed),
        })
    }
}
