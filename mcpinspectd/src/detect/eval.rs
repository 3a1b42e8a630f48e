//! Measures detection on labelled files, and fits the weights to them.
//!
//! A directory holds `*.jsonl` files; each line has a `tool` or a `message`, a `label`
//! (`malicious` or `benign`), and a `group` and `tier` to report by. Besides the figures on all of
//! it, [`cross_validate`] leaves out one group after the other, fits without it and measures on it:
//! that is the figure that says something about attacks that nobody has seen yet.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use super::analyse::{Analyser, Circumstances, Report};
use super::category::Surface;
use super::fit::{Example, Fitted, Settings, fit};
use super::knowledge::Knowledge;
use super::message;
use super::rules::RuleSet;
use super::score::{SurfaceWeights, weigh};
use super::tree::Tree;
use crate::event::Action;

/// Tiers of attacks that the text gives away; the others need more than text.
const TEXT_TIERS: &[&str] = &["hidden_text", "schema_param", ""];

/// A labelled line.
#[derive(Debug, Deserialize)]
pub struct Row {
    /// Its name in the file.
    #[serde(default)]
    pub id: String,
    /// `malicious` or `benign`.
    pub label: String,
    /// Its family or source.
    #[serde(default)]
    pub group: String,
    /// Which kind of row it is within its class.
    #[serde(default)]
    pub tier: Option<String>,
    /// The kind of attack.
    #[serde(default)]
    pub category: Option<String>,
    /// The server it belongs to.
    #[serde(default)]
    pub server: Option<String>,
    /// A tool's definition.
    #[serde(default)]
    pub tool: Option<Value>,
    /// Or a message.
    #[serde(default)]
    pub message: Option<Value>,
}

impl Row {
    fn malicious(&self) -> bool {
        self.label == "malicious"
    }

    fn tier(&self) -> &str {
        self.tier.as_deref().unwrap_or_default()
    }

    fn surface(&self) -> Surface {
        match &self.message {
            Some(message) => message::surface(&Tree::from(message)),
            None => Surface::Definition,
        }
    }
}

/// Why an evaluation cannot run.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: std::io::Error,
    },
    /// A line is no labelled row.
    #[error("{path}:{line}: {problem}")]
    Row {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// There is nothing to evaluate.
    #[error("{0}: no *.jsonl file with labelled lines")]
    Empty(PathBuf),
}

/// Reads the labelled lines of a file, or of every `*.jsonl` in a directory.
pub fn read(path: &Path) -> Result<Vec<Row>, EvalError> {
    let failed = |source| EvalError::Read {
        path: path.to_owned(),
        source,
    };
    let mut files = Vec::new();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            if file
                .extension()
                .is_some_and(|extension| extension == "jsonl")
            {
                files.push(file);
            }
        }
        files.sort();
    } else {
        files.push(path.to_owned());
    }
    let mut rows = Vec::new();
    for file in files {
        let reader = BufReader::new(File::open(&file).map_err(|source| EvalError::Read {
            path: file.clone(),
            source,
        })?);
        for (index, line) in reader.lines().enumerate() {
            let line = line.map_err(|source| EvalError::Read {
                path: file.clone(),
                source,
            })?;
            if line.trim().is_empty() {
                continue;
            }
            let row = serde_json::from_str(&line).map_err(|error| EvalError::Row {
                path: file.clone(),
                line: index + 1,
                problem: error.to_string(),
            })?;
            rows.push(row);
        }
    }
    if rows.is_empty() {
        Err(EvalError::Empty(path.to_owned()))
    } else {
        Ok(rows)
    }
}

/// A row with what was found in it.
#[derive(Debug)]
pub struct Judged {
    /// The row.
    pub row: Row,
    /// What was found.
    pub report: Report,
    /// The input of fitting.
    pub example: Example,
    /// Definition or content.
    pub surface: Surface,
}

