//! Compiles rule files into a rule set.
//!
//! Every word, literal and anchor of every file becomes one pattern in one of three indexes, and its
//! hits are bits; a rule is a few masks over those bits. Regular expressions never see a whole text: they
//! are tried in a bounded window around an anchor. Everything that could cost memory or time has a limit,
//! because people in a hurry write rule files, and a mistake is reported with its line.

use std::collections::{BTreeMap, HashMap};

use globset::{Glob, GlobSet, GlobSetBuilder};
use regex::bytes::RegexBuilder;
use toml::Spanned;

use super::automaton::{Automaton, PatternMeaning};
use super::cooccurrence::{Cooccurrence, CooccurrenceIndex};
use super::format::{RawRule, RawRuleFile, RuleError, line_of, parse};
use super::lesson::{Lesson, Lessons};
use super::phrases::PhraseTrie;
use super::rule::{Rule, RuleId, RuleKind};
use super::set::RuleSet;
use super::suppression::Suppression;
use super::vocabulary::{Negation, Probe, TokenKind};
use crate::detect::category::{Category, Evidence, Part, Surface};
use crate::detect::meaning::features::hash;
use crate::detect::text::fold;

/// Most concepts (tokens and word lists) of a rule set.
const CONCEPT_LIMIT: usize = 128;
/// Most rules of all files together.
const RULE_LIMIT: usize = 4096;
/// Most bytes of pattern text of all files together; bounds the memory of the automata.
const PATTERN_LIMIT: usize = 256 * 1024;
/// Most bytes that one compiled regular expression may take.
const REGEX_LIMIT: usize = 256 * 1024;
/// The shortest anchor; shorter ones occur everywhere.
const ANCHOR_MIN: usize = 3;
/// Bytes to each side of an anchor, unless the rule says otherwise.
const WINDOW: u32 = 160;
/// The widest window that a rule may ask for.
const WINDOW_MAX: u32 = 1024;

impl RuleSet {
    /// Compiles rule files, each a name and a text. The first one counts as built in.
    ///
    /// # Errors
    /// The first mistake in any of them.
    pub fn compile(files: &[(&str, &str)]) -> Result<Self, RuleError> {
        let mut compiler = Compiler::new();
        let mut parsed = Vec::new();
        for (file, text) in files {
            let raw = parse(file, text)?;
            compiler.words(&SourceFile { file, text }, &raw)?;
            if parsed.is_empty() {
                compiler.note_signs();
            }
            parsed.push(raw);
        }
        for (index, ((file, text), raw)) in files.iter().zip(parsed).enumerate() {
            let source = SourceFile { file, text };
            for rule in raw.rules {
                compiler.rule(&source, rule, index == 0)?;
            }
            compiler.lessons.extend(raw.lessons);
            for suppression in raw.suppressions {
                compiler.suppressions.push(
                    suppression
                        .check()
                        .map_err(|(position, problem)| source.error(position, problem))?,
                );
            }
        }
        compiler.finish()
    }
}

/// A rule file, to say where something in it is wrong.
struct SourceFile<'a> {
    file: &'a str,
    text: &'a str,
}

impl SourceFile<'_> {
    fn error(&self, position: usize, problem: impl Into<String>) -> RuleError {
        RuleError {
            file: self.file.to_owned(),
            line: line_of(self.text, position),
            problem: problem.into(),
        }
    }
}

struct Compiler {
    concepts: BTreeMap<String, u128>,
    patterns: BTreeMap<(String, bool, bool), PatternMeaning>,
    pattern_bytes: usize,
    rules: Vec<Rule>,
    names: HashMap<String, usize>,
    cooccurrences: [CooccurrenceIndex; CooccurrenceIndex::COUNT],
    probes: HashMap<Probe, RuleId>,
    suppressions: Vec<Suppression>,
    lessons: Vec<Lesson>,
    signs: Vec<(u32, u64)>,
}

impl Compiler {
    fn new() -> Self {
        let concepts = TokenKind::ALL
            .iter()
            .map(|(name, token)| ((*name).to_owned(), 1u128 << *token as u32))
            .collect();
        Self {
            concepts,
            patterns: BTreeMap::new(),
            pattern_bytes: 0,
            rules: Vec::new(),
            names: HashMap::new(),
            cooccurrences: Default::default(),
            probes: HashMap::new(),
            suppressions: Vec::new(),
            lessons: Vec::new(),
            signs: Vec::new(),
        }
    }

    /// Notes the names of the concepts so far, which are built in.
    fn note_signs(&mut self) {
        let named = self.concepts.iter();
        self.signs = named
            .map(|(name, bit)| (bit.trailing_zeros(), hash(name.as_bytes())))
            .collect();
    }

