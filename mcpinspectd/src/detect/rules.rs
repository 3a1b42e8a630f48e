//! Rule packs, checked and compiled.
//!
//! One Aho-Corasick automaton holds every word, literal and anchor of every pack. Its hits are bits;
//! a rule is a few masks over those bits. Regular expressions never see a whole text: they are tried
//! in a bounded window around an anchor that the automaton found.

use std::collections::{BTreeMap, HashMap};

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};
use globset::{Glob, GlobSet, GlobSetBuilder};
use regex::bytes::{Regex, RegexBuilder};

use super::category::{Category, Evidence, Part, Surface};
use super::document::Document;
use super::pack::{Decides, PackError, Probe, RawPack, RawRule, Scope, Token, line_of, parse};
use super::phrases::Phrases;
use super::suppress::Suppression;
use crate::model::Severity;

/// Most concepts (tokens and word lists) that a rule set can have.
const CONCEPT_LIMIT: usize = 128;
/// Most rules of all packs together.
const RULE_LIMIT: usize = 4096;
/// Most bytes of pattern text of all packs together; keeps the automaton within its memory.
const PATTERN_LIMIT: usize = 256 * 1024;
/// Up to how many bytes of pattern text the automaton is laid out for speed; about 300 bytes of
/// memory for each.
const DFA_LIMIT: usize = 56 * 1024;
/// Most bytes that one compiled regular expression may take.
const REGEX_LIMIT: usize = 256 * 1024;
/// Shortest anchor: shorter ones occur everywhere.
const ANCHOR_MIN: usize = 3;
/// Bytes to each side of an anchor, when the rule does not say.
const WINDOW: u32 = 160;
/// The widest window that a rule may ask for.
const WINDOW_MAX: u32 = 1024;

/// Index of a rule in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u16);

/// A compiled rule.
#[derive(Debug)]
pub struct Rule {
    /// Its name.
    pub id: String,
    /// What it is a sign of.
    pub category: Category,
    /// What kind of evidence it is.
    pub evidence: Evidence,
    /// How bad it is by itself.
    pub severity: Severity,
    /// Weight in log odds before fitting.
    pub weight: f32,
    /// Whether it decides alone.
    pub decides: Option<Decides>,
    /// One sentence for a person.
    pub says: String,
    /// For which servers.
    pub servers: Option<GlobSet>,
    /// Whether it came with the program.
    pub builtin: bool,
    pub(super) how: How,
    surfaces: u8,
    parts: u8,
}

impl Rule {
    /// Whether it looks at texts of this surface.
    pub fn on(&self, surface: Surface) -> bool {
        self.surfaces & (1 << surface as u8) != 0
    }

    /// Whether it looks at this part of a subject.
    pub fn in_part(&self, part: Part) -> bool {
        self.parts & (1 << part as u8) != 0
    }

    /// Whether it applies to this server.
    pub fn for_server(&self, server: Option<&str>) -> bool {
        match (&self.servers, server) {
            (None, _) => true,
            (Some(globs), Some(server)) => globs.is_match(server),
            (Some(_), None) => false,
        }
    }
}

/// How a rule is found.
#[derive(Debug)]
pub(super) enum How {
    /// Words that stand together; see [`Plan`].
    Together,
    /// A literal, straight from the automaton.
    Literal,
    /// A regular expression around an anchor.
    Pattern { regex: Regex, window: u32 },
    /// Code.
    Probe,
}

/// A rule about words that stand together, laid out for being tested on every sentence: nearly all
/// tests end at `rarest`.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The element of `all` that is met least.
    pub rarest: u128,
    pub none: u128,
    pub all: Box<[u128]>,
    pub rule: RuleId,
    pub ordered: bool,
    pub within: u32,
}

/// The plans of one surface and scope.
#[derive(Debug, Default)]
pub(super) struct Plans {
    all: Vec<Plan>,
    /// For 64 plans each: for each concept a bit for each plan that has it in its rarest element.
    /// Most sentences have few concepts, and most plans are passed over by that.
    having: Vec<[u64; u128::BITS as usize]>,
}

impl Plans {
    fn place(surface: Surface, scope: Scope) -> usize {
        surface as usize * Scope::ALL.len() + scope as usize
    }

