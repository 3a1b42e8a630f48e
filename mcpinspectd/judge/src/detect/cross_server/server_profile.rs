//! What is known about a server as a whole: its tools, and who made it.
//!
//! A definition may give orders about the tools of its own server. Which those are must be known before
//! the first of them is judged, so a listing is announced before it is examined, page by page; until the
//! last page arrives, a name that only another server has may still turn out to be its own.
//!
//! One program under two names, an old and a new version, and all servers of one publisher describe the same
//! things in the same words. They do not shadow each other.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use compact_str::CompactString;

/// How many common tools, and which shares of the smaller and the larger server, make two servers
/// the same server.
const TWINS_MIN: usize = 3;
const TWINS_SHARE: f32 = 0.5;
const TWINS_SHARE_OF_LARGER: f32 = 0.25;
/// Most tools that one server announces. The registry keeps the same number.
const ANNOUNCED: usize = 4096;

/// Most tools of a server whose names are known in other spellings.
const SPELLED: usize = 256;
/// Most bytes of a name for which that is done.
const SPELLED_NAME: usize = 128;

/// A page of a listing.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The names of its tools.
    pub names: &'a [&'a str],
    /// Who publishes the server, if the way it was started shows that.
    pub publisher: Option<&'a str>,
    /// Whether the listing begins with this page.
    pub first: bool,
    /// Whether it ends with this page.
    pub last: bool,
}

/// A server as a whole.
#[derive(Debug, Default)]
pub(super) struct ServerProfile {
    /// The numbers of the tools that were examined, by name.
    tools: HashMap<Box<str>, u32>,
    /// The names in the latest listing.
    offered: HashSet<Box<str>>,
    /// Whether a page of that listing is still to come.
    open: bool,
    pub(super) publisher: Option<Box<str>>,
    /// How else its tools may be called. Computed when needed.
    spellings: OnceLock<Spellings>,
}

/// How else a server's tools may be called.
#[derive(Debug, Default)]
struct Spellings {
    /// Their names without separators.
    letters: HashSet<CompactString>,
    /// What is left of them without a prefix, if that still has a separator.
    rests: HashSet<CompactString>,
}

impl ServerProfile {
    /// Takes in a page, and keeps at most `room` names.
    pub(super) fn offer(&mut self, offer: &Offer<'_>, room: usize, fold: fn(&str) -> Box<str>) {
        if offer.first {
            self.offered.clear();
        }
        self.spellings.take();
        self.open = !offer.last;
        let room = room.min(ANNOUNCED);
        for name in offer.names {
            if self.offered.len() >= room {
                break;
            }
            self.offered.insert(fold(name));
        }
        if let Some(publisher) = offer.publisher {
            self.publisher = Some(publisher.into());
        }
    }

    /// How many names it keeps of the latest listing.
    pub(super) fn announced(&self) -> usize {
        self.offered.len()
    }

    /// Whether a page of its listing is still to come.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether nothing is known about it.
    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.offered.is_empty()
    }

    /// Whether it has a tool of this name, in lower case. A tool that it no longer offers is not its own.
    pub(super) fn has(&self, name: &str) -> bool {
        self.offered.contains(name)
            || ((self.open || self.offered.is_empty()) && self.tools.contains_key(name))
    }

    /// The number of an examined tool of this name.
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.tools.get(name).copied()
    }

    /// Notes a tool that was examined.
    pub(super) fn examined(&mut self, name: Box<str>, number: u32) {
        if self.tools.insert(name, number).is_none() && self.offered.is_empty() {
            self.spellings.take();
        }
    }

    /// Forgets a tool that was examined.
    pub(super) fn forget(&mut self, name: &str) {
        if self.tools.remove(name).is_some() && self.offered.is_empty() {
            self.spellings.take();
        }
    }

    /// Whether a text may call one of its tools by this name: in another spelling (`readfile` for
    /// `read_file`), or without a prefix (`get_page` for `wiki_get_page`).
    pub(super) fn calls(&self, name: &str) -> bool {
        if self.len() > SPELLED {
            return false;
        }
        let spellings = self.spellings.get_or_init(|| Spellings::of(self.names()));
        spellings.rests.contains(name) || spellings.letters.contains(&letters(name))
    }

    /// The names of its tools.
    pub(super) fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self.offered.is_empty() {
            true => Box::new(self.tools.keys().map(|name| &**name)),
            false => Box::new(self.offered.iter().map(|name| &**name)),
        }
    }

    fn len(&self) -> usize {
        match self.offered.is_empty() {
            true => self.tools.len(),
            false => self.offered.len(),
        }
    }

    /// Whether both have one maker, or are one program: the same publisher, or mostly the same tools.
    pub(super) fn same_maker(&self, other: &Self) -> bool {
        let published = self.publisher.is_some() && self.publisher == other.publisher;
        published || self.same_tools(other)
    }

    fn same_tools(&self, other: &Self) -> bool {
        let (smaller, larger) = match self.len() <= other.len() {
            true => (self, other),
            false => (other, self),
        };
        let common = smaller.names().filter(|name| larger.has(name)).count();
        common >= TWINS_MIN
            && common as f32 >= TWINS_SHARE * smaller.len() as f32
            && common as f32 >= TWINS_SHARE_OF_LARGER * larger.len() as f32
    }
}

impl Spellings {
    fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut spellings = Self::default();
        for name in names {
            let name = &name[..name.floor_char_boundary(SPELLED_NAME)];
            let separators = name.match_indices(['_', '-', '.']);
            let rests = separators.map(|(at, _)| &name[at + 1..]);
            let rests = rests.filter(|rest| rest.contains(['_', '-']));
            spellings.rests.extend(rests.map(CompactString::from));
            spellings.letters.insert(letters(name));
        }
        spellings
    }
}

/// A name without separators.
fn letters(name: &str) -> CompactString {
    let letters = name.chars();
    letters
        .filter(|letter| !matches!(letter, '_' | '-' | '.'))
        .collect()
}
