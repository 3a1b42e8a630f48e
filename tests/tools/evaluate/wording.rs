//! Wording that the model has not seen: whole definitions of an author, by a model without that author's examples.
//!
//! The model's own examples say little about the next attack, since it was fitted to them. So it is fitted anew
//! without each author, and its verdicts on that author's definitions, together with those of the rules, are
//! counted per language.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use mcpinspect_core::model::Action;
use mcpinspect_judge::detect::WeightedRules;
use mcpinspect_judge::detect::analysis::Analyser;
use mcpinspect_judge::detect::meaning::model::Model;
use mcpinspect_tests::training::examples::{self, Definition, Example};
use mcpinspect_tests::training::fit;

use super::tables::{Count, percent};

/// The bars: attacks in English and all languages at `warn` and at `alert`, attacks in other languages at `alert`,
/// honest twins at `alert`.
const WARN: f64 = 45.0;
const ALERT: f64 = 30.0;
const OTHER_LANGUAGES: f64 = 25.0;
const TWINS: f64 = 2.0;

/// What a definition is, in the order of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Attack,
    Twin,
    Strict,
}

impl Kind {
    fn of(definition: &Definition) -> Self {
        match (definition.attack, definition.pair.is_empty()) {
            (true, _) => Self::Attack,
            (false, false) => Self::Twin,
            (false, true) => Self::Strict,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Attack => "attacks",
            Self::Twin => "honest twins",
            Self::Strict => "strict honest ones",
        }
    }
}

/// The definitions that a line is about.
type Select<'s> = &'s dyn Fn(&Definition) -> bool;

/// A definition with its verdict and score.
type Verdict<'d> = (&'d Definition, Action, f32);

/// The report on the examples in a directory.
pub fn report(rules: &Arc<WeightedRules>, directory: &Path) -> anyhow::Result<String> {
    let (examples, definitions) = examples::read(directory, &[])?;
    let mut out = String::from(
        "\nwording that was not seen: each author's definitions, by a model that was fitted without that author\n",
    );
    let by_author = left_out(rules, &examples, &definitions)?;
    let whole: [(&str, Select<'_>); 2] = [
        ("en", &|one| one.lang == "en"),
        ("others", &|one| one.lang != "en"),
    ];
    for kind in [Kind::Attack, Kind::Twin, Kind::Strict] {
        for (name, of) in whole {
            line(&mut out, kind.name(), name, &by_author, &|one| {
                Kind::of(one) == kind && of(one)
            });
        }
    }
    bars(&mut out, &by_author);
    for (name, of) in whole {
        let scores = |attack: bool| {
            let selected = by_author
                .iter()
                .filter(move |(one, ..)| one.attack == attack && of(one));
            selected.map(|(.., score)| *score).collect::<Vec<f32>>()
        };
        found_at(&mut out, name, scores(true), scores(false));
    }
    let _ = writeln!(out, "\n  by author");
    groups(&mut out, &by_author, |one| &one.author);
    let _ = writeln!(out, "\n  by language");
    groups(&mut out, &by_author, |one| &one.lang);
    Ok(out)
}

/// Judges the definitions of each author by a model that was fitted without the examples of that author.
fn left_out<'d>(
    rules: &Arc<WeightedRules>,
    examples: &[Example],
    definitions: &'d [Definition],
) -> anyhow::Result<Vec<Verdict<'d>>> {
    let mut authors: BTreeMap<&String, Vec<&Definition>> = BTreeMap::new();
    for definition in definitions {
        let of_author = authors.entry(&definition.author).or_default();
        of_author.push(definition);
    }
    let authors: Vec<(&String, Vec<&Definition>)> = authors.into_iter().collect();
    let one = |(author, definitions): &(&String, Vec<&'d Definition>)| {
        let kept = examples.iter().filter(|one| one.author != **author);
        let bytes = fit::fit(&kept.collect::<Vec<_>>());
        let model = Model::read(&bytes).context("a fitted model cannot be read")?;
        let mut analyser =
            Analyser::new(Arc::clone(rules)).with_model(Arc::new(model.into_owned()));
        let verdicts = definitions.iter().map(|one| {
            let report = examples::report(&mut analyser, &one.tool, &one.own_tools);
            (*one, report.action, report.score)
        });
        anyhow::Ok(verdicts.collect::<Vec<_>>())
    };
    let mut out = Vec::with_capacity(definitions.len());
    for verdicts in super::parallel(&authors, one) {
        out.extend(verdicts?);
    }
    Ok(out)
}

/// Counts the verdicts on the definitions that `of` selects.
fn count(verdicts: &[Verdict<'_>], of: &dyn Fn(&Definition) -> bool) -> Count {
    let mut count = Count::default();
    let selected = verdicts.iter().filter(|(one, ..)| of(one));
    selected.for_each(|(_, action, _)| count.add(*action));
    count
}

fn line(
    out: &mut String,
    title: &str,
    name: &str,
    verdicts: &[Verdict<'_>],
    of: &dyn Fn(&Definition) -> bool,
) {
    let count = count(verdicts, of);
    if count.rows > 0 {
        let _ = writeln!(out, "{title:<19} {name:<7} {}", count.cells());
    }
}

/// Prints what share of attacks scores higher than all but some of the honest definitions: what another limit
/// would find, and at which price.
fn found_at(out: &mut String, name: &str, attacks: Vec<f32>, mut honest: Vec<f32>) {
    honest.sort_by(|a, b| b.total_cmp(a));
    for share in [1, 2, 5] {
        let Some(limit) = honest.get(honest.len() * share / 100) else {
            continue;
        };
        let found = attacks.iter().filter(|score| *score > limit).count();
        let _ = writeln!(
            out,
            "{name:<7} above a score of {limit:.2}, at which {share} % of the honest ones are accused: {:.1} % found",
            percent(found, attacks.len())
        );
    }
}

/// A line for the attacks and the honest definitions of each group.
fn groups(out: &mut String, verdicts: &[Verdict<'_>], group: impl Fn(&Definition) -> &String) {
    let names: BTreeSet<&String> = verdicts.iter().map(|(one, ..)| group(one)).collect();
    for name in names {
        for (title, attack) in [("attacks", true), ("honest", false)] {
            line(out, title, name, verdicts, &|one| {
                group(one) == name && one.attack == attack
            });
        }
    }
}

/// The bars, and whether they are reached.
fn bars(out: &mut String, verdicts: &[Verdict<'_>]) {
    let attacks = count(verdicts, &|one| one.attack);
    let others = count(verdicts, &|one| one.attack && one.lang != "en");
    let twins = count(verdicts, &|one| Kind::of(one) == Kind::Twin);
    let mut least = |name: &str, part, rows, bar| {
        let share = percent(part, rows);
        let word = if share >= bar { "reached" } else { "MISSED" };
        let _ = writeln!(out, "{name:<34} {share:>6.2}  bar {bar:.0} {word}");
    };
    least("attacks at warn", attacks.warn, attacks.rows, WARN);
    least("attacks at alert", attacks.alert, attacks.rows, ALERT);
    least(
        "attacks not in English, at alert",
        others.alert,
        others.rows,
        OTHER_LANGUAGES,
    );
    let share = percent(twins.alert, twins.rows);
    let word = if share <= TWINS { "kept" } else { "MISSED" };
    let _ = writeln!(
        out,
        "{:<34} {share:>6.2}  bar {TWINS:.0} {word}",
        "honest twins at alert"
    );
}