/// Judges every row; also says how long that took.
pub fn judge(knowledge: &Arc<Knowledge>, rows: Vec<Row>) -> (Vec<Judged>, Duration) {
    let mut analyser = Analyser::new(Arc::clone(knowledge));
    let mut spent = Duration::ZERO;
    let mut judged = Vec::with_capacity(rows.len());
    for row in rows {
        let begin = Instant::now();
        let circumstances = Circumstances {
            server: row.server.as_deref(),
            ..Circumstances::default()
        };
        let mut features = Default::default();
        let report = match (&row.tool, &row.message) {
            (Some(tool), _) => {
                let report = analyser.tool(&Tree::from(tool), circumstances);
                features = analyser.features().clone();
                report
            }
            (None, Some(message)) => {
                let report = message::report(&mut analyser, &Tree::from(message), circumstances);
                features = analyser.features().clone();
                report
            }
            (None, None) => Report::clean(),
        };
        spent += begin.elapsed();
        let example = Example {
            features,
            malicious: row.malicious(),
            group: row.group.clone(),
        };
        judged.push(Judged {
            surface: row.surface(),
            row,
            report,
            example,
        });
    }
    (judged, spent)
}

#[derive(Default)]
struct Count {
    rows: usize,
    warn: usize,
    alert: usize,
    block: usize,
}

impl Count {
    fn add(&mut self, action: Action) {
        self.rows += 1;
        self.warn += usize::from(action >= Action::Warn);
        self.alert += usize::from(action >= Action::Alert);
        self.block += usize::from(action >= Action::Block);
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        0.0
    } else {
        100.0 * part as f64 / whole as f64
    }
}

/// The table: for each class, tier and group the share at `warn`, `alert` and `block`.
pub fn table(judged: &[Judged]) -> String {
    let mut counts: BTreeMap<(bool, String, String), Count> = BTreeMap::new();
    for one in judged {
        let malicious = one.row.malicious();
        let tier = if one.row.message.is_some() {
            "runtime".to_owned()
        } else {
            one.row.tier().to_owned()
        };
        counts
            .entry((!malicious, tier.clone(), one.row.group.clone()))
            .or_default()
            .add(one.report.action);
        counts
            .entry((!malicious, tier, "(all)".into()))
            .or_default()
            .add(one.report.action);
    }
    let mut out = format!(
        "{:<10} {:<17} {:<34} {:>6} {:>7} {:>7} {:>7}\n",
        "class", "tier", "group", "rows", "warn%", "alert%", "block%"
    );
    for ((benign, tier, group), count) in &counts {
        let class = if *benign { "benign" } else { "malicious" };
        let _ = writeln!(
            out,
            "{class:<10} {tier:<17} {group:<34} {:>6} {:>7.2} {:>7.2} {:>7.2}",
            count.rows,
            percent(count.warn, count.rows),
            percent(count.alert, count.rows),
            percent(count.block, count.rows)
        );
    }
    out
}

/// The rows that went wrong: honest ones by score, and attacks that were missed.
pub fn worst(judged: &[Judged], limit: usize, malicious: bool) -> Vec<&Judged> {
    let mut wrong: Vec<&Judged> = judged
        .iter()
        .filter(|one| {
            one.row.malicious() == malicious
                && (!malicious
                    || (one.report.action < Action::Alert && TEXT_TIERS.contains(&one.row.tier())))
        })
        .collect();
    wrong.sort_by(|a, b| {
        let order = b
            .report
            .action
            .cmp(&a.report.action)
            .then(b.report.score.total_cmp(&a.report.score));
        if malicious { order.reverse() } else { order }
    });
    wrong.truncate(limit);
    wrong
}

/// Rules that hold in a row's worst window, with their weights.
pub fn reasons(knowledge: &Knowledge, one: &Judged) -> String {
    let weights = knowledge.weights.on(one.surface);
    let sum = |window: &[super::rules::RuleId]| {
        window
            .iter()
            .map(|id| weights.rules[id.0 as usize])
            .sum::<f32>()
    };
    let worst = one
        .example
        .features
        .windows
        .iter()
        .max_by(|a, b| sum(a).total_cmp(&sum(b)));
    let mut out = String::new();
    for id in worst.into_iter().flatten() {
        let _ = write!(
            out,
            "{}({:.1}) ",
            knowledge.rules.rule(*id).id,
            weights.rules[id.0 as usize]
        );
    }
    out
}

