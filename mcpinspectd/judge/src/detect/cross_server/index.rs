//! The tools of all servers, indexed by what makes two tools similar.
//!
//! Everything is bounded: [`SERVERS`], [`TOOLS`], and a profile of fixed size per tool.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use slab::Slab;
use smallvec::SmallVec;

use super::profile::ToolProfile;
use super::server_profile::{Offer, ServerProfile};
use crate::detect::text::names::{distinctive, folded, halves, near};

/// Most servers to remember.
pub const SERVERS: usize = 1024;
/// Most tools of all servers together to remember.
pub const TOOLS: usize = 20_000;
/// Most names of tools that servers announce, all servers together.
const ANNOUNCED: usize = 2 * TOOLS;
/// Most tools under one key to compare a tool with. The first to arrive are the owners; if more are
/// alike, the same tool exists many times over.
const ALIKE: usize = 6;
/// Most entries under one key to search for them.
const LOOKED_THROUGH: usize = 24;

/// A tool in the index.
#[derive(Debug)]
pub(super) struct IndexedTool {
    /// The server. Equal names are the same allocation.
    pub(super) server: Arc<str>,
    /// The order of arrival: the server that had a name first owns it.
    pub(super) order: u64,
    pub(super) profile: Arc<ToolProfile>,
}

/// The numbers of tools that share something; most often there is only one.
type Numbers = SmallVec<[u32; 4]>;

/// Most servers for which a definition remembers whether they have the same maker.
const KNOWN_MAKERS: usize = 64;

/// Which other servers have the same maker as the one whose text is read: comparing two servers takes
/// longer than looking up a word.
#[derive(Clone, Debug, Default)]
pub struct MakerCache(SmallVec<[(Arc<str>, bool); 4]>);

/// Whose tool a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::detect) enum Owner {
    /// No known server's.
    Nobody,
    /// The server's own; also without the prefix that its tools share.
    Own,
    /// Another server's of the same maker.
    SameMaker,
    /// Another server's, unless a page of the listing that is still to come has it too.
    Undecided,
    /// Another maker's.
    Foreign,
}

/// The tools of all servers.
#[derive(Debug, Default)]
pub struct ToolIndex {
    tools: Slab<IndexedTool>,
    order: u64,
    servers: HashMap<Arc<str>, ServerProfile>,
    /// Names that servers have announced, in total.
    announced: usize,
    by_name: HashMap<Box<str>, Numbers>,
    by_skeleton: HashMap<Box<str>, Numbers>,
    by_half: HashMap<(bool, u32), Numbers>,
    by_band: HashMap<(u8, u32), Numbers>,
}

