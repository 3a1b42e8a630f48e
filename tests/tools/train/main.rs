//! `cargo xtask train`: fits the model of what sentences ask, and measures it on what was left out.
//!
//! The examples (`mcpinspectd/training`) were written for the purpose by several authors, an attack beside an
//! honest twin each. With `--measure`, nothing is written: the model is fitted without a fifth of the pairs,
//! without each author and without each language in turn, and asked about those.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use mcpinspect_judge::detect::meaning::act::ACTS;
use mcpinspect_judge::detect::meaning::in_definition;
use mcpinspect_judge::detect::meaning::model::Model;
use mcpinspect_tests::training::examples::{self, Definition, Example};
use mcpinspect_tests::training::fit;

/// Fit the model of what sentences ask
#[derive(Parser)]
#[command(name = "train")]
struct Options {
    /// Directory with the examples.
    directory: PathBuf,
    /// Labelled definitions that are examples too.
    #[arg(long, value_name = "FILE")]
    samples: Vec<PathBuf>,
    /// Where the model goes.
    #[arg(long, value_name = "FILE", required_unless_present = "measure")]
    out: Option<PathBuf>,
    /// Measure on what is left out in turn, and write nothing.
    #[arg(long)]
    measure: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("train: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> anyhow::Result<()> {
    let (examples, definitions) = examples::read(&options.directory, &options.samples)?;
    let attacks = examples.iter().filter(|one| one.attack).count();
    println!(
        "{} sentences, {attacks} of them attacks; {} definitions",
        examples.len(),
        definitions.len()
    );
    if options.measure {
        measure(&examples, &definitions);
        return Ok(());
    }
    let all: Vec<&Example> = examples.iter().collect();
    let model = fit::fit(&all);
    if let Some(out) = &options.out {
        std::fs::write(out, &model).with_context(|| format!("cannot write {}", out.display()))?;
    }
    Ok(())
}

/// Fits without some examples, and prints how well those are told apart.
fn measure(examples: &[Example], definitions: &[Definition]) {
    let fifth = |pair: &str| {
        pair.bytes()
            .fold(7u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte))
            % 5
            == 0
    };
    let model = leave_out(examples, "a fifth of the pairs", |one| fifth(&one.pair));
    by_act(examples, &model, fifth);
    let of_fifth: Vec<&Definition> = definitions.iter().filter(|one| fifth(&one.pair)).collect();
    whole("  their definitions", &model, &of_fifth);
    let langs: BTreeSet<&String> = of_fifth.iter().map(|one| &one.lang).collect();
    for lang in langs {
        let of_lang = of_fifth.iter().filter(|one| one.lang == *lang);
        whole(
            &format!("    in {lang}"),
            &model,
            &of_lang.copied().collect::<Vec<_>>(),
        );
    }
    for author in examples
        .iter()
        .map(|one| &one.author)
        .collect::<BTreeSet<_>>()
    {
        let model = leave_out(examples, &format!("author {author}"), |one| {
            one.author == *author
        });
        let of_author = definitions.iter().filter(|one| one.author == *author);
        whole(
            "  their definitions",
            &model,
            &of_author.collect::<Vec<_>>(),
        );
    }
    for lang in examples
        .iter()
        .map(|one| &one.lang)
        .collect::<BTreeSet<_>>()
    {
        if lang != "en" && !lang.is_empty() {
            leave_out(examples, &format!("language {lang}"), |one| {
                one.lang == *lang
            });
        }
    }
}

/// Prints how well whole definitions are told apart, by their most telling sentence and their length.
fn whole(name: &str, model: &[u8], definitions: &[&Definition]) {
    let Some(model) = Model::read(model) else {
        return;
    };
    let scored = definitions.iter().map(|one| {
        let odds = one.sentences.iter().map(|one| model.answers(one)[0]);
        let worst = odds.fold(f32::MIN, f32::max);
        (in_definition(worst, one.sentences.len()), one.attack)
    });
    let scored: Vec<(f32, bool)> = scored.collect();
    if scored.iter().any(|one| one.1) {
        line(name, &scored);
    }
}

/// Fits without what `out` selects, prints how it does on that, and returns the model.
fn leave_out(examples: &[Example], name: &str, out: impl Fn(&Example) -> bool) -> Vec<u8> {
    let kept: Vec<&Example> = examples.iter().filter(|one| !out(one)).collect();
    let model = fit::fit(&kept);
    if let Some(model) = Model::read(&model) {
        let scored = examples.iter().filter(|one| out(one));
        let scored = scored.map(|one| (model.answers(&one.features)[0], one.attack));
        line(name, &scored.collect::<Vec<_>>());
    }
    model
}

/// Prints how many attacks of each act are found at one false alarm in a hundred.
fn by_act(examples: &[Example], model: &[u8], out: impl Fn(&str) -> bool) {
    let Some(model) = Model::read(model) else {
        return;
    };
    let scored: Vec<(f32, &Example)> = examples
        .iter()
        .filter(|one| out(&one.pair))
        .map(|one| (model.answers(&one.features)[0], one))
        .collect();
    let limit = limit(
        &scored
            .iter()
            .map(|(odds, one)| (*odds, one.attack))
            .collect::<Vec<_>>(),
    );
    for (index, act) in ACTS.iter().enumerate() {
        let of_act = scored
            .iter()
            .filter(|(_, one)| one.attack && one.acts >> index & 1 == 1);
        let (found, all) = of_act.fold((0, 0), |(found, all), (odds, _)| {
            (found + usize::from(*odds > limit), all + 1)
        });
        println!("  {:<20} {found:>4} of {all}", act.name);
    }
}

/// The log odds that one honest example in a hundred exceeds.
fn limit(scored: &[(f32, bool)]) -> f32 {
    let mut honest: Vec<f32> = scored
        .iter()
        .filter(|one| !one.1)
        .map(|one| one.0)
        .collect();
    honest.sort_by(|a, b| b.total_cmp(a));
    honest.get(honest.len() / 100).copied().unwrap_or(f32::MAX)
}

/// Prints one line: the area under the curve, and the share of attacks found at one false alarm in a hundred.
fn line(name: &str, scored: &[(f32, bool)]) {
    let limit = limit(scored);
    let attacks: Vec<f32> = scored.iter().filter(|one| one.1).map(|one| one.0).collect();
    let honest: Vec<f32> = scored
        .iter()
        .filter(|one| !one.1)
        .map(|one| one.0)
        .collect();
    let above = attacks
        .iter()
        .map(|attack| honest.iter().filter(|one| *one < attack).count())
        .sum::<usize>();
    let found = attacks.iter().filter(|odds| **odds > limit).count();
    let pairs = (attacks.len() * honest.len()).max(1);
    println!(
        "{name:<24} {:>5} attacks {:>5} honest  area {:.3}  found at 1 %: {:.1} %",
        attacks.len(),
        honest.len(),
        above as f64 / pairs as f64,
        100.0 * found as f64 / attacks.len().max(1) as f64
    );
}
