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

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use serde_json::Value;

use super::names::{
    distinctive, folded, halves, hash_bytes, near, rare_word_changed, same_words, skeleton,
    without_affix,
};
use super::pack::Probe;

/// Most servers that are remembered.
pub const SERVERS: usize = 1024;
/// Most tools of all servers together that are remembered.
pub const TOOLS: usize = 20_000;
/// Most word pairs of a description that are compared.
const PAIRS: usize = 64;
/// Bands of the index of descriptions; each is two hashes.
const BANDS: usize = 8;
/// Share of equal word pairs from which two descriptions are the same text.
const SAME_TEXT: f32 = 0.7;
/// Fewest word pairs of a description that make it comparable.
const TEXT_MIN: usize = 6;
/// Share of equal word pairs from which two descriptions speak of the same.
const RELATED_TEXT: f32 = 0.3;
/// Fewest word pairs of a description for it to be worth copying.
const TEXT_COPIED: usize = 8;
/// Fewest word pairs of a description for it to be recognised inside a longer one.
const TEXT_QUOTED: usize = 14;
/// Up to how many servers an equal, distinctive name is no coincidence.
const FEW_SERVERS: usize = 40;
/// From how many common tools on, and which share of both, two servers are the same server.
const TWINS_MIN: usize = 3;
const TWINS_SHARE: f32 = 0.5;
/// Most tools under one key of an index that a tool is compared with; the first that came are the
/// owners. A machine where more are alike has the same tool many times over.
const ALIKE: usize = 12;
/// Most entries under one key that are looked through for them.
const LOOKED_THROUGH: usize = 64;
/// Most servers that are compared as a whole for one tool.
const TWINS_COMPARED: usize = 6;

/// What is kept of a tool.
#[derive(Clone, Debug)]
struct Card {
    server: Arc<str>,
    /// Order of arrival: the owner of a name is who had it first.
    order: u64,
    name: Box<str>,
    /// The name without case, separators and look-alikes.
    skeleton: Box<str>,
    parameters: Box<[u32]>,
    pairs: Box<[u32]>,
}

/// The tools of one server.
#[derive(Debug, Default)]
struct Offer {
    ids: Vec<u32>,
    /// Hashes of their names.
    names: HashSet<u32>,
}

