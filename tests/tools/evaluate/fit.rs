//! Fits the weights: a small logistic regression over labelled examples.
//!
//! A few hundred samples of a few attack families cannot show what the next family looks like. So the
//! fit only *corrects* what the authors of the rules assumed: each weight is pulled towards the weight
//! in its rule file, and moves away only as far as the samples demand. A rule that no sample touches
//! keeps its weight. Weights never change their sign: a sign of an attack must not become a sign of
//! honesty because one corpus happens to lack it. Each family counts by the square root of its size, so
//! that a large one does not drown the others. The result depends on the samples alone: neither their
//! order nor chance plays a part.

use std::collections::BTreeMap;

use mcpinspect_judge::detect::rules::{RuleId, RuleSet};
use mcpinspect_judge::detect::score::{Features, shares};

/// One labelled example.
#[derive(Clone, Debug)]
pub struct Example {
    /// What was found in it.
    pub features: Features,
    /// Whether it is an attack.
    pub malicious: bool,
    /// Its family or source.
    pub group: String,
}

/// Settings of a fit.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Strength of the pull towards the weights in the rule file.
    pub prior: f32,
    /// Steps of gradient descent.
    pub steps: usize,
    /// How much all benign examples together weigh against all attacks together.
    pub benign: f32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            prior: 0.02,
            steps: 1500,
            benign: 3.0,
        }
    }
}

/// The result: a bias and a weight for each rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// Log odds of a text in which nothing was found.
    pub bias: f32,
    /// Weight of each rule, by its index.
    pub weights: Vec<f32>,
}

impl Fitted {
    /// Log odds of an example's worst window.
    pub fn log_odds(&self, rules: &RuleSet, features: &Features) -> f32 {
        worst(rules, self, features, &mut Vec::new(), &mut Vec::new()).1
    }
}

/// The heaviest window and its log odds. `best` receives the shares of its rules.
fn worst<'f>(
    rules: &RuleSet,
    fitted: &Fitted,
    features: &'f Features,
    best: &mut Vec<f32>,
    buffer: &mut Vec<f32>,
) -> (&'f [RuleId], f32) {
    let mut found: (&[RuleId], f32) = (&[], fitted.bias);
    best.clear();
    for window in &features.windows {
        shares(rules, &fitted.weights, window, buffer);
        let sum = window
            .iter()
            .zip(buffer.iter())
            .fold(fitted.bias, |sum, (id, share)| {
                sum + share * fitted.weights[id.0 as usize]
            });
        if sum > found.1 || found.0.is_empty() {
            found = (window, sum);
            std::mem::swap(best, buffer);
        }
    }
    found
}

/// The weight of each example, such that a group counts by the square root of its size.
fn importance(examples: &[&Example], benign: f32) -> Vec<f32> {
    let mut sizes = BTreeMap::new();
    for example in examples {
        *sizes
            .entry((example.malicious, example.group.as_str()))
            .or_insert(0usize) += 1;
    }
    let total = |malicious: bool| {
        sizes
            .iter()
            .filter(|((bad, _), _)| *bad == malicious)
            .map(|(_, size)| (*size as f32).sqrt())
            .sum::<f32>()
            .max(1.0)
    };
    let (bad, good) = (total(true), total(false));
    examples
        .iter()
        .map(|example| {
            let size = sizes[&(example.malicious, example.group.as_str())] as f32;
            let share = 1.0 / size.sqrt();
            if example.malicious {
                share / bad
            } else {
                benign * share / good
            }
        })
        .collect()
}

/// Fits weights to examples, starting from the weights of `rules` and pulled towards them.
pub fn fit(rules: &RuleSet, examples: &[&Example], bias: f32, settings: Settings) -> Fitted {
    let prior: Vec<f32> = rules.rules().iter().map(|rule| rule.weight).collect();
    let mut fitted = Fitted {
        bias,
        weights: prior.clone(),
    };
    let (mut best, mut buffer) = (Vec::new(), Vec::new());
    let importance = importance(examples, settings.benign);
    // Where nothing was found, only the bias counts: those examples are one.
    let (telling, silent): (Vec<_>, Vec<_>) =
        examples.iter().zip(&importance).partition(|(example, _)| {
            example
                .features
                .windows
                .iter()
                .any(|window| !window.is_empty())
        });
    let silent = [false, true].map(|malicious| {
        let of_class = silent.iter().filter(|one| one.0.malicious == malicious);
        of_class.map(|one| one.1).sum::<f32>()
    });
    let mut gradient = vec![0f32; prior.len()];
    let mut squares = vec![0f32; prior.len() + 1];
    for _ in 0..settings.steps {
        gradient
            .iter_mut()
            .zip(&fitted.weights)
            .zip(&prior)
            .for_each(|((slope, weight), prior)| *slope = settings.prior * (weight - prior));
        let likely = 1.0 / (1.0 + (-fitted.bias).exp());
        let mut bias_slope = silent[0] * likely + silent[1] * (likely - 1.0);
        for (example, importance) in &telling {
            let (window, sum) = worst(rules, &fitted, &example.features, &mut best, &mut buffer);
            let likely = 1.0 / (1.0 + (-sum).exp());
            let slope = *importance * (likely - f32::from(u8::from(example.malicious)));
            bias_slope += slope;
            for (id, share) in window.iter().zip(&best) {
                gradient[id.0 as usize] += share * slope;
            }
        }
        // Adagrad: a weight's steps shrink as its past gradients add up.
        for (index, slope) in gradient.iter().enumerate() {
            squares[index] += slope * slope;
            let moved = fitted.weights[index] - 0.3 * slope / (squares[index].sqrt() + 1e-8);
            fitted.weights[index] = if prior[index] < 0.0 {
                moved.min(0.0)
            } else {
                moved.max(0.0)
            };
        }
        let last = prior.len();
        squares[last] += bias_slope * bias_slope;
        fitted.bias -= 0.3 * bias_slope / (squares[last].sqrt() + 1e-8);
    }
    fitted
}
