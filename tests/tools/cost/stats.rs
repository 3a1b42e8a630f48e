//! Minimum and median, and tables of them.

/// Samples of one quantity.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds one.
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    /// Adds many.
    pub fn extend(&mut self, samples: impl IntoIterator<Item = f64>) {
        self.0.extend(samples);
    }

    /// The smallest.
    pub fn minimum(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// A share of the samples is at or below it: 0.5 gives the median.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        // Rounded to the nearest sample; the index is within bounds by construction.
        let at = (last as f64 * share).round() as usize;
        sorted.get(at).copied().unwrap_or(f64::NAN)
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }
}

/// Prints a table's head.
pub fn head(columns: &[&str]) {
    println!("| {} |", columns.join(" | "));
    println!("|{}", "---|".repeat(columns.len()));
}

/// Prints a table's row.
pub fn row(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

/// A whole number with its thousands apart.
pub fn grouped(number: f64) -> String {
    if !number.is_finite() {
        return "–".to_owned();
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_right() {
        let mut samples = Samples::default();
        samples.extend([5.0, 1.0, 9.0, 3.0, 7.0]);
        assert!((samples.minimum() - 1.0).abs() < 1e-9);
        assert!((samples.median() - 5.0).abs() < 1e-9);
        assert!((samples.quantile(1.0) - 9.0).abs() < 1e-9);
        assert!(Samples::default().median().is_nan());
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(7.4), "7");
        assert_eq!(grouped(1234.0), "1,234");
        assert_eq!(grouped(1_234_567.0), "1,234,567");
        assert_eq!(grouped(f64::NAN), "–");
    }
}