/// The tools of all servers.
#[derive(Debug, Default)]
pub struct Neighbours {
    cards: HashMap<u32, Card>,
    next: u32,
    order: u64,
    servers: HashMap<Arc<str>, Offer>,
    by_name: HashMap<Box<str>, Vec<u32>>,
    by_skeleton: HashMap<Box<str>, Vec<u32>>,
    by_half: HashMap<(bool, u32), Vec<u32>>,
    by_band: HashMap<(u8, u32), Vec<u32>>,
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
        self.cards.len()
    }

    /// Whether no tool is known.
    pub fn is_empty(&self) -> bool {
        self.cards.is_empty()
    }

    /// Remembers a tool of a server, in place of what was known under its name.
    pub fn learn(&mut self, server: &str, tool: &Value) {
        let Some(name) = name_of(tool) else { return };
        if let Some(known) = self.find(server, name) {
            self.forget_card(known);
        }
        let full = self.cards.len() >= TOOLS
            || (self.servers.len() >= SERVERS && !self.servers.contains_key(server));
        if full {
            return;
        }
        let server: Arc<str> = match self.servers.get_key_value(server) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(server),
        };
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        self.order += 1;
        let card = Card::new(Arc::clone(&server), self.order, name, tool);
        let offer = self.servers.entry(server).or_default();
        offer.ids.push(id);
        offer.names.insert(hash(&card.name));
        self.by_name.entry(card.name.clone()).or_default().push(id);
        self.by_skeleton
            .entry(card.skeleton.clone())
            .or_default()
            .push(id);
        for key in halves(&card.skeleton, card.skeleton.len()) {
            self.by_half.entry(key).or_default().push(id);
        }
        for band in card.bands() {
            self.by_band.entry(band).or_default().push(id);
        }
        self.cards.insert(id, card);
    }

    /// Forgets a server's tools.
    pub fn forget(&mut self, server: &str) {
        let offer = self.servers.get(server);
        for id in offer.map(|offer| offer.ids.clone()).unwrap_or_default() {
            self.forget_card(id);
        }
    }

    fn forget_card(&mut self, id: u32) {
        let Some(card) = self.cards.remove(&id) else {
            return;
        };
        drop_from(&mut self.by_name, &card.name, id);
        drop_from(&mut self.by_skeleton, &card.skeleton, id);
        for key in halves(&card.skeleton, card.skeleton.len()) {
            drop_from(&mut self.by_half, &key, id);
        }
        for band in card.bands() {
            drop_from(&mut self.by_band, &band, id);
        }
        if let Some(offer) = self.servers.get_mut(&card.server) {
            offer.ids.retain(|known| *known != id);
            offer.names.remove(&hash(&card.name));
            if offer.ids.is_empty() {
                self.servers.remove(&card.server);
            }
        }
    }

    fn find(&self, server: &str, name: &str) -> Option<u32> {
        let name = folded(name);
        let ids = self.by_name.get(&*name)?;
        ids.iter().copied().find(|id| {
            self.cards
                .get(id)
                .is_some_and(|card| &*card.server == server)
        })
    }

    /// Whether `word` in a text of `server` names a tool that only other servers have. Words that
    /// any text may use are no names.
    pub fn is_foreign(&self, server: &str, word: &str) -> bool {
        let joined = word.contains(|c: char| !c.is_alphanumeric());
        self.named(server, word)
            .is_some_and(|card| joined || distinctive(&card.name))
    }

    /// The other server's tool that `word` names.
    fn named(&self, server: &str, word: &str) -> Option<&Card> {
        // Clients show tools as `server.tool`, `mcp__server__tool`, `server/tool`.
        let bare = word.rsplit(['.', '/', ':']).next().unwrap_or(word);
        let bare = bare.rsplit("__").next().unwrap_or(bare);
        let unprefixed = bare
            .strip_prefix("mcp_tool_")
            .or_else(|| bare.strip_prefix("mcp_"))
            .unwrap_or(bare);
        [bare, unprefixed].into_iter().find_map(|name| {
            let ids = self.by_name.get(name)?;
            let mut cards = ids.iter().filter_map(|id| self.cards.get(id));
            if cards.clone().any(|card| &*card.server == server) {
                return None;
            }
            cards.next()
        })
    }

    /// What `tool` of `server` has from tools of other servers. At most one likeness per kind.
    pub fn likenesses(&self, server: &str, tool: &Value) -> Vec<Likeness> {
        let Some(name) = name_of(tool) else {
            return Vec::new();
        };
        let own = self.find(server, name).and_then(|id| self.cards.get(&id));
        let order = own.map_or(u64::MAX, |card| card.order);
        let card = Card::new(Arc::from(server), order, name, tool);
        let few = self.servers.len() <= FEW_SERVERS;
        let mut found: Vec<Likeness> = Vec::new();
        let mut twins: HashMap<Arc<str>, bool> = HashMap::new();
        let mut add = |probe, other: &Card| {
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
                    tool: other.name.to_string(),
                });
            }
        };
        for other in self.candidates(&card) {
            let alike = card.likeness_of_text(other);
            let later = card.order > other.order;
            if card.skeleton == other.skeleton {
                if later && !same_words(&card.name, &other.name) {
                    add(Probe::LookAlikeName, other);
                } else if later && self.copies(&card, other) {
                    add(Probe::CopiedTool, other);
                } else if later && distinctive(&card.name) {
                    // Among a few servers chance does not explain it; among hundreds it does.
                    add(
                        if few {
                            Probe::CopiedTool
                        } else {
                            Probe::SameName
                        },
                        other,
                    );
                }
            } else if self.takes_after(&card, other) {
                // The one with the affix is the newcomer, whoever was seen first.
                if alike >= RELATED_TEXT
                    || card.same_parameters(other)
                    || other.name.contains(|c: char| !c.is_alphanumeric())
                {
                    add(Probe::LookAlikeName, other);
                }
            } else if later
                && near(&card.skeleton, &other.skeleton)
                && (alike >= 0.5
                    || (distinctive(&other.name) && rare_word_changed(&card.name, &other.name)))
            {
                add(Probe::LookAlikeName, other);
            } else if later && card.same_text(other, few) {
                add(Probe::CopiedDescription, other);
            }
        }
        found
    }

    /// Whether a tool of the same name was copied, rather than named alike by chance.
    fn copies(&self, card: &Card, other: &Card) -> bool {
        let few = self.servers.len() <= FEW_SERVERS;
        if card.same_text(other, few) {
            return true;
        }
        let related = card.likeness_of_text(other) >= RELATED_TEXT && card.same_parameters(other);
        related && distinctive(&card.name) && few
    }

    /// Whether a name is another's with a word such as `v2` at an end, and no version of its own
    /// server's tool.
    fn takes_after(&self, card: &Card, other: &Card) -> bool {
        without_affix(&card.name).is_some_and(|base| skeleton(&base) == *other.skeleton)
            && self.find(&card.server, &other.name).is_none()
    }

    /// Whether two servers offer the same tools: one server under two names.
    fn twins(&self, a: &str, b: &str) -> bool {
        let (Some(a), Some(b)) = (self.servers.get(a), self.servers.get(b)) else {
            return false;
        };
        let (a, b) = (&a.names, &b.names);
        let common = a.intersection(b).count();
        common >= TWINS_MIN
            && common as f32 >= TWINS_SHARE * a.len().min(b.len()) as f32
            && common as f32 >= 0.25 * a.len().max(b.len()) as f32
    }

    /// Tools that could be alike: by name, by near name, by name without an affix, by description.
    fn candidates(&self, card: &Card) -> Vec<&Card> {
        let mut all: Vec<&Card> = Vec::new();
        let mut take = |list: Option<&Vec<u32>>, fits: &dyn Fn(&Card) -> bool| {
            let known = list.into_iter().flatten().take(LOOKED_THROUGH);
            let others = known
                .filter_map(|id| self.cards.get(id))
                .filter(|other| other.server != card.server && fits(other));
            all.extend(others.take(ALIKE));
        };
        take(self.by_skeleton.get(&card.skeleton), &|_| true);
        for length in card.skeleton.len().saturating_sub(1)..=card.skeleton.len() + 1 {
            for key in halves(&card.skeleton, length) {
                take(self.by_half.get(&key), &|other| {
                    near(&card.skeleton, &other.skeleton)
                });
            }
        }
        if let Some(base) = without_affix(&card.name) {
            take(self.by_skeleton.get(skeleton(&base).as_str()), &|_| true);
        }
        for band in card.bands() {
            take(self.by_band.get(&band), &|_| true);
        }
        all.sort_unstable_by_key(|other| other.order);
        all.dedup_by_key(|other| other.order);
        all
    }
}

