//! The tables of HPACK: the fixed one, and the one that grows and shrinks with a connection.

use std::collections::VecDeque;

use crate::http::head::Name;

/// What an entry takes besides its name and value (RFC 7541, 4.1).
const OVERHEAD: usize = 32;

/// A field, and whether it is relevant. If not, none of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: KnownName,
    pub(super) value: Box<[u8]>,
}

/// What is known of a field's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownName {
    /// It is relevant.
    Wanted(Name),
    /// It is not.
    Other,
    /// It was sent before the connection was seen, or in lost bytes.
    Unknown,
}

impl KnownName {
    pub(super) fn of(name: &[u8]) -> Self {
        Name::of(name).map_or(Self::Other, Self::Wanted)
    }
}

/// The table that both ends of a connection keep for one direction.
#[derive(Debug)]
pub(super) struct Table {
    /// The newest first, each with its length besides the overhead and the length of its name.
    entries: VecDeque<Entry>,
    size: usize,
    max: usize,
    /// Unknown entries come after the known ones, however many there may be.
    has_unknown: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) field: Field,
    /// Bytes of its name.
    pub(super) name_bytes: usize,
    size: usize,
}

impl Table {
    /// The table of a new connection.
    pub(super) fn new(max: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            size: 0,
            max,
            has_unknown: false,
        }
    }

    /// The table of a connection whose beginning is unknown.
    pub(super) fn unknown(max: usize) -> Self {
        Self {
            has_unknown: true,
            ..Self::new(max)
        }
    }

    /// The memory it takes in bytes, at most.
    pub(super) fn memory(&self) -> usize {
        self.size + self.entries.capacity() * size_of::<Entry>()
    }

    /// The entry at an index, from 0.
    pub(super) fn get(&self, index: usize) -> Option<Lookup<'_>> {
        match self.entries.get(index) {
            Some(entry) => Some(Lookup::Known(entry)),
            None => self.has_unknown.then_some(Lookup::Unknown),
        }
    }

    /// How many entries are known.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.entries.len()
    }

    /// Adds an entry, and drops the oldest until it fits. One that is larger than the table empties it.
    pub(super) fn add(&mut self, field: Field, name_bytes: usize, value_bytes: usize) {
        let size = name_bytes + value_bytes + OVERHEAD;
        self.size += size;
        self.entries.push_front(Entry {
            field,
            name_bytes,
            size,
        });
        self.shrink();
    }

    /// Changes its maximum size.
    pub(super) fn resize(&mut self, max: usize) {
        self.max = max;
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.size > self.max
            && let Some(oldest) = self.entries.pop_back()
        {
            // What is older is gone at the other ends too.
            self.has_unknown = false;
            self.size -= oldest.size;
        }
        if self.max < OVERHEAD {
            self.has_unknown = false;
        }
    }
}

/// What a table has at an index.
pub(super) enum Lookup<'a> {
    Known(&'a Entry),
    Unknown,
}

/// The field at an index of the fixed table, from 1.
pub(super) fn fixed(index: usize) -> Option<(&'static str, &'static str)> {
    FIXED.get(index.checked_sub(1)?).copied()
}

/// How many fields the fixed table has.
pub(super) const FIXED_LENGTH: usize = FIXED.len();

const FIXED: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];
