//! The model: for each act, a weight for each bucket.
//!
//! A logistic regression for each act, all on the same features. It was chosen because its answer is a sum
//! whose every part can be shown, because it is the same on every machine, and because nothing larger that was
//! tried did better on unseen authors. Weights are bytes with a scale per act.

use std::borrow::Cow;

use super::act::ACTS;
use super::features::{BUCKETS, SentenceFeatures};

/// What the model answers: whether it is an attack at all, and which act.
pub const ANSWERS: usize = ACTS.len() + 1;
/// Bytes of a bucket: its weights, padded to a fraction of a cache line.
const ROW: usize = 16;
/// How the file begins.
const MAGIC: &[u8; 8] = b"mcpmean1";

/// How much the features of each kind weigh together, and how many more there would have to be to halve the
/// weight of each: a short sentence must not depend on two words.
const KINDS: [(f32, f32); 3] = [(1.0, 60.0), (1.0, 18.0), (1.0, 30.0)];

/// The features of a sentence, with what each of a kind counts.
pub fn weighted(features: &SentenceFeatures) -> [(&[u32], f32); 3] {
    let lists = [&features.words, &features.shape, &features.signs];
    let mut index = 0;
    lists.map(|list| {
        let (share, damping) = KINDS[index];
        index += 1;
        (&**list, share / (list.len() as f32 + damping).sqrt())
    })
}

/// The weights.
#[derive(Debug)]
pub struct Model<'a> {
    bias: [f32; ANSWERS],
    scale: [f32; ANSWERS],
    /// [`BUCKETS`] rows of [`ROW`] signed bytes.
    rows: Cow<'a, [u8]>,
    /// A copy of the first of each row, adjacent to each other: most sentences need no more than that.
    attack: Vec<i8>,
}

impl<'a> Model<'a> {
    /// Reads a model in the format of [`Model::write`]; `None` if it is something else.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (bias, rest) = numbers(rest)?;
        let (scale, rows) = numbers(rest)?;
        let attack = rows.iter().step_by(ROW).map(|byte| byte.cast_signed());
        (rows.len() == BUCKETS * ROW).then(|| Self {
            bias,
            scale,
            rows: Cow::Borrowed(rows),
            attack: attack.collect(),
        })
    }

    /// The same model with bytes of its own.
    pub fn into_owned(self) -> Model<'static> {
        Model {
            bias: self.bias,
            scale: self.scale,
            rows: Cow::Owned(self.rows.into_owned()),
            attack: self.attack,
        }
    }

    /// Log odds that a sentence is an attack: the first of [`Self::answers`].
    pub fn attack(&self, features: &SentenceFeatures) -> f32 {
        let mut out = self.bias[0];
        for (list, value) in weighted(features) {
            let weights = list.iter().map(|bucket| self.attack[*bucket as usize]);
            let sum: i32 = weights.map(i32::from).sum();
            out += value * self.scale[0] * sum as f32;
        }
        out
    }

    /// Log odds of every answer for a sentence.
    pub fn answers(&self, features: &SentenceFeatures) -> [f32; ANSWERS] {
        let rows: &[u8] = &self.rows;
        let mut out = self.bias;
        for (list, value) in weighted(features) {
            let mut sums = [0i32; ANSWERS];
            for bucket in list {
                let from = *bucket as usize * ROW;
                for (sum, byte) in sums.iter_mut().zip(&rows[from..from + ROW]) {
                    *sum += i32::from(byte.cast_signed());
                }
            }
            for ((out, sum), scale) in out.iter_mut().zip(sums).zip(self.scale) {
                *out += value * scale * sum as f32;
            }
        }
        out
    }

    /// The bytes of a model with these weights: a bias for each answer, and [`ANSWERS`] weights for each
    /// bucket.
    pub fn write(bias: &[f32; ANSWERS], weights: &[f32]) -> Vec<u8> {
        let mut scale = [f32::MIN_POSITIVE; ANSWERS];
        for row in weights.chunks(ANSWERS) {
            for (scale, weight) in scale.iter_mut().zip(row) {
                *scale = scale.max(weight.abs() / 127.0);
            }
        }
        let mut out = MAGIC.to_vec();
        let numbers = bias.iter().chain(&scale);
        out.extend(numbers.flat_map(|number| number.to_le_bytes()));
        for row in weights.chunks(ANSWERS).take(BUCKETS) {
            let bytes = row.iter().zip(scale);
            let bytes = bytes.map(|(weight, scale)| (weight / scale).round() as i8);
            let padding = std::iter::repeat_n(0, ROW - ANSWERS);
            out.extend(bytes.chain(padding).map(i8::cast_unsigned));
        }
        out
    }
}

/// The numbers at the beginning of some bytes, and the rest.
fn numbers(bytes: &[u8]) -> Option<([f32; ANSWERS], &[u8])> {
    let (head, rest) = bytes.split_at_checked(4 * ANSWERS)?;
    let mut out = [0.0; ANSWERS];
    for (number, four) in out.iter_mut().zip(head.chunks_exact(4)) {
        *number = f32::from_le_bytes(four.try_into().ok()?);
    }
    Some((out, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut weights = vec![0.0; BUCKETS * ANSWERS];
        weights[7 * ANSWERS] = 2.0;
        weights[7 * ANSWERS + 3] = -1.0;
        let mut bias = [0.0; ANSWERS];
        bias[0] = -0.5;
        let bytes = Model::write(&bias, &weights);
        let model = Model::read(&bytes).unwrap();
        let features = SentenceFeatures {
            words: vec![7],
            ..SentenceFeatures::default()
        };
        let answers = model.answers(&features);
        let share = 1.0 / 61f32.sqrt();
        assert!((answers[0] - (2.0 * share - 0.5)).abs() < 1e-3);
        assert_eq!(model.attack(&features), answers[0]);
        assert!((answers[3] + share).abs() < 1e-3);
        assert!(Model::read(&bytes[1..]).is_none() && Model::read(&bytes[..90]).is_none());
    }
}