/// How often each rule holds in attacks and in honest rows, with its weight: what is worth keeping.
pub fn rules_table(knowledge: &Knowledge, judged: &[Judged]) -> String {
    let mut held = vec![[0usize; 2]; knowledge.rules.rules().len()];
    for one in judged {
        let mut all: Vec<_> = one.example.features.windows.iter().flatten().collect();
        all.sort_unstable();
        all.dedup();
        for id in all {
            held[id.0 as usize][usize::from(!one.row.malicious())] += 1;
        }
    }
    let mut out = format!(
        "{:<30} {:>7} {:>7} {:>10} {:>8}\n",
        "rule", "attacks", "honest", "definition", "content"
    );
    for (index, (rule, [attacks, honest])) in knowledge.rules.rules().iter().zip(held).enumerate() {
        let _ = writeln!(
            out,
            "{:<30} {attacks:>7} {honest:>7} {:>10.2} {:>8.2}",
            rule.id,
            knowledge.weights.definition.rules[index],
            knowledge.weights.content.rules[index]
        );
    }
    out
}

/// Tier of honest rows that were written to look like attacks. They teach weights; how many everyday
/// definitions raise an alert they do not tell.
const HARD_TIER: &str = "hard";
/// A group of at least this many honest rows keeps within the limits by itself: authors differ, and
/// what is rare among all may be common in the style of one source.
const LARGE_GROUP: usize = 300;

/// Settings of a fit: the odds of a false alert that are accepted.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Share of honest rows that may be warned of.
    pub warn: f64,
    /// Share of honest rows that may raise an alert.
    pub alert: f64,
    /// Share of honest rows that may be blocked.
    pub block: f64,
}

impl Limits {
    /// What is accepted for a surface. Content is quoted, searched and forwarded text: it may be
    /// warned of more easily, and hardly ever blocked.
    pub fn of(surface: Surface) -> Self {
        match surface {
            Surface::Definition => Self {
                warn: 0.02,
                alert: 0.006,
                block: 0.0002,
            },
            Surface::Content | Surface::Argument => Self {
                warn: 0.01,
                alert: 0.002,
                block: 0.0002,
            },
        }
    }
}

/// Fits the weights of one surface to the rows of it.
pub fn fit_surface(
    rules: &RuleSet,
    judged: &[Judged],
    surface: Surface,
    leave_out: Option<&str>,
    settings: Settings,
) -> SurfaceWeights {
    let examples: Vec<&Example> = judged
        .iter()
        .filter(|one| one.surface == surface && Some(one.row.group.as_str()) != leave_out)
        .filter(|one| !one.row.malicious() || TEXT_TIERS.contains(&one.row.tier()))
        .map(|one| &one.example)
        .collect();
    let fitted = fit(rules, &examples, -4.0, settings);
    let limits = Limits::of(surface);
    let mut honest: BTreeMap<&str, Vec<f32>> = BTreeMap::new();
    for one in judged
        .iter()
        .filter(|one| one.surface == surface && Some(one.row.group.as_str()) != leave_out)
        .filter(|one| !one.row.malicious() && one.row.tier() != HARD_TIER)
    {
        let odds = fitted.log_odds(rules, &one.example.features);
        honest.entry("").or_default().push(odds);
        honest.entry(&one.row.group).or_default().push(odds);
    }
    honest.retain(|group, odds| group.is_empty() || odds.len() >= LARGE_GROUP);
    honest
        .values_mut()
        .for_each(|odds| odds.sort_by(|a, b| b.total_cmp(a)));
    let at = |share: f64, least: f32| {
        let limits = honest.values().map(|odds| threshold(odds, share));
        limits.fold(least, f32::max)
    };
    let (warn, alert, block) = (
        at(limits.warn, -1.0),
        at(limits.alert, 0.0),
        at(limits.block, 2.0),
    );
    let Fitted { bias, weights } = fitted;
    SurfaceWeights {
        bias,
        warn,
        alert: alert.max(warn),
        block: block.max(alert + 1.0),
        rules: weights,
    }
}

