//! Times, durations and sizes as people read them.

use super::escape::printable;

/// A time for people: `2026-11-23 12:30:01.123`.
pub fn moment(time: &str) -> String {
    let time = time.get(..23).unwrap_or(time);
    printable(&time.replacen('T', " ", 1), 32)
}

/// A duration for people.
pub fn duration(nanos: u64) -> String {
    match nanos {
        0..1_000_000 => format!("{} µs", nanos / 1000),
        1_000_000..10_000_000_000 => {
            format!("{}.{} ms", nanos / 1_000_000, nanos / 100_000 % 10)
        }
        _ => format!("{} s", nanos / 1_000_000_000),
    }
}

/// Bytes for people.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(duration(900), "0 µs");
        assert_eq!(duration(1_250_000), "1.2 ms");
        assert_eq!(duration(61_000_000_000), "61 s");
        assert_eq!(size(100), "100 B");
        assert_eq!(size(20 << 10), "20 KiB");
        assert_eq!(
            moment("2026-11-23T12:30:01.123456789Z"),
            "2026-11-23 12:30:01.123"
        );
    }
}
