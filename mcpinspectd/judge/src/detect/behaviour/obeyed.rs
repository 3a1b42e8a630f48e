//! Compares a call with the orders that came in before it.
//!
//! The user's own request is not on the wire, so it is unknown what the user wanted. What is known is
//! whether a call repeats what a text ordered: the same act, on the same things, with the same values; and
//! whether those values have another explanation, because the agent named them before, or because they appear
//! as data in some result. A value that only an order contains, in a call that does what this order says, is
//! hardly the user's.

use std::collections::HashMap;

use mcpinspect_core::model::Timestamp;

use super::acts::{ToolAct, singular};
use super::memory::{AgentMemory, RememberedOrder, TextSource};
use super::values::{self, ADDRESS, ValueHasher, Weight};
use crate::detect::json;
use crate::detect::json::Json;

/// Points from which a call counts as obedience.
const OBEYED: f32 = 3.5;
/// Points from which that is certain, if the text alone was suspicious.
const CERTAIN: f32 = 5.5;
/// Points for the same act; and for another one, if only a value connects it with the order.
const SAME_ACT: f32 = 1.0;
const OTHER_ACT: f32 = -0.5;
/// Points if the order mentions the thing that the tool's name says it works on.
const SAME_THING: f32 = 1.0;
/// Points if everything the call says is in the order.
const NOTHING_ELSE: f32 = 1.0;
/// Points if the text alone already justified a warning.
const SUSPICIOUS: f32 = 1.25;
/// The share of a value's weight that counts if there is another explanation for it.
const EXPLAINED: f32 = 0.2;
/// The share that counts of the weights of further values besides the heaviest.
const FURTHER: f32 = 0.3;
/// Points for an argument that consists of just a value of the order.
const WHOLE: f32 = 0.5;
/// Points for a plain argument that appears in the order word for word.
const SAME_WORDS: f32 = 0.9;
/// Points for an address in the sentences after the order.
const ADDRESS_AFTER: f32 = 2.5;

/// Most arguments to compare, and most bytes of each.
const ARGUMENTS: usize = 64;
const ARGUMENT: usize = 16 * 1024;
/// Longest argument to look for in an order word for word, in bytes.
const WORDS: usize = 120;

/// A call of a tool.
#[derive(Debug)]
pub struct ToolCall<'a> {
    /// What the tool does.
    pub act: &'a ToolAct,
    /// The arguments that are text or numbers, in lower case.
    arguments: Vec<String>,
    /// The hash of each argument.
    hashes: Vec<u64>,
    /// The values in the arguments, with their text.
    values: HashMap<u64, (Weight, String)>,
}

/// A call that does what a text ordered.
#[derive(Clone, Debug)]
pub struct ObeyedOrder {
    /// The order.
    pub order: RememberedOrder,
    /// The most telling value that both have, as written in the call.
    pub value: String,
    /// Whether there is hardly any doubt.
    pub certain: bool,
    points: f32,
}

impl ObeyedOrder {
    /// The probability that it is one, from 0 to 1.
    pub fn probability(&self) -> f32 {
        1.0 / (1.0 + (-(self.points - OBEYED + 2.0)).exp())
    }
}

impl<'a> ToolCall<'a> {
    /// A call with these arguments. `tool` is the tool's name.
    pub fn new(act: &'a ToolAct, tool: &str, arguments: &Json<'_>, hasher: &ValueHasher) -> Self {
        let mut call = Self {
            act,
            arguments: Vec::new(),
            hashes: Vec::new(),
            values: HashMap::new(),
        };
        call.collect(arguments, 0, hasher);
        // A definition may name the tool to call.
        call.values
            .insert(hasher.hash(tool), (1.0, tool.to_owned()));
        call
    }

    fn collect(&mut self, value: &Json<'_>, depth: usize, hasher: &ValueHasher) {
        if depth > json::MAX_DEPTH || self.arguments.len() >= ARGUMENTS {
            return;
        }
        match value {
            Json::String(text) => self.argument(text, hasher),
            Json::Number(number) => self.argument(&number.to_string(), hasher),
            Json::Array(all) => all
                .iter()
                .for_each(|one| self.collect(one, depth + 1, hasher)),
            Json::Object(members) => members
                .iter()
                .for_each(|(_, one)| self.collect(one, depth + 1, hasher)),
            _ => {}
        }
    }

    fn argument(&mut self, text: &str, hasher: &ValueHasher) {
        let text = mcpinspect_core::text::bound(text.trim(), ARGUMENT);
        if text.is_empty() {
            return;
        }
        values::find(&text, |value, weight| {
            self.values
                .entry(hasher.hash(value))
                .or_insert_with(|| (weight, value.to_owned()));
        });
        let hash = hasher.hash(&text);
        let weight = values::weight(&text).unwrap_or(SAME_WORDS);
        for page in values::pages(&text) {
            self.values
                .entry(hasher.hash(page))
                .or_insert_with(|| (ADDRESS, text.clone().into_owned()));
        }
        self.values
            .entry(hash)
            .or_insert_with(|| (weight, text.clone().into_owned()));
        self.hashes.push(hash);
        self.arguments.push(text.to_lowercase());
    }

