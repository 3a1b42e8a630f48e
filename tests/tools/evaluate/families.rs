//! Families that were not seen: the rows of each, by weights that were fitted without them.
//!
//! The weights of the rules were fitted to labelled rows, so what they do on those rows flatters. Here each family
//! of attacks is left out in turn, the weights are fitted to the rest, and the family is judged as the daemon would
//! judge it, by rules and model together. (The model is not fitted to any of these rows.)

use std::fmt::Write as _;
use std::sync::Arc;

use mcpinspect_judge::detect::WeightedRules;
use mcpinspect_judge::detect::analysis::Analyser;
use mcpinspect_judge::detect::category::Surface;
use mcpinspect_judge::detect::score::Weights;

use super::fit::Settings;
use super::judge::{self, Judged};
use super::tables::Count;
use super::{counts_for_fitting, load, train};

/// A family with fewer rows is told together with the others of its kind.
const LEAST: usize = 5;

/// The report: per family the shares at `warn`, `alert` and `block`.
pub fn report(
    options: &super::Options,
    active: &WeightedRules,
    judged: &[Judged],
    settings: Settings,
) -> anyhow::Result<String> {
    let mut families: Vec<(Surface, &str)> = judged
        .iter()
        .filter(|one| one.row.malicious() && counts_for_fitting(one))
        .filter(|one| one.surface != Surface::Argument)
        .map(|one| (one.surface, one.row.group.as_str()))
        .collect();
    families.sort_unstable();
    families.dedup();
    let counts = super::parallel(&families, |(surface, family)| {
        without(options, active, judged, (*surface, family), settings)
    });
    let mut out = format!(
        "\nfamilies that were not seen: by weights that were fitted without the family\n{:<11} {:<34} {:>6} {:>7} {:>7} {:>7}\n",
        "surface", "family left out", "rows", "warn%", "alert%", "block%"
    );
    for surface in [Surface::Definition, Surface::Content] {
        let (mut all, mut small) = (Count::default(), Count::default());
        for ((_, family), count) in families
            .iter()
            .zip(&counts)
            .filter(|((of, _), _)| *of == surface)
        {
            let count = count
                .as_ref()
                .map_err(|error| anyhow::anyhow!("{error:#}"))?;
            all.merge(count);
            match count.rows < LEAST {
                true => small.merge(count),
                false => line(&mut out, surface, family, count),
            }
        }
        line(&mut out, surface, "(small families)", &small);
        line(&mut out, surface, "(all)", &all);
    }
    Ok(out)
}

fn line(out: &mut String, surface: Surface, family: &str, count: &Count) {
    if count.rows > 0 {
        let _ = writeln!(
            out,
            "{:<11} {family:<34} {}",
            surface.to_string(),
            count.cells()
        );
    }
}

/// How the rows of a family are judged by weights that were fitted without it.
fn without(
    options: &super::Options,
    active: &WeightedRules,
    judged: &[Judged],
    (surface, family): (Surface, &str),
    settings: Settings,
) -> anyhow::Result<Count> {
    let fitted = train::fit_surface(&active.rules, judged, surface, Some(family), settings);
    let mut weights = Weights::clone(&active.weights);
    match surface {
        Surface::Definition => weights.definition = fitted,
        Surface::Content | Surface::Argument => weights.content = fitted,
    }
    let rules = WeightedRules {
        rules: load(options)?.rules,
        weights,
    };
    let mut analyser = Analyser::new(Arc::new(rules));
    let mut count = Count::default();
    let of_family = judged.iter().filter(|one| {
        one.row.malicious()
            && one.surface == surface
            && one.row.group == family
            && counts_for_fitting(one)
    });
    for one in of_family {
        count.add(judge::row(&mut analyser, &one.row, None).action);
    }
    Ok(count)
}
