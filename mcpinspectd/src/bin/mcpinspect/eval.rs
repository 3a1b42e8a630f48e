//! `mcpinspect eval`: how well detection works, on labelled files.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use mcpinspectd::detect::category::Surface;
use mcpinspectd::detect::eval;
use mcpinspectd::detect::fit::Settings;
use mcpinspectd::detect::knowledge::{BUILTIN_PACKS, BUILTIN_WEIGHTS, Knowledge};
use mcpinspectd::detect::rules::RuleSet;
use mcpinspectd::detect::score::Weights;

/// Measure detection on labelled files, or fit its weights to them
///
/// Reads `*.jsonl` files with labelled definitions and messages, and prints recall and false alerts
/// per group.
#[derive(clap::Args)]
pub struct Eval {
    /// Files, or directories with `*.jsonl` files.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Fit weights to these files and measure with them; the new weights go to FILE.
    #[arg(long, value_name = "FILE")]
    fit: Option<PathBuf>,
    /// Fit without each group in turn, and measure on that group.
    #[arg(long)]
    cross_validate: bool,
    /// How many of the worst mistakes to show.
    #[arg(long, default_value_t = 10)]
    worst: usize,
    /// A rule pack to use in place of the built-in one.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// A weights file to use in place of the built-in one.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Show how often each rule holds, in attacks and in honest rows.
    #[arg(long)]
    by_rule: bool,
    /// Show what was found in the worst mistakes.
    #[arg(long)]
    explain: bool,
    /// How strongly the fit keeps to the weights of the rule pack.
    #[arg(long, default_value_t = Settings::default().prior)]
    prior: f32,
}

impl Eval {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let own = match &self.rules {
            Some(file) => Some(
                std::fs::read_to_string(file)
                    .with_context(|| format!("cannot read {}", file.display()))?,
            ),
            None => None,
        };
        let name = self
            .rules
            .as_ref()
            .map(|file| file.display().to_string())
            .unwrap_or_default();
        let packs: Vec<(&str, &str)> = own.as_ref().map_or_else(
            || BUILTIN_PACKS.to_vec(),
            |text| vec![(name.as_str(), text.as_str())],
        );
        let rules = RuleSet::compile(&packs)?;
        let weights = match &self.weights {
            Some(file) => Weights::parse(
                &std::fs::read_to_string(file)
                    .with_context(|| format!("cannot read {}", file.display()))?,
                &rules,
            )?,
            None => Weights::parse(BUILTIN_WEIGHTS, &rules)?,
        };
        let mut knowledge = Arc::new(Knowledge { rules, weights });
        let mut rows = Vec::new();
        for path in &self.paths {
            rows.extend(eval::read(path)?);
        }
        let settings = Settings {
            prior: self.prior,
            ..Settings::default()
        };
        let count = rows.len();
        let (mut judged, mut spent) = eval::judge(&knowledge, rows);
        if let Some(file) = &self.fit {
            let definition = eval::fit_surface(
                &knowledge.rules,
                &judged,
                Surface::Definition,
                None,
                settings,
            );
            let content =
                eval::fit_surface(&knowledge.rules, &judged, Surface::Content, None, settings);
            let note = format!(
                "Weights in log odds, fitted with `mcpinspect eval --fit` to {count} labelled definitions and messages\n\
                 (public collections of poisoned tools and real servers' definitions). Data, not prose: edit the\n\
                 `weight` of a rule in its pack and fit again."
            );
            let text = eval::weights_toml(&knowledge.rules, &note, &definition, &content);
            std::fs::write(file, &text)
                .with_context(|| format!("cannot write {}", file.display()))?;
            let rules = RuleSet::compile(&packs)?;
            let weights = Weights::parse(&text, &rules)?;
            knowledge = Arc::new(Knowledge { rules, weights });
            (judged, spent) =
                eval::judge(&knowledge, judged.into_iter().map(|one| one.row).collect());
        }
        print!("{}", eval::table(&judged));
        println!(
            "\n{:.1} µs per row",
            spent.as_secs_f64() * 1e6 / count as f64
        );
        if self.by_rule {
            print!("\n{}", eval::rules_table(&knowledge, &judged));
        }
        if self.cross_validate {
            for surface in [Surface::Definition, Surface::Content] {
                println!("\nwithout the group ({surface}):");
                print!(
                    "{}",
                    eval::left_out_table(&eval::cross_validate(
                        &knowledge.rules,
                        &judged,
                        surface,
                        settings
                    ))
                );
            }
        }
        for (title, malicious) in [
            ("highest honest rows", false),
            ("attacks below alert", true),
        ] {
            if self.worst == 0 {
                break;
            }
            println!("\n{title}:");
            for one in eval::worst(&judged, self.worst, malicious) {
                let name = one
                    .row
                    .tool
                    .as_ref()
                    .and_then(|tool| tool.get("name"))
                    .and_then(|name| name.as_str())
                    .unwrap_or("(message)");
                println!(
                    "{} {:<6} {:.3} {:<18} {:<28} {}  {}",
                    one.row.id,
                    format!("{:?}", one.report.action).to_lowercase(),
                    one.report.score,
                    one.row.group,
                    one.row
                        .server
                        .as_deref()
                        .unwrap_or_default()
                        .chars()
                        .take(28)
                        .collect::<String>(),
                    name.chars().take(40).collect::<String>(),
                    eval::reasons(&knowledge, one)
                );
                for detection in one.report.detections.iter().filter(|_| self.explain) {
                    let texts: Vec<&str> = detection
                        .matches
                        .iter()
                        .map(|found| found.text.as_str())
                        .collect();
                    println!(
                        "        {} [{}] {texts:?}",
                        detection.pattern, detection.field
                    );
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
