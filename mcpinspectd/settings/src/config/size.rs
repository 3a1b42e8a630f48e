//! Sizes and counts as people write them, within their limits.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// A number of bytes: an integer, or a text such as `64KiB`, `16MiB`, `1GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("B", 0)];

impl ByteSize {
    /// Returns the size as a length in memory.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (number, shift) = UNITS
            .iter()
            .find_map(|&(unit, shift)| Some((text.strip_suffix(unit)?, shift)))
            .unwrap_or((text, 0));
        let number: u64 = number.trim_end().replace('_', "").parse().ok()?;
        number.checked_mul(1 << shift).map(Self)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Size;
        impl Visitor<'_> for Size {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size in bytes, such as 65536, \"64KiB\" or \"16MiB\"")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<ByteSize, E> {
                u64::try_from(value)
                    .map(ByteSize)
                    .map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(value))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<ByteSize, E> {
                ByteSize::parse(value)
                    .ok_or_else(|| E::invalid_value(Unexpected::Str(value), &self))
            }
        }
        deserializer.deserialize_any(Size)
    }
}

pub(super) fn ring<'de, D: Deserializer<'de>>(d: D) -> Result<ByteSize, D::Error> {
    let size = between(d, "ring_size", 64 << 10, 1 << 30)?;
    if !size.0.is_power_of_two() {
        let next = ByteSize(size.0.next_power_of_two());
        return Err(D::Error::custom(format!(
            "ring_size must be a power of two, not {size}; the next larger one is \"{next}\"",
        )));
    }
    Ok(size)
}

pub(super) fn budget<'de, D: Deserializer<'de>>(d: D) -> Result<ByteSize, D::Error> {
    between(d, "sniff_budget", 4 << 10, 16 << 20)
}

pub(super) fn message<'de, D: Deserializer<'de>>(d: D) -> Result<ByteSize, D::Error> {
    between(d, "max_message", 64 << 10, 1 << 30)
}

pub(super) fn definitions<'de, D: Deserializer<'de>>(d: D) -> Result<ByteSize, D::Error> {
    between(d, "bytes_per_user", 1 << 20, 1 << 30)
}

fn between<'de, D: Deserializer<'de>>(
    deserializer: D,
    name: &str,
    min: u64,
    max: u64,
) -> Result<ByteSize, D::Error> {
    let size = ByteSize::deserialize(deserializer)?;
    if !(min..=max).contains(&size.0) {
        return Err(D::Error::custom(format!(
            "{name} must be from {} to {}, not {size}",
            ByteSize(min),
            ByteSize(max)
        )));
    }
    Ok(size)
}

pub(super) fn requests<'de, D: Deserializer<'de>>(d: D) -> Result<usize, D::Error> {
    count(d, "requests_in_flight", 16, 1_000_000)
}

pub(super) fn sessions<'de, D: Deserializer<'de>>(d: D) -> Result<usize, D::Error> {
    count(d, "sessions", 1, 100_000)
}

pub(super) fn store<'de, D: Deserializer<'de>>(d: D) -> Result<ByteSize, D::Error> {
    between(d, "max_size", 16 << 20, 1 << 40)
}

pub(super) fn days<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
    let days = count(d, "days", 1, 3650)?;
    u32::try_from(days).map_err(D::Error::custom)
}

pub(super) fn some_days<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    days(d).map(Some)
}

pub(super) fn call_timeout<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    Ok(count(d, "call_timeout", 1, 86_400)? as u64)
}

pub(super) fn items<'de, D: Deserializer<'de>>(d: D) -> Result<usize, D::Error> {
    count(d, "items_per_user", 256, 65_536)
}

pub(super) fn seconds<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    Ok(count(d, "every", 1, 3600)? as u64)
}

fn count<'de, D: Deserializer<'de>>(
    deserializer: D,
    name: &str,
    min: usize,
    max: usize,
) -> Result<usize, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "expected a whole number")]
    enum Raw {
        Count(i64),
    }
    let Raw::Count(value) = Raw::deserialize(deserializer)?;
    usize::try_from(value)
        .ok()
        .filter(|value| (min..=max).contains(value))
        .ok_or_else(|| D::Error::custom(format!("{name} must be from {min} to {max}, not {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("65536", Some(65536)),
            ("64KiB", Some(65536)),
            ("16 MiB", Some(16 << 20)),
            ("1GiB", Some(1 << 30)),
            ("7B", Some(7)),
            ("1_000", Some(1000)),
            ("", None),
            ("MiB", None),
            ("1MB", None),
            ("1.5MiB", None),
            ("-1", None),
            ("18446744073709551615GiB", None),
        ] {
            assert_eq!(ByteSize::parse(text).map(|size| size.0), bytes, "{text}");
        }
        for size in [0, 1, 1023, 1024, 1 << 20, (1 << 20) + 1024, 3 << 30] {
            assert_eq!(
                ByteSize::parse(&ByteSize(size).to_string()),
                Some(ByteSize(size))
            );
        }
    }
}
