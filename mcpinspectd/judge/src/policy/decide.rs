//! Decides what becomes of a message.
//!
//! Rules are evaluated in order of priority. `allow`, `block` and `ask` end the matter; all others continue.
//! Cheap conditions are evaluated first, for all rules; only for what is still open is the text
//! examined, once for all of them.

use std::time::Duration;

use mcpinspect_core::mcp::ambiguity::MessagePart;
use mcpinspect_core::model::Direction;

use super::action::{Action, Answer, Edit};
use super::condition::{Condition, Facts};
use super::lookup::lookup;
use super::memory::{After, Memory, Rate};
use super::names::Names;
use super::situation::{Doubt, Kind, Situation};
use super::value::{Root, ValueTest};

/// The longest that all delays of one message may be together.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(60);

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its id, which no other rule has.
    pub id: String,
    /// What it is for, in words.
    pub name: Option<String>,
    /// Rules of higher priority come first.
    pub priority: i64,
    /// What it does.
    pub action: Action,
    /// The file and line where it begins.
    pub location: (String, usize),
    pub(super) kinds: Vec<Kind>,
    pub(super) condition: Condition,
    pub(super) rate: Option<Rate>,
    pub(super) after: Option<After>,
}

/// A policy: rules in the order in which they are evaluated.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub(super) rules: Vec<Rule>,
    pub(super) tests: Vec<ValueTest>,
    pub(super) names: Names,
}

/// What becomes of a message, and which rules say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The rules that matched, by their index in [`Policy::rules`], in order.
    pub matched: Vec<usize>,
    /// What becomes of it.
    pub verdict: Verdict,
    /// How long it waits first.
    pub delay: Duration,
}

/// What becomes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes, with the changes of the rules that matched.
    Pass,
    /// The last rule that matched keeps it back.
    Block,
    /// It cannot be read with certainty, and the rule at this index might concern it.
    Refuse(Doubt, usize),
}

impl Policy {
    /// The rules, in the order in which they are evaluated.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether a rule could keep something in this direction from its receiver.
    pub(super) fn restrains(&self, direction: Direction) -> bool {
        self.rules.iter().any(|rule| {
            rule.action.restrains()
                && !matches!(&rule.condition, Condition::All(parts)
                    if parts.iter().any(|part| matches!(part, Condition::From(from) if *from != direction)))
        })
    }

    /// Whether a rule asks for what detection finds.
    pub fn asks_for_findings(&self) -> bool {
        self.asks(|condition| matches!(condition, Condition::Finding(..)))
    }

    /// Whether a rule asks whether a tool was approved.
    pub fn asks_for_tool_status(&self) -> bool {
        self.rules.iter().any(Rule::asks_for_tool_status)
    }

