//! What the evaluation prints.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mcpinspect_core::model::Action;
use mcpinspect_judge::detect::WeightedRules;
use mcpinspect_judge::detect::rules::RuleId;

use super::TEXT_TIERS;
use super::judge::Judged;

/// How many rows were judged how.
#[derive(Debug, Default)]
pub struct Count {
    /// All of them.
    pub rows: usize,
    /// At `warn` or above.
    pub warn: usize,
    /// At `alert` or above.
    pub alert: usize,
    /// At `block`.
    pub block: usize,
}

impl Count {
    /// Counts one more row.
    pub fn add(&mut self, action: Action) {
        self.rows += 1;
        self.warn += usize::from(action >= Action::Warn);
        self.alert += usize::from(action >= Action::Alert);
        self.block += usize::from(action >= Action::Block);
    }

    /// Adds the rows of another count.
    pub fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.warn += other.warn;
        self.alert += other.alert;
        self.block += other.block;
    }

    /// Its cells: the rows, and the share at each action or above.
    pub fn cells(&self) -> String {
        format!(
            "{:>6} {:>7.2} {:>7.2} {:>7.2}",
            self.rows,
            percent(self.warn, self.rows),
            percent(self.alert, self.rows),
            percent(self.block, self.rows)
        )
    }
}

pub fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        0.0
    } else {
        100.0 * part as f64 / whole as f64
    }
}

fn class(malicious: bool) -> &'static str {
    if malicious { "malicious" } else { "benign" }
}

/// For each class, tier and group the share at `warn`, `alert` and `block`.
pub fn groups(judged: &[Judged]) -> String {
    let mut counts: BTreeMap<(bool, String, String), Count> = BTreeMap::new();
    for one in judged {
        let benign = !one.row.malicious();
        let tier = match one.row.message {
            Some(_) => "runtime",
            None => one.row.tier(),
        };
        for group in [one.row.group.as_str(), "(all)"] {
            counts
                .entry((benign, tier.to_owned(), group.to_owned()))
                .or_default()
                .add(one.report.action);
        }
    }
    let mut out = format!(
        "{:<10} {:<17} {:<34} {:>6} {:>7} {:>7} {:>7}\n",
        "class", "tier", "group", "rows", "warn%", "alert%", "block%"
    );
    for ((benign, tier, group), count) in &counts {
        let class = class(!benign);
        let _ = writeln!(out, "{class:<10} {tier:<17} {group:<34} {}", count.cells());
    }
    out
}

/// How often definitions of a score are attacks, if there were as many attacks as honest ones.
pub fn reliability(judged: &[Judged]) -> String {
    const STEPS: usize = 10;
    let mut counts = [[0usize; 2]; STEPS];
    let mut all = [0usize; 2];
    for one in judged.iter().filter(|one| one.row.message.is_none()) {
        if one.row.malicious() && !TEXT_TIERS.contains(&one.row.tier()) {
            continue;
        }
        let step = ((one.report.score * STEPS as f32) as usize).min(STEPS - 1);
        counts[step][usize::from(one.row.malicious())] += 1;
        all[usize::from(one.row.malicious())] += 1;
    }
    let mut out = format!(
        "{:<11} {:>7} {:>8} {:>11}\n",
        "score", "honest", "attacks", "attacks, %"
    );
    for (step, [honest, attacks]) in counts.into_iter().enumerate() {
        let (a, h) = (percent(attacks, all[1]), percent(honest, all[0]));
        let share = if a + h > 0.0 {
            100.0 * a / (a + h)
        } else {
            0.0
        };
        let from = step as f64 / STEPS as f64;
        let _ = writeln!(
            out,
            "{from:.1} – {:.1}   {honest:>7} {attacks:>8} {share:>11.1}",
            from + 0.1
        );
    }
    out
}

/// How often each rule matches in attacks and in benign rows, and its weights: which rules are worth
/// keeping.
pub fn rules(active: &WeightedRules, judged: &[Judged]) -> String {
    let mut held = vec![[0usize; 2]; active.rules.rules().len()];
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
    for (index, (rule, [attacks, honest])) in active.rules.rules().iter().zip(held).enumerate() {
        let _ = writeln!(
            out,
            "{:<30} {attacks:>7} {honest:>7} {:>10.2} {:>8.2}",
            rule.id, active.weights.definition.rules[index], active.weights.content.rules[index]
        );
    }
    out
}

/// The rows that were judged worst: the highest benign ones, or the attacks that were missed.
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

/// One row that was judged wrongly, with the reasons; `explain` adds what was found in it.
pub fn mistake(active: &WeightedRules, one: &Judged, explain: bool) -> String {
    let name = one
        .row
        .tool
        .as_ref()
        .and_then(|tool| tool.get("name"))
        .and_then(|name| name.as_str())
        .unwrap_or("(message)");
    let server = one.row.server.as_deref().unwrap_or_default();
    let mut out = format!(
        "{} {:<6} {:.3} {:<18} {:<28} {}  {}\n",
        one.row.id,
        format!("{:?}", one.report.action).to_lowercase(),
        one.report.score,
        one.row.group,
        server.chars().take(28).collect::<String>(),
        name.chars().take(40).collect::<String>(),
        reasons(active, one)
    );
    for detection in one.report.detections.iter().filter(|_| explain) {
        let texts: Vec<&str> = detection
            .matches
            .iter()
            .map(|found| found.text.as_str())
            .collect();
        let _ = writeln!(
            out,
            "        {} [{}] {texts:?}",
            detection.pattern, detection.field
        );
    }
    out
}

/// The rules that match in a row's worst window, with their weights.
fn reasons(active: &WeightedRules, one: &Judged) -> String {
    let weights = active.weights.on(one.surface);
    let sum = |window: &[RuleId]| {
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
            active.rules.rule(*id).id,
            weights.rules[id.0 as usize]
        );
    }
    out
}