    fn push(&mut self, plan: Plan) {
        let place = self.all.len() % 64;
        if place == 0 {
            self.having.push([0; u128::BITS as usize]);
        }
        if let Some(having) = self.having.last_mut() {
            for concept in ones(plan.rarest) {
                having[concept] |= 1 << place;
            }
        }
        self.all.push(plan);
    }

    /// Those that could hold where only these concepts are `present`.
    pub fn possible(&self, present: u128) -> impl Iterator<Item = &Plan> {
        let shares = self.having.iter().zip(self.all.chunks(64));
        shares.flat_map(move |(having, plans)| {
            let possible = ones(present).fold(0, |all, concept| all | having[concept]);
            ones(possible.into()).map(|place| &plans[place])
        })
    }
}

/// The positions of the ones in a number.
fn ones(mut number: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (number != 0).then_some(number.trailing_zeros() as usize);
        number &= number.wrapping_sub(1);
        next
    })
}

/// What one pattern of the automaton stands for.
#[derive(Debug, Default)]
pub(super) struct Meaning {
    pub concepts: u128,
    pub literals: Vec<RuleId>,
    pub anchors: Vec<RuleId>,
    pub word_start: bool,
    pub word_end: bool,
}

impl Meaning {
    /// Adds `text` to the phrases, where it is one: words stand for concepts alone.
    fn is_phrase(&self, text: &str, phrases: &mut Phrases) -> bool {
        let words = self.word_start && self.literals.is_empty() && self.anchors.is_empty();
        words && phrases.add(self.concepts, text, !self.word_end)
    }
}

/// Patterns that are no phrases of whole words, and what each stands for.
#[derive(Debug)]
pub(super) struct Automaton {
    pub patterns: AhoCorasick,
    pub meanings: Vec<Meaning>,
}

impl Automaton {
    fn build(patterns: Vec<(String, Meaning)>) -> Result<Self, PackError> {
        let bytes: usize = patterns.iter().map(|(text, _)| text.len()).sum();
        let kind = if bytes <= DFA_LIMIT {
            AhoCorasickKind::DFA
        } else {
            AhoCorasickKind::ContiguousNFA
        };
        let (texts, meanings): (Vec<String>, Vec<Meaning>) = patterns.into_iter().unzip();
        let patterns = AhoCorasickBuilder::new()
            .match_kind(MatchKind::Standard)
            .kind(Some(kind))
            .build(texts)
            .map_err(|error| PackError {
                file: "rules".into(),
                line: 1,
                problem: error.to_string(),
            })?;
        Ok(Self { patterns, meanings })
    }

    fn memory(&self) -> usize {
        let meanings = self.meanings.iter();
        let meanings: usize = meanings
            .map(|m| size_of::<Meaning>() + 2 * (m.literals.len() + m.anchors.len()))
            .sum();
        self.patterns.memory_usage() + meanings
    }
}

/// A compiled set of rules. Shared between threads; immutable.
#[derive(Debug)]
pub struct RuleSet {
    rules: Vec<Rule>,
    /// Nearly all patterns.
    pub(super) phrases: Phrases,
    /// The others of ASCII letters.
    pub(super) ascii: Automaton,
    /// The others: texts that are all ASCII need not be searched for them.
    pub(super) wide: Automaton,
    plans: [Plans; Surface::ALL.len() * Scope::ALL.len()],
    probes: HashMap<Probe, RuleId>,
    suppressions: Vec<Suppression>,
}

impl RuleSet {
    /// Compiles packs given as (file name, text), the first of which came with the program.
    pub fn compile(packs: &[(&str, &str)]) -> Result<Self, PackError> {
        let mut compiler = Compiler::new();
        let mut parsed = Vec::new();
        for (file, text) in packs {
            let pack = parse(file, text)?;
            compiler.words(&Source { file, text }, &pack)?;
            parsed.push(pack);
        }
        for (index, ((file, text), pack)) in packs.iter().zip(parsed).enumerate() {
            let source = Source { file, text };
            for rule in pack.rules {
                compiler.rule(&source, rule, index == 0)?;
            }
            for suppression in pack.suppressions {
                compiler.suppressions.push(
                    suppression
                        .check()
                        .map_err(|(position, problem)| source.error(position, problem))?,
                );
            }
        }
        compiler.finish()
    }

    /// All rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// One rule.
    pub fn rule(&self, id: RuleId) -> &Rule {
        &self.rules[id.0 as usize]
    }