    /// Whether a rule asks a person.
    pub fn asks_a_person(&self) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| matches!(rule.action, Action::Ask(_)))
    }

    fn asks(&self, wanted: impl Fn(&Condition) -> bool) -> bool {
        self.rules.iter().any(|rule| rule.asks(&wanted))
    }

    /// Decides what becomes of a message. `memory` is that of its session.
    ///
    /// A rule that hides tools is asked about the listing as a whole here; see [`Policy::hides`].
    /// `allowed` says, for a rule that asks a person, whether the person allowed this message.
    pub(super) fn decide(
        &self,
        seen: &Situation<'_>,
        memory: &mut Memory,
        allowed: &mut dyn FnMut(usize) -> bool,
    ) -> Decision {
        let facts = self.facts(seen);
        let mut decision = Decision {
            matched: Vec::new(),
            verdict: Verdict::Pass,
            delay: Duration::ZERO,
        };
        for (at, rule) in self.rules.iter().enumerate() {
            if !rule.concerns(seen) {
                continue;
            }
            if matches!(rule.action, Action::Hide) {
                // It asks about each tool, and a listing that can be read in two ways has no certain tools.
                if let Some(doubt) = seen.doubt
                    && rule.condition.holds(&of_any_tool(seen), &facts) != Some(false)
                {
                    decision.verdict = Verdict::Refuse(doubt, at);
                    break;
                }
                continue;
            }
            match (rule.condition.holds(seen, &facts), seen.doubt) {
                (Some(false), _) => continue,
                (None, Some(doubt)) if rule.action.restrains() => {
                    decision.verdict = Verdict::Refuse(doubt, at);
                    break;
                }
                (None, _) => continue,
                (Some(true), _) => {}
            }
            let after = rule.after.as_ref();
            if after.is_some_and(|after| !memory.has_come(at, after, seen.time)) {
                continue;
            }
            let rate = rule.rate.as_ref();
            if rate.is_some_and(|rate| !memory.exceeds(at, rate, seen.time)) {
                continue;
            }
            if let (Action::Modify(_) | Action::Ask(_), Some(doubt)) = (&rule.action, seen.doubt) {
                decision.verdict = Verdict::Refuse(doubt, at);
                break;
            }
            decision.matched.push(at);
            match &rule.action {
                Action::Block(_) => decision.verdict = Verdict::Block,
                Action::Ask(_) if !allowed(at) => decision.verdict = Verdict::Block,
                Action::Delay(delay) => decision.delay = (decision.delay + *delay).min(MAX_DELAY),
                _ => {}
            }
            if rule.action.is_final() {
                break;
            }
        }
        // What did not pass did not happen.
        let passes = decision.verdict == Verdict::Pass;
        for (at, rule) in self.rules.iter().enumerate() {
            if let Some(after) = &rule.after
                && passes
                && after.condition.holds(seen, &facts) != Some(false)
            {
                memory.came(at, seen.time);
            }
        }
        decision
    }

    /// The first rule that hides the tool that `seen` is about, if there is one.
    pub(super) fn hides(&self, seen: &Situation<'_>) -> Option<usize> {
        let facts = Facts::unknown(0);
        self.rules.iter().position(|rule| {
            matches!(rule.action, Action::Hide)
                && rule.concerns(seen)
                && rule.condition.holds(seen, &facts) == Some(true)
        })
    }

    /// Whether a rule hides tools.
    pub(super) fn hides_tools(&self) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| matches!(rule.action, Action::Hide))
    }

    /// The answer of a rule that blocks.
    pub(super) fn answer(&self, rule: usize) -> Option<&Answer> {
        match &self.rules.get(rule)?.action {
            Action::Block(answer) => Some(answer),
            Action::Ask(question) => Some(&question.denial),
            _ => None,
        }
    }

    /// The changes of the rules that matched.
    pub(super) fn edits<'a>(&'a self, decision: &'a Decision) -> impl Iterator<Item = &'a Edit> {
        let rules = decision.matched.iter().filter_map(|at| self.rules.get(*at));
        rules.flat_map(|rule| match &rule.action {
            Action::Modify(edits) => edits.as_slice(),
            _ => &[],
        })
    }

    /// What is known about the values that rules ask about, for those whose other conditions leave it open.
    fn facts(&self, seen: &Situation<'_>) -> Facts {
        let mut facts = Facts::unknown(self.tests.len());
        if self.tests.is_empty() || seen.doubt.is_some() {
            return facts;
        }
        let mut wanted = vec![false; self.tests.len()];
        let mut want = |condition: &Condition| {
            if condition.holds(seen, &facts).is_none() {
                condition.each(&mut |part| {
                    if let Condition::Value(test, _) = part
                        && let Some(wanted) = wanted.get_mut(*test)
                    {
                        *wanted = true;
                    }
                });
            }
        };
        for rule in &self.rules {
            if rule.concerns(seen) {
                want(&rule.condition);
            }
            if let Some(after) = &rule.after {
                want(&after.condition);
            }
        }
        for root in [Root::Params, Root::Result] {
            let Some(value) = root.of(seen) else {
                continue;
            };
            let tests = self.tests.iter().enumerate();
            let tests =
                tests.filter(|(at, test)| test.root == root && wanted.get(*at) == Some(&true));
            let mut holding: Vec<usize> = Vec::new();
            let paths = tests.clone().map(|(at, test)| (at, &test.path));
            lookup(value, paths, |at, value| {
                let is_it = |test: &ValueTest| test.wanted.holds(value);
                if !holding.contains(&at) && self.tests.get(at).is_some_and(is_it) {
                    holding.push(at);
                }
            });
            for (at, _) in tests {
                facts.learn(at, holding.contains(&at));
            }
        }
        facts
    }
}

/// The same, with a tool about which nothing is certain.
fn of_any_tool<'a>(seen: &Situation<'a>) -> Situation<'a> {
    let without_depth = |doubt: Doubt| Doubt {
        part: doubt.part.min(MessagePart::Params),
        ..doubt
    };
    Situation {
        doubt: seen.doubt.map(without_depth),
        ..*seen
    }
}

impl Rule {
    /// Whether it asks whether a tool was approved.
    pub(super) fn asks_for_tool_status(&self) -> bool {
        self.asks(&|condition| matches!(condition, Condition::ToolStatus(_)))
    }

    fn asks(&self, wanted: &dyn Fn(&Condition) -> bool) -> bool {
        let mut asks = false;
        let mut visit = |condition: &Condition| asks |= wanted(condition);
        self.condition.each(&mut visit);
        if let Some(after) = &self.after {
            after.condition.each(&mut visit);
        }
        asks
    }

    /// Whether it is about messages of this kind. A message's kind may be in doubt.
    fn concerns(&self, seen: &Situation<'_>) -> bool {
        self.kinds.contains(&seen.kind) || seen.doubt.is_some_and(|doubt| !doubt.is_kind_sure)
    }
}
