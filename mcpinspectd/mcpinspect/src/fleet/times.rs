//! Times and durations as arguments of `mcpinspect fleet`.

use std::time::Duration;

use mcpinspect_core::model::Timestamp;

/// Reads a duration such as `90m`, `24h` or `7d`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("invalid duration {text:?}: use a form such as 90m, 24h or 7d");
    let (number, unit) = text
        .split_at_checked(text.len().saturating_sub(1))
        .ok_or_else(wrong)?;
    let number: u32 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

/// Reads a time, in RFC 3339.
pub(super) fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text)
        .ok_or_else(|| format!("invalid time {text:?}: write it like 2026-01-31T12:00:00Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(duration("90m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(604_800)));
        for wrong in ["", "h", "7", "7w", "-1h", "1é"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
