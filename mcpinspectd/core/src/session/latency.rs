//! How long answers take, as a histogram.
//!
//! A mean hides what people suffer from, and quantiles cannot be added up. So durations are counted in
//! buckets that are never wider than an eighth of their value: fine enough for a median or a 99th
//! percentile, and few enough for one histogram per tool, server and day. Two histograms add up
//! to the histogram of both.

use std::collections::BTreeMap;

/// Durations below this many microseconds have a bucket each.
const EXACT: u64 = 16;

/// Buckets of each power of two above, as a power of two.
const PRECISION: u32 = 3;

/// Counts of durations. Empty buckets take no space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: BTreeMap<u16, u64>,
    count: u64,
}

impl Histogram {
    /// Counts a duration.
    pub fn add(&mut self, nanos: u64) {
        self.add_bucket(bucket(nanos / 1000), 1);
    }

    fn add_bucket(&mut self, bucket: u16, count: u64) {
        let own = self.buckets.entry(bucket).or_default();
        *own = own.saturating_add(count);
        self.count = self.count.saturating_add(count);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.buckets {
            self.add_bucket(*bucket, *count);
        }
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The duration in nanoseconds that the given part of all does not exceed, such as 0.5 for the
    /// median: the upper end of its bucket, at most an eighth too long. `None` if nothing was counted.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank need not be exact above 2^53, and is never negative"
    )]
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let rank = (part.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (bucket, count) in &self.buckets {
            below += count;
            if below >= rank {
                return Some(upper_end(*bucket).saturating_mul(1000));
            }
        }
        None
    }

    /// The buckets as numbers, alternating each one's index and its count.
    pub fn to_numbers(&self) -> Vec<u64> {
        let pairs = self.buckets.iter();
        pairs
            .flat_map(|(bucket, count)| [u64::from(*bucket), *count])
            .collect()
    }

    /// The histogram made of such numbers. Numbers that cannot be one of its buckets are left out.
    pub fn from_numbers(numbers: &[u64]) -> Self {
        let mut histogram = Self::default();
        for pair in numbers.chunks_exact(2) {
            if let Ok(index) = u16::try_from(pair[0])
                && index <= bucket(u64::MAX)
            {
                histogram.add_bucket(index, pair[1]);
            }
        }
        histogram
    }
}

/// The bucket of a duration in microseconds.
#[expect(clippy::cast_possible_truncation, reason = "below 512")]
fn bucket(micros: u64) -> u16 {
    if micros < EXACT {
        return micros as u16;
    }
    let power = micros.ilog2();
    let within = (micros >> (power - PRECISION)) & ((1 << PRECISION) - 1);
    let octave = u64::from(power - EXACT.ilog2());
    (EXACT + (octave << PRECISION) + within) as u16
}

/// The longest duration of a bucket, in microseconds.
fn upper_end(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    if bucket < EXACT {
        return bucket;
    }
    let octave = (bucket - EXACT) >> PRECISION;
    let within = (bucket - EXACT) & ((1 << PRECISION) - 1);
    let width = 1_u64
        .checked_shl(u32::try_from(octave).unwrap_or(u32::MAX) + EXACT.ilog2() - PRECISION)
        .unwrap_or(u64::MAX);
    let start = ((1 << PRECISION) + within).saturating_mul(width);
    start.saturating_add(width - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantiles_of_a_known_distribution() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for milliseconds in 1..=1000 {
            histogram.add(milliseconds * 1_000_000);
        }
        for (part, exact) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = histogram.quantile(part).unwrap_or_default() as f64 / 1e6;
            assert!(
                (exact..=exact * 1.125).contains(&found),
                "{part}: {found} ms"
            );
        }
        assert_eq!(histogram.count(), 1000);
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_durations_and_is_narrow(micros in any::<u64>()) {
            let end = upper_end(bucket(micros));
            prop_assert!(end >= micros);
            prop_assert!(end - micros <= micros / 8);
            prop_assert_eq!(bucket(end), bucket(micros));
        }

        #[test]
        fn two_add_up_and_numbers_keep_them(
            one in prop::collection::vec(any::<u64>(), 0..50),
            two in prop::collection::vec(any::<u64>(), 0..50),
        ) {
            let of = |nanos: &[u64]| {
                let mut histogram = Histogram::default();
                nanos.iter().for_each(|nanos| histogram.add(*nanos));
                histogram
            };
            let mut sum = of(&one);
            sum.merge(&of(&two));
            prop_assert_eq!(&sum, &of(&[one, two].concat()));
            prop_assert_eq!(Histogram::from_numbers(&sum.to_numbers()), sum);
        }
    }
}
