//! How fast a tape is played.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

/// How fast, compared with the recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// This many times as fast: 0.1 to 100.
    Times(f64),
    /// Without waiting.
    Max,
}

/// It is neither a number from 0.1 to 100 nor `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected a number from 0.1 to 100, or `max`")]
pub struct SpeedError;

impl Speed {
    /// How long to wait for a gap of this length on the tape.
    pub fn wait(self, gap: Duration) -> Duration {
        match self {
            Self::Max => Duration::ZERO,
            Self::Times(times) => {
                Duration::try_from_secs_f64(gap.as_secs_f64() / times).unwrap_or(Duration::MAX)
            }
        }
    }
}

impl FromStr for Speed {
    type Err = SpeedError;

    fn from_str(text: &str) -> Result<Self, SpeedError> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let times: f64 = text.parse().map_err(|_| SpeedError)?;
        match (0.1..=100.0).contains(&times) {
            true => Ok(Self::Times(times)),
            false => Err(SpeedError),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(times) => times.fmt(f),
            Self::Max => f.write_str("max"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_bounded_number_or_max() {
        for text in ["0.1", "1", "2.5", "100", "max"] {
            let speed: Result<Speed, _> = text.parse();
            assert_eq!(speed.map(|speed| speed.to_string()).as_deref(), Ok(text));
        }
        for text in ["0", "0.09", "101", "-1", "NaN", "inf", "", "fast"] {
            assert_eq!(text.parse::<Speed>(), Err(SpeedError), "{text}");
        }
        let gap = Duration::from_secs(3);
        assert_eq!(Speed::Times(2.0).wait(gap), Duration::from_millis(1500));
        assert_eq!(Speed::Max.wait(gap), Duration::ZERO);
        assert_eq!(Speed::Times(0.1).wait(Duration::MAX), Duration::MAX);
    }
}
