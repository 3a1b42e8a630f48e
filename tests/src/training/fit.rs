//! Fits a logistic regression for each answer of the model.
//!
//! Adagrad over the examples in an order that a generator with a fixed seed shuffles again for each round. A
//! share of the features is left out at random each time, so that no answer depends on a single one. The same
//! examples result in the same model, to the byte.

use mcpinspect_judge::detect::meaning::features::BUCKETS;
use mcpinspect_judge::detect::meaning::model::{ANSWERS, Model, weighted};

use super::examples::Example;

/// Rounds over all examples.
const ROUNDS: usize = 12;
/// The length of a step in the first round.
const RATE: f32 = 0.1;
/// The share of features to leave out.
const LEFT_OUT: f32 = 0.2;
/// How strongly weights are pulled towards zero.
const DECAY: f32 = 1e-6;

/// The bytes of a model that was fitted to examples.
pub fn fit(examples: &[&Example]) -> Vec<u8> {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut bias = [0f32; ANSWERS];
    let mut bias_squares = [1e-2f32; ANSWERS];
    let mut weights = vec![0f32; BUCKETS * ANSWERS];
    let mut squares = vec![1e-3f32; BUCKETS * ANSWERS];
    let mut order: Vec<usize> = (0..examples.len()).collect();
    let mut items: Vec<(usize, f32)> = Vec::new();
    for round in 0..ROUNDS {
        for index in (1..order.len()).rev() {
            order.swap(index, chance.below(index + 1));
        }
        let rate = RATE * (1.0 - round as f32 / ROUNDS as f32).max(0.1);
        for index in &order {
            let example = examples[*index];
            items.clear();
            for (list, value) in weighted(&example.features) {
                for bucket in list {
                    if chance.share() >= LEFT_OUT {
                        items.push((*bucket as usize * ANSWERS, value / (1.0 - LEFT_OUT)));
                    }
                }
            }
            let mut slopes = bias;
            for (at, value) in &items {
                let row = &weights[*at..at + ANSWERS];
                for (slope, weight) in slopes.iter_mut().zip(row) {
                    *slope += value * weight;
                }
            }
            for (answer, slope) in slopes.iter_mut().enumerate() {
                let likely = 1.0 / (1.0 + (-*slope).exp());
                let wanted = match answer {
                    0 => example.attack,
                    act => example.attack && example.acts >> (act - 1) & 1 == 1,
                };
                *slope = likely - f32::from(u8::from(wanted));
            }
            for ((bias, squares), slope) in bias.iter_mut().zip(&mut bias_squares).zip(slopes) {
                *squares += slope * slope;
                *bias -= rate * slope / squares.sqrt();
            }
            for (at, value) in &items {
                let row = weights[*at..at + ANSWERS].iter_mut();
                let row = row.zip(&mut squares[*at..at + ANSWERS]).zip(slopes);
                for ((weight, squares), slope) in row {
                    let slope = slope * value + DECAY * *weight;
                    *squares += slope * slope;
                    *weight -= rate * slope / squares.sqrt();
                }
            }
        }
    }
    Model::write(&bias, &weights)
}

/// A generator of numbers that look random, and are always the same.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit
    }

    /// A number from 0 to 1.
    fn share(&mut self) -> f32 {
        (self.next() & 0xff_ffff) as f32 / 16_777_216.0
    }
}
