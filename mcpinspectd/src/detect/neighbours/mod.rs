//! What the other servers on the machine offer.
//!
//! A model sees the tools of all its servers in one list and tells them apart by name and
//! description alone. A server can therefore speak for another one: take its tool's name, a name that
//! looks like it, its description, or simply talk about it. None of this shows in the definition by
//! itself; it takes the other definitions beside it.
//!
//! Honest servers collide as well: many offer `search` or `read_file`, some run twice under two
//! names. So an equal name is only evidence when the name is distinctive, or when more than the name
//! is alike; and a server that resembles another one as a whole is that server again, not its
//! impostor. Who was there first is the owner.
//!
//! Everything is bounded: [`SERVERS`], [`TOOLS`], and a fixed-size card per tool.

mod card;

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use slab::Slab;
use smallvec::SmallVec;

pub use card::Card;
use card::RELATED_TEXT;

use super::names::{
    distinctive, halves, near, rare_word_changed, same_words, skeleton, without_affix,
};
use super::pack::Probe;

/// Most servers that are remembered.
pub const SERVERS: usize = 1024;
/// Most tools of all servers together that are remembered.
pub const TOOLS: usize = 20_000;
/// Up to how many servers an equal, distinctive name is no coincidence.
const FEW_SERVERS: usize = 40;
/// Share of equal word pairs from which two tools with nearly the same name are no coincidence.
const HALF_OF_THE_TEXT: f32 = 0.5;
/// From how many common tools on, and which share of both, two servers are the same server.
const TWINS_MIN: usize = 3;
const TWINS_SHARE: f32 = 0.5;
/// Most tools under one key of an index that a tool is compared with; the first that came are the
/// owners. A machine where more are alike has the same tool many times over.
const ALIKE: usize = 6;
/// Most entries under one key that are looked through for them.
const LOOKED_THROUGH: usize = 24;
/// Most servers that are compared as a whole for one tool.
const TWINS_COMPARED: usize = 6;

/// A tool that is remembered.
#[derive(Debug)]
struct Known {
    /// Equal ones are the same allocation.
    server: Arc<str>,
    /// Order of arrival: the owner of a name is who had it first.
    order: u64,
    card: Arc<Card>,
}

/// Numbers of tools that share something: of one, most often.
type Numbers = SmallVec<[u32; 4]>;

/// The tools of one server, by name.
type Offer = HashMap<Box<str>, u32>;

/// The tools of all servers.
#[derive(Debug, Default)]
pub struct Neighbours {
    tools: Slab<Known>,
    order: u64,
    servers: HashMap<Arc<str>, Offer>,
    by_name: HashMap<Box<str>, Numbers>,
    by_skeleton: HashMap<Box<str>, Numbers>,
    by_half: HashMap<(bool, u32), Numbers>,
    by_band: HashMap<(u8, u32), Numbers>,
}

/// What a tool has from another server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Likeness {
    /// In which way.
    pub probe: Probe,
    /// The other server's name.
    pub server: Arc<str>,
    /// The other server's tool.
    pub tool: String,
}

