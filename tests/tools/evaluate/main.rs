//! `cargo xtask eval`: how well detection works on labelled files, and where its weights come from.
//!
//! This is a tool for the people who write rules; it is not shipped. It judges labelled definitions
//! and messages with the same code as the daemon and prints recall and false alerts per group. With
//! `--fit` it also fits the weights of the rules to the labels. Figures on the rows that were
//! fitted to flatter, so each family of attacks is also judged by weights that were fitted without it, and
//! each author's definitions among the model's own examples by a model that was fitted without that author:
//! that says more about attacks that nobody has seen yet. Whole sessions are judged too, and copies of tools.

mod bars;
mod copies;
mod examples;
mod families;
mod fit;
mod judge;
mod rows;
mod sessions;
mod tables;
mod train;
mod wording;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser;
use mcpinspect_judge::detect::analysis::Analyser;
use mcpinspect_judge::detect::meaning::model::Model;
use mcpinspect_judge::detect::rules::RuleSet;
use mcpinspect_judge::detect::score::Weights;
use mcpinspect_judge::detect::{BUILTIN_RULES, BUILTIN_WEIGHTS, WeightedRules};

use fit::Settings;
use judge::Judged;

/// Measure detection on labelled files, or fit its weights to them
///
/// Reads `*.jsonl` files of labelled definitions and messages, and prints recall and false alerts
/// per group.
#[derive(Parser)]
#[command(name = "evaluate")]
struct Options {
    /// Files, or directories with `*.jsonl` files.
    #[arg(required_unless_present = "examples")]
    paths: Vec<PathBuf>,
    /// Fit weights to these files, write them to FILE, and measure with them.
    #[arg(long, value_name = "FILE")]
    fit: Option<PathBuf>,
    /// Directory with the model's examples: fit it without each author in turn.
    #[arg(long, value_name = "DIRECTORY")]
    training: Option<PathBuf>,
    /// Leave out what takes minutes: fitting without each family and each author.
    #[arg(long)]
    quick: bool,
    /// How many of the worst mistakes to show.
    #[arg(long, default_value_t = 10)]
    worst: usize,
    /// Use this rule file instead of the built-in one.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Use this weights file instead of the built-in one.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Read sentences with the model in this file instead of the built-in one.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Show how often each rule matches, in attacks and in benign rows.
    #[arg(long)]
    by_rule: bool,
    /// Show what was found in the worst mistakes.
    #[arg(long)]
    explain: bool,
    /// Check that the specification's examples of messages in this directory are read as what they are.
    #[arg(long, value_name = "DIRECTORY")]
    examples: Option<PathBuf>,
    /// How strongly the fit keeps to the weights in the rule file.
    #[arg(long, default_value_t = Settings::default().prior)]
    prior: f32,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("evaluate: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> anyhow::Result<()> {
    if let Some(directory) = &options.examples {
        println!("{} examples read", examples::check(directory)?);
    }
    if options.paths.is_empty() {
        return Ok(());
    }
    let settings = Settings {
        prior: options.prior,
        ..Settings::default()
    };
    let mut rows = Vec::new();
    for path in &options.paths {
        rows.extend(rows::read(path)?);
        let fresh = path.join("fresh");
        if fresh.is_dir() {
            rows.extend(rows::read(&fresh)?);
        }
    }
    let count = rows.len();
    let mut active = Arc::new(load(options)?);
    let (mut judged, mut spent) = judge::judge(analyser(options, &active)?, rows);
    if let Some(file) = &options.fit {
        let text = train::weights_file(&active.rules, &judged, settings);
        std::fs::write(file, &text).with_context(|| format!("cannot write {}", file.display()))?;
        active = Arc::new(with_weights(load(options)?.rules, &text)?);
        let rows = judged.into_iter().map(|one| one.row).collect();
        (judged, spent) = judge::judge(analyser(options, &active)?, rows);
    }
    print!("{}", tables::groups(&judged));
    print!("\nhonest definitions:\n{}", bars::honest(&judged));
    print!("\nattacks and results:\n{}", bars::others(&judged));
    print!("\nreliability:\n{}", tables::reliability(&judged));
    println!(
        "\n{:.1} µs per row",
        spent.as_secs_f64() * 1e6 / count as f64
    );
    if options.by_rule {
        print!("\n{}", tables::rules(&active, &judged));
    }
    print!("{}", copies::report(&active, &judged));
    if !options.quick {
        let report = families::report(options, &active, &judged, settings)?;
        print!("{report}");
    }
    if let Some(directory) = options.training.as_ref().filter(|_| !options.quick) {
        print!("{}", wording::report(&active, directory)?);
    }
    for directory in &options.paths {
        let sessions = sessions::read(directory)?;
        if !sessions.is_empty() {
            print!("{}", sessions::report(&active, &sessions)?);
        }
    }
    if options.worst > 0 {
        for (title, malicious) in [
            ("highest honest rows", false),
            ("attacks below alert", true),
        ] {
            println!("\n{title}:");
            for one in tables::worst(&judged, options.worst, malicious) {
                print!("{}", tables::mistake(&active, one, options.explain));
            }
        }
    }
    Ok(())
}

/// An analyser with these rules, and the model to measure.
fn analyser(options: &Options, rules: &Arc<WeightedRules>) -> anyhow::Result<Analyser> {
    let analyser = Analyser::new(Arc::clone(rules));
    let Some(file) = &options.model else {
        return Ok(analyser);
    };
    let place = || file.display().to_string();
    let bytes = std::fs::read(file).with_context(place)?;
    let model = Model::read(&bytes).with_context(place)?;
    Ok(analyser.with_model(Arc::new(model.into_owned())))
}

/// The rules and weights to measure.
fn load(options: &Options) -> anyhow::Result<WeightedRules> {
    let rules = match &options.rules {
        Some(file) => {
            let name = file.display().to_string();
            RuleSet::compile(&[(&name, &read(file)?)])?
        }
        None => RuleSet::compile(BUILTIN_RULES)?,
    };
    match &options.weights {
        Some(file) => with_weights(rules, &read(file)?),
        None => with_weights(rules, BUILTIN_WEIGHTS),
    }
}

fn with_weights(rules: RuleSet, text: &str) -> anyhow::Result<WeightedRules> {
    let weights = Weights::parse(text, &rules)?;
    Ok(WeightedRules { rules, weights })
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Tiers of attacks that the text gives away; the others take more than text to recognise.
const TEXT_TIERS: &[&str] = &["hidden_text", "schema_param", ""];

/// Whether a row counts when weights are fitted: every benign row, and attacks that the text gives
/// away.
fn counts_for_fitting(one: &Judged) -> bool {
    !one.row.malicious() || TEXT_TIERS.contains(&one.row.tier())
}

/// What `work` makes of each item, in their order; two at a time.
fn parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    const AT_ONCE: usize = 2;
    let every = |first: usize| -> Vec<R> {
        let items = items.iter().skip(first).step_by(AT_ONCE);
        items.map(&work).collect()
    };
    let halves: Vec<Vec<R>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE)
            .map(|first| scope.spawn(move || every(first)))
            .collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .map(|half| half.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut halves: Vec<_> = halves.into_iter().map(Vec::into_iter).collect();
    (0..items.len())
        .filter_map(|index| halves[index % AT_ONCE].next())
        .collect()
}