    /// Registers the word lists of a file.
    fn words(&mut self, source: &SourceFile<'_>, file: &RawRuleFile) -> Result<(), RuleError> {
        for (name, words) in &file.words {
            let bit = match self.concepts.get(name) {
                Some(bit) => *bit,
                None => {
                    let next = self.concepts.len();
                    let position = words.first().map_or(0, |word| word.span().start);
                    if next >= CONCEPT_LIMIT {
                        return Err(source.error(
                            position,
                            format!(
                                "more than {} word lists",
                                CONCEPT_LIMIT - TokenKind::ALL.len()
                            ),
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

    /// The entry of a pattern. With `words` it matches whole words only, except at an end with a `*`.
    fn pattern(
        &mut self,
        source: &SourceFile<'_>,
        position: usize,
        text: &str,
        words: bool,
    ) -> Result<&mut PatternMeaning, RuleError> {
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

    /// Adds a rule.
    fn rule(
        &mut self,
        source: &SourceFile<'_>,
        raw: RawRule,
        builtin: bool,
    ) -> Result<(), RuleError> {
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
        let matching = self.matching(source, &raw, id)?;
        let surfaces = if raw.on.is_empty() {
            u8::MAX
        } else {
            raw.on.iter().fold(0, |mask, s| mask | 1 << *s as u8)
        };
        // Names consist of the same words as sentences but mean less, so only rules that ask for names
        // examine them.
        let parts = match raw.parts.as_slice() {
            [] if raw.all.is_empty() => u8::MAX,
            [] => !(1 << Part::Key as u8 | 1 << Part::Name as u8),
            parts => parts.iter().fold(0, |mask, part| mask | 1 << *part as u8),
        };
        let servers = self.servers(source, &raw)?;
        self.rules.push(Rule {
            explanation: raw
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
            matching,
            surfaces,
            parts,
        });
        Ok(())
    }

    /// The servers that a rule examines.
    fn servers(
        &self,
        source: &SourceFile<'_>,
        raw: &RawRule,
    ) -> Result<Option<GlobSet>, RuleError> {
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

    /// How a rule matches. Registers its patterns.
    fn matching(
        &mut self,
        source: &SourceFile<'_>,
        raw: &RawRule,
        id: RuleId,
    ) -> Result<RuleKind, RuleError> {
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
            return Ok(RuleKind::Probe);
        }
        if !raw.literals.is_empty() {
            for literal in &raw.literals {
                self.pattern(source, literal.span().start, literal.get_ref(), false)?
                    .literals
                    .push(id);
            }
            return Ok(RuleKind::Literal);
        }
        if let Some(regex) = &raw.regex {
            return self.regex(source, raw, regex, id);
        }
        let all = raw
            .all
            .iter()
            .map(|element| self.mask(source, element))
            .collect::<Result<Vec<_>, _>>()?;
        let any = |elements: &[Spanned<String>]| {
            let mut masks = elements.iter().map(|element| self.mask(source, element));
            masks.try_fold(0, |mask, next| next.map(|next| mask | next))
        };
        let (none, asserted, denied) = (any(&raw.none)?, any(&raw.asserted)?, any(&raw.denied)?);
        let cooccurrence = Cooccurrence {
            rarest: all
                .iter()
                .copied()
                .min_by_key(|element| self.commonness(*element))
                .unwrap_or_default(),
            none,
            asserted,
            denied,
            all: all.into(),
            rule: id,
            ordered: raw.ordered,
            within: raw.within.unwrap_or(u32::MAX),
        };
        for surface in Surface::ALL
            .iter()
            .filter(|surface| raw.on.is_empty() || raw.on.contains(surface))
        {
            self.cooccurrences[CooccurrenceIndex::place(*surface, raw.scope)]
                .push(cooccurrence.clone());
        }
        Ok(RuleKind::Cooccurrence)
    }

    /// A rough measure of how common an element is in ordinary text: short words are common.
    fn commonness(&self, element: u128) -> u64 {
        let words = self
            .patterns
            .iter()
            .filter(|(_, meaning)| meaning.concepts & element != 0);
        let words: u64 = words
            .map(|((text, ..), _)| 100_000 >> text.len().min(16))
            .sum();
        let tokens = (element & ((1u128 << TokenKind::ALL.len()) - 1)).count_ones();
        words + u64::from(tokens) * 20_000
    }

    fn regex(
        &mut self,
        source: &SourceFile<'_>,
        raw: &RawRule,
        regex: &Spanned<String>,
        id: RuleId,
    ) -> Result<RuleKind, RuleError> {
        let at = regex.span().start;
        if raw.anchors.is_empty() {
            return Err(source.error(
                at,
                "a `regex` needs `anchors`: literals, one of which is part of every match. \
                Without them it would be tried at every byte of every message",
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
        Ok(RuleKind::Regex { regex, window })
    }

    /// The concepts of `a|b|c`, as bits.
    fn mask(&self, source: &SourceFile<'_>, element: &Spanned<String>) -> Result<u128, RuleError> {
        element
            .get_ref()
            .split('|')
            .map(str::trim)
            .try_fold(0, |mask, name| match self.concepts.get(name) {
                Some(bit) => Ok(mask | bit),
                None => Err(source.error(
                    element.span().start,
                    format!("`{name}` is neither a word list nor a token"),
                )),
            })
    }

    /// The concepts of a word list; none if there is no such list.
    fn list(&self, name: &str) -> u128 {
        self.concepts.get(name).copied().unwrap_or_default()
    }

    fn finish(self) -> Result<RuleSet, RuleError> {
        let negation = Negation {
            by: self.list("negates"),
            lifted: self.list("lifts_negation"),
            ended: self.list("ends_negation"),
        };
        let mut phrases = PhraseTrie::new();
        let patterns = self.patterns.into_iter();
        let (ascii, wide) = patterns
            .map(|((text, ..), meaning)| (text, meaning))
            .filter(|(text, meaning)| !meaning.add_to(&mut phrases, text))
            .partition(|(text, _)| text.is_ascii());
        Ok(RuleSet {
            rules: self.rules,
            phrases,
            ascii: Automaton::build(ascii)?,
            wide: Automaton::build(wide)?,
            cooccurrences: self.cooccurrences,
            probes: self.probes,
            suppressions: self.suppressions,
            lessons: Lessons::new(self.lessons),
            signs: self.signs,
            negation,
        })
    }
}

/// The kind of evidence that most rules of a category are.
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
        | Category::InjectionObeyed
        | Category::RateAnomaly
        | Category::WireTampering => Evidence::Behaviour,
    }
}