impl ToolIndex {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many tools it holds.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether it holds no tool.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Inserts a tool of a server. It replaces the server's tool of the same name. Returns whether it is the
    /// first known tool of that server.
    pub fn insert(&mut self, server: &str, profile: Arc<ToolProfile>) -> bool {
        if let Some(known) = self.find(server, &profile.name) {
            self.remove(known);
        }
        let full = self.tools.len() >= TOOLS
            || (self.servers.len() >= SERVERS && !self.servers.contains_key(server));
        if full {
            return false;
        }
        let first = !self.servers.contains_key(server);
        let server: Arc<str> = match self.servers.get_key_value(server) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(server),
        };
        self.order += 1;
        let known = IndexedTool {
            server: Arc::clone(&server),
            order: self.order,
            profile: Arc::clone(&profile),
        };
        let Ok(number) = u32::try_from(self.tools.insert(known)) else {
            return false;
        };
        let server_profile = self.servers.entry(server).or_default();
        server_profile.examined(profile.name.clone(), number);
        add_to(&mut self.by_name, profile.name.clone(), number);
        add_to(&mut self.by_skeleton, profile.skeleton.clone(), number);
        for key in halves(&profile.skeleton, profile.skeleton.len()) {
            add_to(&mut self.by_half, key, number);
        }
        for band in bands(&profile) {
            add_to(&mut self.by_band, band, number);
        }
        first
    }

    /// Notes who publishes a server with a known tool.
    pub fn publish(&mut self, server: &str, publisher: Option<Box<str>>) {
        if let Some(server_profile) = self.servers.get_mut(server) {
            server_profile.publisher = publisher;
        }
    }

    fn remove(&mut self, number: u32) {
        let Some(IndexedTool {
            server, profile, ..
        }) = self.tools.try_remove(number as usize)
        else {
            return;
        };
        drop_from(&mut self.by_name, &profile.name, number);
        drop_from(&mut self.by_skeleton, &profile.skeleton, number);
        for key in halves(&profile.skeleton, profile.skeleton.len()) {
            drop_from(&mut self.by_half, &key, number);
        }
        for band in bands(&profile) {
            drop_from(&mut self.by_band, &band, number);
        }
        if let Some(server_profile) = self.servers.get_mut(&server) {
            server_profile.forget(&profile.name);
            if server_profile.is_empty() {
                self.servers.remove(&server);
            }
        }
    }

    /// The number of a server's tool. The name is in lower case.
    pub(super) fn find(&self, server: &str, name: &str) -> Option<u32> {
        self.servers.get(server)?.number(name)
    }

    /// The tool with a number.
    pub(super) fn tool(&self, number: u32) -> Option<&IndexedTool> {
        self.tools.get(number as usize)
    }

    /// Takes in a page of a server's listing, before any of its tools is judged.
    pub fn offer(&mut self, server: &str, offer: &Offer<'_>) {
        if self.servers.len() >= SERVERS && !self.servers.contains_key(server) {
            return;
        }
        let server_profile = match self.servers.get_mut(server) {
            Some(server_profile) => server_profile,
            None => self.servers.entry(Arc::from(server)).or_default(),
        };
        let before = server_profile.announced();
        let room = ANNOUNCED - self.announced.min(ANNOUNCED) + before;
        server_profile.offer(offer, room, folded);
        self.announced = self.announced + server_profile.announced() - before;
    }

    /// Whose tool `word` names in a text of `server`. Words that occur in any text do not count as names.
    /// `makers` remembers between words which servers have the same maker.
    pub(in crate::detect) fn owner(
        &self,
        server: &str,
        word: &str,
        makers: &mut MakerCache,
    ) -> Owner {
        let joined = word.contains(|c: char| !c.is_alphanumeric());
        let own = self.servers.get(server);
        // Clients display tools as `server.tool`, `mcp__server__tool` or `server/tool`.
        let bare = word.rsplit(['.', '/', ':']).next().unwrap_or(word);
        let bare = bare.rsplit("__").next().unwrap_or(bare);
        let unprefixed = bare
            .strip_prefix("mcp_tool_")
            .or_else(|| bare.strip_prefix("mcp_"))
            .unwrap_or(bare);
        if own.is_some_and(|own| own.has(bare) || own.has(unprefixed) || own.calls(bare)) {
            return Owner::Own;
        }
        let mut owner = Owner::Nobody;
        for name in [bare, unprefixed] {
            let Some(numbers) = self.by_name.get(name) else {
                continue;
            };
            if !joined && !distinctive(name) {
                continue;
            }
            let mut others = numbers.iter().filter_map(|number| self.tool(*number));
            if others.any(|other| !self.has_same_maker(server, &other.server, makers)) {
                return match own.is_some_and(ServerProfile::is_open) {
                    true => Owner::Undecided,
                    false => Owner::Foreign,
                };
            }
            owner = Owner::SameMaker;
        }
        owner
    }

    /// Whether two servers have the same maker, or are the same program.
    fn has_same_maker(&self, server: &str, other: &Arc<str>, known: &mut MakerCache) -> bool {
        if &**other == server {
            return true;
        }
        if let Some((_, same)) = known.0.iter().find(|(name, _)| Arc::ptr_eq(name, other)) {
            return *same;
        }
        let same = self.same_maker(server, other);
        if known.0.len() < KNOWN_MAKERS {
            known.0.push((Arc::clone(other), same));
        }
        same
    }

    /// The names of a server's tools, in no particular order.
    pub(in crate::detect) fn names_of(&self, server: &str) -> impl Iterator<Item = &str> {
        self.servers
            .get(server)
            .into_iter()
            .flat_map(ServerProfile::names)
    }

    /// How many servers it holds.
    pub(super) fn server_count(&self) -> usize {
        self.servers.len()
    }

    /// Whether two servers have one maker, or are one program under two names.
    pub(super) fn same_maker(&self, a: &str, b: &str) -> bool {
        let (Some(a), Some(b)) = (self.servers.get(a), self.servers.get(b)) else {
            return false;
        };
        a.same_maker(b)
    }

    /// Tools of other servers that may be similar: by name, by a name that differs in one letter, by the name
    /// without its affix (`base`), by description.
    pub(super) fn candidates(
        &self,
        server: &str,
        profile: &ToolProfile,
        base: Option<&str>,
    ) -> Vec<&IndexedTool> {
        let own = self.servers.get_key_value(server).map(|(own, _)| own);
        let mut all: Vec<&IndexedTool> = Vec::new();
        let mut take = |list: Option<&Numbers>, fits: &dyn Fn(&IndexedTool) -> bool| {
            let numbers = list.into_iter().flatten().take(LOOKED_THROUGH);
            let others = numbers
                .filter_map(|number| self.tool(*number))
                .filter(|other| !own.is_some_and(|own| Arc::ptr_eq(own, &other.server)))
                .filter(|other| fits(other));
            all.extend(others.take(ALIKE));
        };
        take(self.by_skeleton.get(&profile.skeleton), &|_| true);
        for length in profile.skeleton.len().saturating_sub(1)..=profile.skeleton.len() + 1 {
            for key in halves(&profile.skeleton, length) {
                take(self.by_half.get(&key), &|other| {
                    near(&profile.skeleton, &other.profile.skeleton)
                });
            }
        }
        if let Some(base) = base {
            take(self.by_skeleton.get(base), &|_| true);
        }
        for band in bands(profile) {
            take(self.by_band.get(&band), &|_| true);
        }
        all.sort_unstable_by_key(|other| other.order);
        all.dedup_by_key(|other| other.order);
        all
    }
}

/// Keys of the index of descriptions.
fn bands(profile: &ToolProfile) -> impl Iterator<Item = (u8, u32)> {
    (0..).zip(profile.bands.into_iter().flatten())
}

fn add_to<K: Hash + Eq>(index: &mut HashMap<K, Numbers>, key: K, number: u32) {
    let numbers = index.entry(key).or_default();
    // More would not be searched, and a longer list makes removal slower.
    if numbers.len() < 2 * LOOKED_THROUGH {
        numbers.push(number);
    }
}

fn drop_from<K, Q>(index: &mut HashMap<K, Numbers>, key: &Q, number: u32)
where
    K: Hash + Eq + Borrow<Q>,
    Q: Hash + Eq + ?Sized,
{
    if let Some(numbers) = index.get_mut(key) {
        numbers.retain(|known| *known != number);
        if numbers.is_empty() {
            index.remove(key);
        }
    }
}