fn drop_from<K: Hash + Eq>(index: &mut HashMap<K, Vec<u32>>, key: &K, id: u32) {
    if let Some(ids) = index.get_mut(key) {
        ids.retain(|known| *known != id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}

impl Card {
    fn new(server: Arc<str>, order: u64, name: &str, tool: &Value) -> Self {
        let description = tool
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let mut parameters: Vec<u32> = tool
            .get("inputSchema")
            .and_then(|schema| schema.get("properties"))
            .and_then(Value::as_object)
            .map(|properties| {
                properties
                    .keys()
                    .take(PAIRS)
                    .map(|key| hash(&skeleton(key)))
                    .collect()
            })
            .unwrap_or_default();
        parameters.sort_unstable();
        let name = folded(name);
        Self {
            server,
            order,
            skeleton: skeleton(&name).into(),
            name,
            parameters: parameters.into(),
            pairs: pairs(description).into(),
        }
    }

    /// Keys of the index of descriptions: texts that are mostly equal share at least one.
    fn bands(&self) -> Vec<(u8, u32)> {
        if self.pairs.len() < TEXT_MIN {
            return Vec::new();
        }
        let least = |seed: u32| {
            self.pairs
                .iter()
                .map(|pair| mix(*pair, seed))
                .min()
                .unwrap_or_default()
        };
        (0..BANDS as u32)
            .map(|band| (band as u8, mix(least(2 * band), least(2 * band + 1))))
            .collect()
    }

    /// How much of the shorter description stands in the longer one, 0 to 1. Of texts that are too
    /// short for that, only equal ones are alike.
    fn likeness_of_text(&self, other: &Self) -> f32 {
        let shorter = self.pairs.len().min(other.pairs.len());
        if shorter >= TEXT_MIN {
            common(&self.pairs, &other.pairs) as f32 / shorter as f32
        } else if shorter > 0 && self.pairs == other.pairs {
            RELATED_TEXT
        } else {
            0.0
        }
    }

    /// Whether the descriptions are the same text, long enough to be no commonplace.
    fn same_text(&self, other: &Self, few: bool) -> bool {
        let least = if few { TEXT_COPIED } else { TEXT_COPIED + 3 };
        let (shorter, longer) = (
            self.pairs.len().min(other.pairs.len()),
            self.pairs.len().max(other.pairs.len()),
        );
        let common = common(&self.pairs, &other.pairs) as f32;
        (shorter >= least && common >= SAME_TEXT * longer as f32)
            || (shorter >= TEXT_QUOTED && common >= 0.85 * shorter as f32)
    }

    /// Whether both take the same parameters, for the most part.
    fn same_parameters(&self, other: &Self) -> bool {
        let (a, b) = (&self.parameters, &other.parameters);
        a.len().min(b.len()) >= 1 && common(a, b) * 4 >= a.len().max(b.len()) * 3
    }
}

/// Hashes of the pairs of neighbouring words of a text's beginning, sorted.
fn pairs(text: &str) -> Vec<u32> {
    let mut previous = 0;
    let mut pairs = Vec::with_capacity(PAIRS);
    for word in text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(PAIRS)
    {
        let word = hash(&word.to_lowercase());
        pairs.push(mix(previous, word));
        previous = word;
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// How many elements two sorted lists have in common.
fn common(mut a: &[u32], mut b: &[u32]) -> usize {
    let mut common = 0;
    while let ([one, rest_of_a @ ..], [other, rest_of_b @ ..]) = (a, b) {
        match one.cmp(other) {
            Ordering::Less => a = rest_of_a,
            Ordering::Greater => b = rest_of_b,
            Ordering::Equal => {
                common += 1;
                (a, b) = (rest_of_a, rest_of_b);
            }
        }
    }
    common
}

fn name_of(tool: &Value) -> Option<&str> {
    tool.get("name")
        .and_then(Value::as_str)
        .filter(|name| !name.is_empty())
}

fn hash(text: &str) -> u32 {
    hash_bytes(text.as_bytes())
}

fn mix(a: u32, b: u32) -> u32 {
    let mixed = (a ^ b.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
    mixed ^ (mixed >> 15)
}
