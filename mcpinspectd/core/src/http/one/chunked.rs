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
    place: Place,
    /// Bytes of the extension or the trailers so far.
    aside: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
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
            place: Place::Size {
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
        match self.place {
            Place::Data { left } => left,
            _ => 0,
        }
    }

    /// Skips bytes of data, at most [`Chunks::left`].
    pub(super) fn skip(&mut self, bytes: u64) {
        if let Place::Data { left } = &mut self.place {
            *left -= bytes.min(*left);
            if *left == 0 {
                self.place = Place::Return;
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
            if let Place::Data { left } = self.place {
                let rest = &bytes[at..];
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                data(&rest[..taken], at);
                self.skip(taken as u64);
                at += taken;
                continue;
            }
            at += 1;
            if self.place == Place::LastFeed {
                return if byte == b'\n' {
                    Ok((at, true))
                } else {
                    Err(at - 1)
                };
            }
            self.place = self.after(byte).map_err(|Malformed| at - 1)?;
        }
        Ok((at, false))
    }

    /// The place after a byte that is not data.
    fn after(&mut self, byte: u8) -> Result<Place, Malformed> {
        Ok(match (self.place, byte) {
            (Place::Size { value, digits }, byte) => match char::from(byte).to_digit(16) {
                Some(digit) if digits < MAX_DIGITS => Place::Size {
                    value: value << 4 | u64::from(digit),
                    digits: digits + 1,
                },
                _ if digits == 0 => return Err(Malformed),
                None if byte == b'\r' => Place::SizeEnd { size: value },
                None if byte == b';' => Place::Extension { size: value },
                _ => return Err(Malformed),
            },
            (Place::Extension { size }, b'\r') => Place::SizeEnd { size },
            (Place::Extension { .. } | Place::Trailer, byte) if byte != b'\n' && byte != b'\r' => {
                self.aside += 1;
                if self.aside > MAX_ASIDE {
                    return Err(Malformed);
                }
                self.place
            }
            (Place::SizeEnd { size: 0 }, b'\n') => Place::Trailers,
            (Place::SizeEnd { size }, b'\n') => {
                self.aside = 0;
                Place::Data { left: size }
            }
            (Place::Return, b'\r') => Place::Feed,
            (Place::Feed, b'\n') => Place::Size {
                value: 0,
                digits: 0,
            },
            (Place::Trailers, b'\r') => Place::LastFeed,
            (Place::Trailers, byte) if byte != b'\n' => Place::Trailer,
            (Place::Trailer, b'\r') => Place::TrailerEnd,
            (Place::TrailerEnd, b'\n') => Place::Trailers,
            _ => return Err(Malformed),
        })
    }
}