impl Neighbours {
    /// Nothing known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many tools are known.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether no tool is known.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Remembers a tool of a server, in place of what was known under its name.
    pub fn learn(&mut self, server: &str, card: Arc<Card>) {
        if let Some(known) = self.find(server, &card.name) {
            self.forget(known);
        }
        let full = self.tools.len() >= TOOLS
            || (self.servers.len() >= SERVERS && !self.servers.contains_key(server));
        if full {
            return;
        }
        let server: Arc<str> = match self.servers.get_key_value(server) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(server),
        };
        self.order += 1;
        let known = Known {
            server: Arc::clone(&server),
            order: self.order,
            card: Arc::clone(&card),
        };
        let Ok(number) = u32::try_from(self.tools.insert(known)) else {
            return;
        };
        let offer = self.servers.entry(server).or_default();
        offer.insert(card.name.clone(), number);
        add_to(&mut self.by_name, card.name.clone(), number);
        add_to(&mut self.by_skeleton, card.skeleton.clone(), number);
        for key in halves(&card.skeleton, card.skeleton.len()) {
            add_to(&mut self.by_half, key, number);
        }
        for band in bands(&card) {
            add_to(&mut self.by_band, band, number);
        }
    }

    fn forget(&mut self, number: u32) {
        let Some(Known { server, card, .. }) = self.tools.try_remove(number as usize) else {
            return;
        };
        drop_from(&mut self.by_name, &card.name, number);
        drop_from(&mut self.by_skeleton, &card.skeleton, number);
        for key in halves(&card.skeleton, card.skeleton.len()) {
            drop_from(&mut self.by_half, &key, number);
        }
        for band in bands(&card) {
            drop_from(&mut self.by_band, &band, number);
        }
        if let Some(offer) = self.servers.get_mut(&server) {
            offer.remove(&card.name);
            if offer.is_empty() {
                self.servers.remove(&server);
            }
        }
    }

    /// The tool of this name, in lower case.
    fn find(&self, server: &str, name: &str) -> Option<u32> {
        self.servers.get(server)?.get(name).copied()
    }

    fn known(&self, number: u32) -> Option<&Known> {
        self.tools.get(number as usize)
    }

    /// Whether `word` in a text of `server` names a tool that only other servers have. Words that
    /// any text may use are no names.
    pub fn is_foreign(&self, server: &str, word: &str) -> bool {
        let joined = word.contains(|c: char| !c.is_alphanumeric());
        self.named(server, word)
            .is_some_and(|known| joined || distinctive(&known.card.name))
    }

    /// The other server's tool that `word` names.
    fn named(&self, server: &str, word: &str) -> Option<&Known> {
        // Clients show tools as `server.tool`, `mcp__server__tool`, `server/tool`.
        let bare = word.rsplit(['.', '/', ':']).next().unwrap_or(word);
        let bare = bare.rsplit("__").next().unwrap_or(bare);
        let unprefixed = bare
            .strip_prefix("mcp_tool_")
            .or_else(|| bare.strip_prefix("mcp_"))
            .unwrap_or(bare);
        [bare, unprefixed].into_iter().find_map(|name| {
            let numbers = self.by_name.get(name)?;
            if self.find(server, name).is_some() {
                return None;
            }
            numbers.first().and_then(|number| self.known(*number))
        })
    }

    /// What a tool of `server` has from tools of other servers. At most one likeness per kind.
    pub fn likenesses(&self, server: &str, card: &Card) -> Vec<Likeness> {
        let order = self
            .find(server, &card.name)
            .and_then(|number| self.known(number))
            .map_or(u64::MAX, |own| own.order);
        let few = self.servers.len() <= FEW_SERVERS;
        let mut found: Vec<Likeness> = Vec::new();
        let mut twins: HashMap<Arc<str>, bool> = HashMap::new();
        let mut add = |probe, other: &Known| {
            if found.iter().any(|likeness| likeness.probe == probe) {
                return;
            }
            if twins.len() >= TWINS_COMPARED && !twins.contains_key(&other.server) {
                return;
            }
            let twin = *twins
                .entry(Arc::clone(&other.server))
                .or_insert_with(|| self.twins(server, &other.server));
            if !twin {
                found.push(Likeness {
                    probe,
                    server: Arc::clone(&other.server),
                    tool: other.card.name.to_string(),
                });
            }
        };
        let base = without_affix(&card.name).map(|base| skeleton(&base));
        for known in self.candidates(server, card, base.as_deref()) {
            let other = &known.card;
            let later = order > known.order;
            // A name with a word such as `v2` at an end, and no version of its own server's tool.
            let takes_after = base.as_deref() == Some(&*other.skeleton)
                && self.find(server, &other.name).is_none();
            if !later && !takes_after {
                continue;
            }
            if card.skeleton == other.skeleton {
                if later && !same_words(&card.name, &other.name) {
                    add(Probe::LookAlikeName, known);
                } else if later && card.copies(other, few) {
                    add(Probe::CopiedTool, known);
                } else if later && distinctive(&card.name) {
                    // Among a few servers chance does not explain it; among hundreds it does.
                    add(
                        if few {
                            Probe::CopiedTool
                        } else {
                            Probe::SameName
                        },
                        known,
                    );
                }
            } else if takes_after {
                // The one with the affix is the newcomer, whoever was seen first.
                if card.shares_text(other, RELATED_TEXT)
                    || card.same_parameters(other)
                    || other.name.contains(|c: char| !c.is_alphanumeric())
                {
                    add(Probe::LookAlikeName, known);
                }
            } else if near(&card.skeleton, &other.skeleton)
                && (card.shares_text(other, HALF_OF_THE_TEXT)
                    || (distinctive(&other.name) && rare_word_changed(&card.name, &other.name)))
            {
                add(Probe::LookAlikeName, known);
            } else if card.same_text(other, few) {
                add(Probe::CopiedDescription, known);
            }
        }
        found
    }

    /// Whether two servers offer the same tools: one server under two names.
    fn twins(&self, a: &str, b: &str) -> bool {
        let (Some(a), Some(b)) = (self.servers.get(a), self.servers.get(b)) else {
            return false;
        };
        let common = a.keys().filter(|name| b.contains_key(*name)).count();
        common >= TWINS_MIN
            && common as f32 >= TWINS_SHARE * a.len().min(b.len()) as f32
            && common as f32 >= 0.25 * a.len().max(b.len()) as f32
    }

    /// Tools that could be alike: by name, by near name, by name without an affix, by description.
    fn candidates(&self, server: &str, card: &Card, base: Option<&str>) -> Vec<&Known> {
        let own = self.servers.get_key_value(server).map(|(own, _)| own);
        let mut all: Vec<&Known> = Vec::new();
        let mut take = |list: Option<&Numbers>, fits: &dyn Fn(&Known) -> bool| {
            let known = list.into_iter().flatten().take(LOOKED_THROUGH);
            let others = known
                .filter_map(|number| self.known(*number))
                .filter(|other| !own.is_some_and(|own| Arc::ptr_eq(own, &other.server)))
                .filter(|other| fits(other));
            all.extend(others.take(ALIKE));
        };
        take(self.by_skeleton.get(&card.skeleton), &|_| true);
        for length in card.skeleton.len().saturating_sub(1)..=card.skeleton.len() + 1 {
            for key in halves(&card.skeleton, length) {
                take(self.by_half.get(&key), &|other| {
                    near(&card.skeleton, &other.card.skeleton)
                });
            }
        }
        if let Some(base) = base {
            take(self.by_skeleton.get(base), &|_| true);
        }
        for band in bands(card) {
            take(self.by_band.get(&band), &|_| true);
        }
        all.sort_unstable_by_key(|other| other.order);
        all.dedup_by_key(|other| other.order);
        all
    }
}

/// Keys of the index of descriptions.
fn bands(card: &Card) -> impl Iterator<Item = (u8, u32)> {
    (0..).zip(card.bands.into_iter().flatten())
}

fn add_to<K: Hash + Eq>(index: &mut HashMap<K, Numbers>, key: K, number: u32) {
    let numbers = index.entry(key).or_default();
    // More are not looked through; the longer a list, the more it costs to take something out.
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