/// The log odds that no more than `share` of `honest` (descending) reach.
fn threshold(honest: &[f32], share: f64) -> f32 {
    let allowed = (honest.len() as f64 * share) as usize;
    honest.get(allowed).map_or(f32::MIN, |odds| odds + 0.05)
}

/// A weights file with a note on where it comes from.
pub fn weights_toml(
    rules: &RuleSet,
    note: &str,
    definition: &SurfaceWeights,
    content: &SurfaceWeights,
) -> String {
    let mut out = String::new();
    for line in note.lines() {
        let _ = writeln!(out, "# {line}");
    }
    for (name, weights) in [("definition", definition), ("content", content)] {
        let _ = writeln!(
            out,
            "\n[{name}]\nbias = {:.3}\nwarn = {:.3}\nalert = {:.3}\nblock = {:.3}",
            weights.bias, weights.warn, weights.alert, weights.block
        );
        let _ = writeln!(out, "\n[{name}.weights]");
        let mut named: Vec<_> = rules
            .rules()
            .iter()
            .zip(&weights.rules)
            .filter(|(rule, _)| rule.builtin)
            .collect();
        named.sort_by(|a, b| a.0.id.cmp(&b.0.id));
        for (rule, weight) in named {
            let _ = writeln!(out, "{} = {weight:.3}", rule.id);
        }
    }
    out
}

/// One line of cross-validation.
#[derive(Debug)]
pub struct LeftOut {
    /// The group that was left out.
    pub group: String,
    /// Whether it is of attacks.
    pub malicious: bool,
    /// Its rows.
    pub rows: usize,
    /// Of them at `warn` or above, with weights that never saw the group.
    pub warn: usize,
    /// At `alert` or above.
    pub alert: usize,
    /// At `block`.
    pub block: usize,
}

/// Leaves out each group in turn, fits without it, and measures on it.
pub fn cross_validate(
    rules: &RuleSet,
    judged: &[Judged],
    surface: Surface,
    settings: Settings,
) -> Vec<LeftOut> {
    let mut groups: Vec<(&str, bool)> = judged
        .iter()
        .filter(|one| {
            one.surface == surface && (!one.row.malicious() || TEXT_TIERS.contains(&one.row.tier()))
        })
        .map(|one| (one.row.group.as_str(), one.row.malicious()))
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
        .into_iter()
        .map(|(group, malicious)| {
            let weights = fit_surface(rules, judged, surface, Some(group), settings);
            let mut count = Count::default();
            for one in judged.iter().filter(|one| {
                one.surface == surface && one.row.group == group && one.row.malicious() == malicious
            }) {
                if malicious && !TEXT_TIERS.contains(&one.row.tier()) {
                    continue;
                }
                count.add(weigh(rules, &weights, &one.example.features).action);
            }
            LeftOut {
                group: group.to_owned(),
                malicious,
                rows: count.rows,
                warn: count.warn,
                alert: count.alert,
                block: count.block,
            }
        })
        .collect()
}

/// The table of a cross-validation.
pub fn left_out_table(lines: &[LeftOut]) -> String {
    let mut out = format!(
        "{:<10} {:<34} {:>6} {:>7} {:>7} {:>7}\n",
        "class", "group left out", "rows", "warn%", "alert%", "block%"
    );
    for line in lines {
        let _ = writeln!(
            out,
            "{:<10} {:<34} {:>6} {:>7.2} {:>7.2} {:>7.2}",
            if line.malicious {
                "malicious"
            } else {
                "benign"
            },
            line.group,
            line.rows,
            percent(line.warn, line.rows),
            percent(line.alert, line.rows),
            percent(line.block, line.rows)
        );
    }
    out
}