    /// The values in it, for the memory.
    pub fn values(&self) -> Vec<values::TrackedValue> {
        let all = self.values.iter();
        all.map(|(hash, (weight, _))| values::TrackedValue {
            hash: *hash,
            weight: *weight,
        })
        .collect()
    }

    /// The order that this call carries out, if there is one: the one with which it agrees most.
    pub fn obeys(
        &self,
        memory: &AgentMemory,
        now: Timestamp,
        server: &str,
        tool: &str,
    ) -> Option<ObeyedOrder> {
        let orders = memory
            .orders(now)
            .filter(|one| self.could_obey(one, server, tool));
        let obeyed = orders.filter_map(|order| self.compare(order));
        obeyed
            .filter(|obeyed| obeyed.points >= OBEYED)
            .max_by(|a, b| a.points.total_cmp(&b.points))
    }

    /// Whether the order is one that this call could be after at all.
    fn could_obey(&self, order: &RememberedOrder, server: &str, tool: &str) -> bool {
        let TextSource { definition, .. } = *order.source;
        // A definition says how to call its own tool.
        let own = definition
            && *order.source.server == *server
            && order.source.tool.as_deref() == Some(tool);
        !own && (order.marked || (self.act.has_effect() && !self.act.is_local_work()))
    }

    fn compare(&self, remembered: &RememberedOrder) -> Option<ObeyedOrder> {
        let RememberedOrder {
            order,
            source,
            known,
            ..
        } = remembered;
        let same_act = self.act.acts.meets(order.acts);
        let mut points = if same_act { SAME_ACT } else { OTHER_ACT };
        let sentence = order.text.to_lowercase();
        if same_act
            && self
                .act
                .things
                .iter()
                .any(|thing| has_word(&sentence, thing))
        {
            points += SAME_THING;
        }
        let mut shared: Vec<(f32, &str)> = Vec::new();
        let mut covered = vec![false; self.arguments.len()];
        let mut heaviest: Weight = 0.0;
        for value in &order.values {
            let Some((_, text)) = self.values.get(&value.hash) else {
                continue;
            };
            let whole = self.hashes.iter().position(|hash| *hash == value.hash);
            if let Some(at) = whole {
                covered[at] = true;
            }
            let mut weight = value.weight;
            if known.contains(&value.hash) {
                weight *= EXPLAINED;
            }
            heaviest = heaviest.max(weight);
            if whole.is_some() && weight < ADDRESS {
                weight += WHOLE;
            }
            shared.push((weight, text));
        }
        for (at, argument) in self.arguments.iter().enumerate() {
            if !covered[at]
                && argument.len() > 2
                && argument.len() <= WORDS
                && has_word(&sentence, argument)
            {
                covered[at] = true;
                shared.push((SAME_WORDS, argument));
            }
        }
        // Whom an order is about is often said in the next sentence.
        let said_in_it = !shared.is_empty();
        let after = order
            .after
            .iter()
            .filter(|value| value.weight >= ADDRESS && !known.contains(&value.hash))
            .filter_map(|value| Some((value.hash, &*self.values.get(&value.hash)?.1)));
        for (hash, text) in after {
            if let Some(at) = self.hashes.iter().position(|one| *one == hash) {
                covered[at] = true;
            }
            heaviest = ADDRESS;
            shared.push((ADDRESS_AFTER, text));
        }
        if said_in_it && !covered.is_empty() && covered.iter().all(|one| *one) {
            points += NOTHING_ELSE;
        }
        shared.sort_by(|a, b| b.0.total_cmp(&a.0));
        let further: f32 = shared
            .iter()
            .skip(1)
            .take(3)
            .map(|(weight, _)| weight * FURTHER)
            .sum();
        let (first, value) = *shared.first()?;
        points += first + further;
        if source.suspicious {
            points += SUSPICIOUS;
        }
        // Looking things up, running things and working on files is what agents do all day.
        let everyday = !self.act.has_effect() || self.act.is_local_work();
        let telling = heaviest >= ADDRESS || (source.definition && heaviest >= 2.0);
        if everyday && !(telling && (same_act || source.definition)) {
            return None;
        }
        Some(ObeyedOrder {
            order: remembered.clone(),
            value: value.to_owned(),
            certain: source.suspicious && points >= CERTAIN,
            points,
        })
    }
}

/// Whether `word`, or its singular, occurs in `text` as a word. Both are in lower case.
fn has_word(text: &str, word: &str) -> bool {
    let word = singular(word);
    text.match_indices(word).take(16).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..]
            .trim_start_matches('s')
            .chars()
            .next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}
