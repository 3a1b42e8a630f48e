//! Frames of HTTP/2: their headers, and what may stand in one (RFC 9113, 4 and 6).

use crate::http::part::Role;

/// The length of a frame's header.
pub(super) const HEADER: usize = 9;

/// The longest frame to believe in after a loss. Peers agree on 16 KiB to 1 MiB.
const BELIEVED: u32 = 1 << 20;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Headers,
    Priority,
    Reset,
    Settings,
    Push,
    Ping,
    GoAway,
    Window,
    Continuation,
    /// An unknown one, which every peer skips.
    Other,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) length: u32,
    flags: u8,
    pub(super) stream: u32,
    is_reserved: bool,
}

const END_STREAM: u8 = 0x01;
const END_HEADERS: u8 = 0x04;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;

impl Header {
    pub(super) fn read(bytes: [u8; HEADER]) -> Self {
        let [l1, l2, l3, kind, flags, s1, s2, s3, s4] = bytes;
        let stream = u32::from_be_bytes([s1, s2, s3, s4]);
        Self {
            kind: match kind {
                0 => Kind::Data,
                1 => Kind::Headers,
                2 => Kind::Priority,
                3 => Kind::Reset,
                4 => Kind::Settings,
                5 => Kind::Push,
                6 => Kind::Ping,
                7 => Kind::GoAway,
                8 => Kind::Window,
                9 => Kind::Continuation,
                _ => Kind::Other,
            },
            length: u32::from_be_bytes([0, l1, l2, l3]),
            flags,
            stream: stream & 0x7fff_ffff,
            is_reserved: stream >> 31 != 0,
        }
    }

    pub(super) fn ends_stream(&self) -> bool {
        matches!(self.kind, Kind::Data | Kind::Headers) && self.flags & END_STREAM != 0
    }

    pub(super) fn ends_headers(&self) -> bool {
        self.flags & END_HEADERS != 0
    }

    pub(super) fn is_padded(&self) -> bool {
        matches!(self.kind, Kind::Data | Kind::Headers | Kind::Push) && self.flags & PADDED != 0
    }

    pub(super) fn has_priority(&self) -> bool {
        self.kind == Kind::Headers && self.flags & PRIORITY != 0
    }

    /// Whether a frame may have this stream and this length.
    pub(super) fn is_valid(&self) -> bool {
        match self.kind {
            Kind::Data | Kind::Headers | Kind::Push | Kind::Continuation => self.stream != 0,
            Kind::Priority => self.stream != 0 && self.length == 5,
            Kind::Reset => self.stream != 0 && self.length == 4,
            Kind::Settings => self.stream == 0 && self.length.is_multiple_of(6),
            Kind::Ping => self.stream == 0 && self.length == 8,
            Kind::GoAway => self.stream == 0 && self.length >= 8,
            Kind::Window => self.length == 4,
            Kind::Other => true,
        }
    }

    /// Whether unknown bytes look like the header of a frame. Text never does: its first
    /// three bytes are a length of megabytes.
    pub(super) fn is_believable(&self, role: Role) -> bool {
        let flags = match self.kind {
            Kind::Data => END_STREAM | PADDED,
            Kind::Headers => END_STREAM | END_HEADERS | PADDED | PRIORITY,
            Kind::Push => END_HEADERS | PADDED,
            Kind::Continuation => END_HEADERS,
            Kind::Settings | Kind::Ping => END_STREAM,
            Kind::Priority | Kind::Reset | Kind::GoAway | Kind::Window => 0,
            Kind::Other => return false,
        };
        let is_client_stream = self.stream == 0 || self.stream % 2 == 1;
        let may_be_other = role == Role::Responses || self.kind == Kind::Window;
        self.is_valid()
            && !self.is_reserved
            && self.length <= BELIEVED
            && self.flags & !flags == 0
            && (is_client_stream || may_be_other)
            && (role == Role::Responses || self.kind != Kind::Push)
    }
}