    /// The rules about words that stand together, for a surface and a scope.
    pub(super) fn plans(&self, surface: Surface, scope: Scope) -> &Plans {
        &self.plans[Plans::place(surface, scope)]
    }

    /// What is not to be told.
    pub fn suppressions(&self) -> &[Suppression] {
        &self.suppressions
    }

    /// The rule of a probe.
    pub fn probe(&self, probe: Probe) -> Option<RuleId> {
        self.probes.get(&probe).copied()
    }

    /// Memory of the automaton and what it points to, in bytes (regular expressions aside).
    pub fn memory(&self) -> usize {
        let patterns = self.phrases.memory() + self.ascii.memory() + self.wide.memory();
        patterns + self.rules.len() * size_of::<Rule>()
    }
}

/// A pack's text, for saying where something is wrong.
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn error(&self, position: usize, problem: impl Into<String>) -> PackError {
        PackError {
            file: self.file.to_owned(),
            line: line_of(self.text, position),
            problem: problem.into(),
        }
    }
}

struct Compiler {
    concepts: BTreeMap<String, u128>,
    patterns: BTreeMap<(String, bool, bool), Meaning>,
    pattern_bytes: usize,
    rules: Vec<Rule>,
    names: HashMap<String, usize>,
    plans: [Plans; Surface::ALL.len() * Scope::ALL.len()],
    probes: HashMap<Probe, RuleId>,
    suppressions: Vec<Suppression>,
}

impl Compiler {
    fn new() -> Self {
        let concepts = Token::ALL
            .iter()
            .map(|(name, token)| ((*name).to_owned(), 1u128 << *token as u32))
            .collect();
        Self {
            concepts,
            patterns: BTreeMap::new(),
            pattern_bytes: 0,
            rules: Vec::new(),
            names: HashMap::new(),
            plans: Default::default(),
            probes: HashMap::new(),
            suppressions: Vec::new(),
        }
    }

    fn words(&mut self, source: &Source<'_>, pack: &RawPack) -> Result<(), PackError> {
        for (name, words) in &pack.words {
            let bit = match self.concepts.get(name) {
                Some(bit) => *bit,
                None => {
                    let next = self.concepts.len();
                    let position = words.first().map_or(0, |word| word.span().start);
                    if next >= CONCEPT_LIMIT {
                        return Err(source.error(
                            position,
                            format!("more than {} word lists", CONCEPT_LIMIT - Token::ALL.len()),
                        ));
                    }
                    self.concepts.insert(name.clone(), 1u128 << next);
                    1u128 << next
                }
            };
            for word in words {
                self.pattern(source, word.span().start, word.get_ref(), true)?
                    .concepts |= bit;
            }
        }
        Ok(())
    }

    /// The automaton's entry for a text. `words`: it must stand as whole words (`*` at an end: any
    /// rest of that word).
    fn pattern(
        &mut self,
        source: &Source<'_>,
        position: usize,
        text: &str,
        words: bool,
    ) -> Result<&mut Meaning, PackError> {
        let open_start = words && text.starts_with('*');
        let open_end = words && text.ends_with('*');
        let folded = fold(if words { text.trim_matches('*') } else { text });
        if folded.len() < 2 {
            return Err(source.error(
                position,
                format!("`{text}` is too short: give at least two letters"),
            ));
        }
        self.pattern_bytes += folded.len();
        if self.pattern_bytes > PATTERN_LIMIT {
            return Err(source.error(
                position,
                format!("more than {PATTERN_LIMIT} bytes of words, literals and anchors"),
            ));
        }
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let start = words && !open_start && is_word(folded.chars().next());
        let end = words && !open_end && is_word(folded.chars().last());
        let meaning = self.patterns.entry((folded, start, end)).or_default();
        meaning.word_start = start;
        meaning.word_end = end;
        Ok(meaning)
    }

