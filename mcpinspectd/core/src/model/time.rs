//! Points in time.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

/// A point in time: nanoseconds since the Unix epoch. Printed as RFC 3339 in UTC with microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The current time. The pure core never asks for it; times arrive with its inputs.
    pub fn now() -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// As RFC 3339 in UTC with nanoseconds.
    pub fn exact(self) -> String {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(stamp) => format!("{stamp:.9}"),
            Err(_) => self.to_string(),
        }
    }

    /// The time that an RFC 3339 text names; `None` if it names none, or one before 1970.
    pub fn parse(text: &str) -> Option<Self> {
        let stamp: jiff::Timestamp = text.parse().ok()?;
        u64::try_from(stamp.as_nanosecond()).ok().map(Self)
    }

    /// Nanoseconds from `earlier` to `self`; zero if `earlier` is later.
    pub fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(stamp) => write!(f, "{stamp:.6}"),
            // Beyond the year 9999: only a broken clock gets here, and its raw value shows that best.
            Err(_) => write!(f, "{}ns", self.0),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A point in time by the kernel's clock, which never jumps: nanoseconds since boot, including those
/// asleep (`CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(pub u64);

impl BootTime {
    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for BootTime {
    type Output = Self;

    /// Ends at the last time that can be expressed.
    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for BootTime {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

/// Times in JSON without loss, for `#[serde(with)]`: RFC 3339 in UTC with nanoseconds.
pub(super) mod exact {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Timestamp;

    pub fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        let stamp = jiff::Timestamp::from_nanosecond(i128::from(time.0))
            .map_err(serde::ser::Error::custom)?;
        serializer.collect_str(&format_args!("{stamp:.9}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        let stamp: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
        u64::try_from(stamp.as_nanosecond())
            .map(Timestamp)
            .map_err(|_| D::Error::custom("a moment before 1970 or after 2554"))
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(transparent)]
    struct Exact(#[serde(with = "exact")] Timestamp);

    #[test]
    fn text_names_the_moment() {
        let time = Timestamp(1_760_000_000_123_456_789);
        assert_eq!(time.exact(), "2025-10-09T08:53:20.123456789Z");
        assert_eq!(Timestamp::parse(&time.exact()), Some(time));
        assert_eq!(Timestamp::parse("1969-12-31T23:59:59Z"), None);
    }

    #[test]
    fn no_nanosecond_is_lost() {
        for (nanos, text) in [
            (0, "\"1970-01-01T00:00:00.000000000Z\""),
            (
                1_760_000_000_123_456_789,
                "\"2025-10-09T08:53:20.123456789Z\"",
            ),
            (u64::MAX, "\"2554-07-21T23:34:33.709551615Z\""),
        ] {
            let time = Exact(Timestamp(nanos));
            assert_eq!(serde_json::to_string(&time).ok().as_deref(), Some(text));
            assert_eq!(serde_json::from_str::<Exact>(text).ok(), Some(time));
        }
        for text in ["\"1969-12-31T23:59:59Z\"", "\"today\"", "17"] {
            assert!(serde_json::from_str::<Exact>(text).is_err(), "{text}");
        }
    }
}
