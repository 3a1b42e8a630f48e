//! What a server offers in a session, and how much of it was reported.

use std::collections::{HashMap, HashSet};

use mcpinspect_core::mcp::json;
use mcpinspect_core::model::{DefinitionHash, Detection, ItemKind, ToolStatus};
use mcpinspect_core::session::listing::Listings;
use mcpinspect_judge::detect::ToolDefinition;
use mcpinspect_judge::registry::{ItemKey, MAX_NAME, Shortage};
use serde_json::value::RawValue;

/// Definitions of one session to remember as reported. A session that shows more starts over.
const MAX_REPORTED: usize = 16_384;

/// Most events about a lack of room in one session. Each has the count so far.
const MAX_SHORTAGES_REPORTED: u8 = 8;

/// Definitions of a session that found no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WithoutRoom {
    /// What ran out.
    pub(super) shortage: Option<Shortage>,
    /// Those that are not pinned.
    pub(super) not_pinned: u64,
    /// Those that are pinned without their text.
    pub(super) without_text: u64,
}

/// Most definitions of one session, and bytes of them, to keep until their listing is complete.
const MAX_UNDECIDED: usize = 256;
const MAX_UNDECIDED_BYTES: usize = 1 << 20;

/// What a server offers in a session.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    pub(super) listings: Listings,
    reported: HashSet<(ItemKind, DefinitionHash)>,
    changes_reported: HashMap<ItemKey, u16>,
    removals_reported: HashSet<Box<str>>,
    without_room: WithoutRoom,
    without_room_reported: WithoutRoom,
    shortages_reported: u8,
    /// Whether the server's program is from the accepted vendor, once that is known.
    pub(super) same_vendor: Option<bool>,
    /// Changes that a policy accepts if so.
    pub(super) waiting: Vec<(ItemKey, DefinitionHash)>,
    /// Definitions whose verdict depends on the rest of a listing.
    undecided: Vec<Undecided>,
    /// Bytes of those definitions.
    undecided_bytes: usize,
}

/// A definition that was judged before the listing was complete.
#[derive(Debug)]
pub(super) struct Undecided {
    pub(super) name: Box<str>,
    pub(super) hash: DefinitionHash,
    pub(super) definition: Box<RawValue>,
    pub(super) status: ToolStatus,
    /// The patterns of the findings that were reported.
    pub(super) reported: Vec<String>,
}

impl Definitions {
    /// Notes that messages were lost.
    pub(super) fn gap(&mut self) {
        self.listings.gap();
    }

    /// Whether this definition should be reported.
    pub(super) fn is_news(&mut self, kind: ItemKind, hash: DefinitionHash) -> bool {
        if self.reported.len() >= MAX_REPORTED {
            self.reported.clear();
            self.changes_reported.clear();
        }
        self.reported.insert((kind, hash))
    }

    /// Counts a definition that found no room.
    pub(super) fn count_shortage(&mut self, shortage: Option<Shortage>) {
        match shortage {
            None => return,
            Some(Shortage::Bytes) => self.without_room.without_text += 1,
            Some(_) => self.without_room.not_pinned += 1,
        }
        self.without_room.shortage = shortage;
    }

    /// What to report about them, if there are more than last time.
    pub(super) fn take_shortage(&mut self) -> Option<WithoutRoom> {
        if self.without_room == self.without_room_reported
            || self.shortages_reported == MAX_SHORTAGES_REPORTED
        {
            return None;
        }
        self.without_room_reported = self.without_room;
        self.shortages_reported += 1;
        Some(self.without_room)
    }

    /// Keeps a definition until the listing is complete. One that finds no room stays as judged.
    pub(super) fn postpone(&mut self, tool: &ToolDefinition<'_>, reported: &[Detection]) {
        let bytes = self.undecided_bytes + tool.definition.get().len();
        if self.undecided.len() >= MAX_UNDECIDED || bytes > MAX_UNDECIDED_BYTES {
            return;
        }
        self.undecided_bytes = bytes;
        self.undecided.push(Undecided {
            name: json::cut(tool.name, MAX_NAME).into(),
            hash: tool.hash,
            definition: tool.definition.to_owned(),
            status: tool.status,
            reported: reported.iter().map(|one| one.pattern.clone()).collect(),
        });
    }

    /// The kept definitions.
    pub(super) fn take_undecided(&mut self) -> Vec<Undecided> {
        self.undecided_bytes = 0;
        std::mem::take(&mut self.undecided)
    }

    /// The number of a change of this item, from 1.
    pub(super) fn count_change(&mut self, key: &ItemKey) -> u16 {
        let reported = self.changes_reported.entry(key.clone()).or_default();
        *reported = reported.saturating_add(1);
        *reported
    }

    /// Whether the removal of this tool should be reported.
    pub(super) fn is_new_removal(&mut self, name: &str) -> bool {
        self.removals_reported.len() < MAX_REPORTED && self.removals_reported.insert(name.into())
    }
}