    fn rule(&mut self, source: &Source<'_>, raw: RawRule, builtin: bool) -> Result<(), PackError> {
        let at = raw.id.span().start;
        let name = raw.id.get_ref().clone();
        let well_formed = !name.is_empty()
            && name.len() <= 80
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !well_formed {
            return Err(source.error(
                at,
                format!("rule id `{name}`: use up to 80 lower-case letters, digits and hyphens"),
            ));
        }
        if self.names.insert(name.clone(), self.rules.len()).is_some() {
            return Err(source.error(at, format!("rule id `{name}` is used twice")));
        }
        if self.rules.len() >= RULE_LIMIT {
            return Err(source.error(at, format!("more than {RULE_LIMIT} rules")));
        }
        if !raw.weight.is_finite() || raw.weight.abs() > 20.0 {
            return Err(source.error(
                at,
                format!("rule `{name}`: weight must be between -20 and 20"),
            ));
        }
        let id = RuleId(u16::try_from(self.rules.len()).unwrap_or(u16::MAX));
        let how = self.how(source, &raw, id)?;
        let surfaces = if raw.on.is_empty() {
            u8::MAX
        } else {
            raw.on.iter().fold(0, |mask, s| mask | 1 << *s as u8)
        };
        // Names are made of the same words as sentences and mean less: only rules that ask for them
        // see them.
        let parts = match raw.parts.as_slice() {
            [] if raw.all.is_empty() => u8::MAX,
            [] => !(1 << Part::Key as u8 | 1 << Part::Name as u8),
            parts => parts.iter().fold(0, |mask, part| mask | 1 << *part as u8),
        };
        let servers = self.servers(source, &raw)?;
        self.rules.push(Rule {
            says: raw
                .says
                .unwrap_or_else(|| format!("Matches the rule {name}.")),
            evidence: raw.evidence.unwrap_or_else(|| usual_evidence(raw.category)),
            id: name,
            category: raw.category,
            severity: raw.severity,
            weight: raw.weight,
            decides: raw.decides,
            servers,
            builtin,
            how,
            surfaces,
            parts,
        });
        Ok(())
    }

    fn servers(&self, source: &Source<'_>, raw: &RawRule) -> Result<Option<GlobSet>, PackError> {
        if raw.servers.is_empty() {
            return Ok(None);
        }
        let mut globs = GlobSetBuilder::new();
        for server in &raw.servers {
            let glob = Glob::new(server.get_ref())
                .map_err(|error| source.error(server.span().start, error.to_string()))?;
            globs.add(glob);
        }
        globs
            .build()
            .map(Some)
            .map_err(|error| source.error(raw.id.span().start, error.to_string()))
    }

    fn how(&mut self, source: &Source<'_>, raw: &RawRule, id: RuleId) -> Result<How, PackError> {
        let at = raw.id.span().start;
        let name = raw.id.get_ref();
        let ways = [
            !raw.all.is_empty(),
            !raw.literals.is_empty(),
            raw.regex.is_some(),
            raw.probe.is_some(),
        ];
        if ways.iter().filter(|way| **way).count() != 1 {
            return Err(source.error(
                at,
                format!(
                    "rule `{name}` needs exactly one of `all`, `literals`, `regex` (with `anchors`)"
                ),
            ));
        }
        if let Some(probe) = &raw.probe {
            if self.probes.insert(*probe.get_ref(), id).is_some() {
                return Err(source.error(probe.span().start, "this probe already has a rule"));
            }
            return Ok(How::Probe);
        }
        if !raw.literals.is_empty() {
            for literal in &raw.literals {
                self.pattern(source, literal.span().start, literal.get_ref(), false)?
                    .literals
                    .push(id);
            }
            return Ok(How::Literal);
        }
        if let Some(regex) = &raw.regex {
            return self.regex(source, raw, regex, id);
        }
        let all = raw
            .all
            .iter()
            .map(|element| self.mask(source, element))
            .collect::<Result<Vec<_>, _>>()?;
        let none = raw
            .none
            .iter()
            .map(|element| self.mask(source, element))
            .try_fold(0, |mask, next| next.map(|next| mask | next))?;
        let plan = Plan {
            rarest: all
                .iter()
                .copied()
                .min_by_key(|element| self.commonness(*element))
                .unwrap_or_default(),
            none,
            all: all.into(),
            rule: id,
            ordered: raw.ordered,
            within: raw.within.unwrap_or(u32::MAX),
        };
        for surface in Surface::ALL
            .iter()
            .filter(|surface| raw.on.is_empty() || raw.on.contains(surface))
        {
            self.plans[Plans::place(*surface, raw.scope)].push(plan.clone());
        }
        Ok(How::Together)
    }

    /// How often an element is met in ordinary text, roughly: short words are common.
    fn commonness(&self, element: u128) -> u64 {
        let words = self
            .patterns
            .iter()
            .filter(|(_, meaning)| meaning.concepts & element != 0);
        let words: u64 = words
            .map(|((text, ..), _)| 100_000 >> text.len().min(16))
            .sum();
        let tokens = (element & ((1u128 << Token::ALL.len()) - 1)).count_ones();
        words + u64::from(tokens) * 20_000
    }

    fn regex(
        &mut self,
        source: &Source<'_>,
        raw: &RawRule,
        regex: &toml::Spanned<String>,
        id: RuleId,
    ) -> Result<How, PackError> {
        let at = regex.span().start;
        if raw.anchors.is_empty() {
            return Err(source.error(
                at,
                "a `regex` needs `anchors`: literals, one of which is part of every match. \
                Without them every byte of every message would be tried",
            ));
        }
        for anchor in &raw.anchors {
            if fold(anchor.get_ref()).len() < ANCHOR_MIN {
                return Err(source.error(
                    anchor.span().start,
                    format!(
                        "anchor `{}` is shorter than {ANCHOR_MIN} bytes: it occurs everywhere",
                        anchor.get_ref()
                    ),
                ));
            }
            self.pattern(source, anchor.span().start, anchor.get_ref(), false)?
                .anchors
                .push(id);
        }
        let window = raw.window.unwrap_or(WINDOW);
        if window > WINDOW_MAX {
            return Err(source.error(at, format!("`window` is more than {WINDOW_MAX} bytes")));
        }
        let regex = RegexBuilder::new(regex.get_ref())
            .unicode(false)
            .size_limit(REGEX_LIMIT)
            .dfa_size_limit(REGEX_LIMIT)
            .build()
            .map_err(|error| source.error(at, format!("`regex`: {error}")))?;
        Ok(How::Pattern { regex, window })
    }

    /// The bits of `a|b|c`.
    fn mask(
        &self,
        source: &Source<'_>,
        element: &toml::Spanned<String>,
    ) -> Result<u128, PackError> {
        element
            .get_ref()
            .split('|')
            .map(str::trim)
            .try_fold(0, |mask, name| match self.concepts.get(name) {
                Some(bit) => Ok(mask | bit),
                None => Err(source.error(
                    element.span().start,
                    format!("no word list and no token is called `{name}`"),
                )),
            })
    }

    fn finish(self) -> Result<RuleSet, PackError> {
        let mut phrases = Phrases::new();
        let patterns = self.patterns.into_iter();
        let (ascii, wide) = patterns
            .map(|((text, ..), meaning)| (text, meaning))
            .filter(|(text, meaning)| !meaning.is_phrase(text, &mut phrases))
            .partition(|(text, _)| text.is_ascii());
        Ok(RuleSet {
            rules: self.rules,
            phrases,
            ascii: Automaton::build(ascii)?,
            wide: Automaton::build(wide)?,
            plans: self.plans,
            probes: self.probes,
            suppressions: self.suppressions,
        })
    }
}

/// A text as the automaton sees it.
pub(super) fn fold(text: &str) -> String {
    let mut document = Document::new();
    document.push(super::document::NodeId::ROOT, Part::Text, text);
    let folded = document.text();
    folded
        .strip_suffix(super::document::PIECE_END as char)
        .unwrap_or(folded)
        .to_owned()
}

fn usual_evidence(category: Category) -> Evidence {
    match category {
        Category::HiddenInstructions | Category::ResultInjection | Category::SamplingAbuse => {
            Evidence::Directive
        }
        Category::Concealment => Evidence::Secrecy,
        Category::ForcedPrerequisite => Evidence::Coupling,
        Category::ArgumentHijack => Evidence::Override,
        Category::CrossServerShadowing => Evidence::Imitation,
        Category::CredentialAccess
        | Category::SecretExposure
        | Category::ElicitationAbuse
        | Category::PathTraversal => Evidence::Sensitive,
        Category::Exfiltration => Evidence::Destination,
        Category::ContextLeak => Evidence::Context,
        Category::UnicodeSmuggling | Category::EncodedPayload => Evidence::Disguise,
        Category::CommandInjection => Evidence::Execution,
        Category::PreferenceManipulation => Evidence::Preference,
        Category::AnnotationDeception => Evidence::Contradiction,
        Category::RugPull
        | Category::ToxicFlow
        | Category::RateAnomaly
        | Category::WireTampering => Evidence::Behaviour,
    }
}
