//! Removes events that are older than wanted, month by month: a month is a part of the table, which can be dropped
//! without being read. (An expiry that the engine carries out itself needs a newer version than Debian's.)

use std::io::Read as _;

use mcpinspect_core::model::Timestamp;

use super::schema::Database;
use super::{Engine, EngineError};

/// Longest list of months to read: more than there are.
const LIST_MAX: u64 = 64 << 10;

/// Removes the months that ended before `oldest`, and returns them, such as `202601`.
///
/// # Errors
/// See [`EngineError`].
pub fn remove_before(
    engine: &impl Engine,
    database: &Database,
    oldest: Timestamp,
) -> Result<Vec<u32>, EngineError> {
    let db = database.name();
    let question = format!(
        "SELECT DISTINCT partition FROM system.parts WHERE database = '{db}' AND table = 'events' AND active FORMAT TabSeparated"
    );
    let mut answer = String::new();
    engine
        .query(&question)?
        .take(LIST_MAX)
        .read_to_string(&mut answer)?;
    let first = month(oldest);
    let months = answer.lines().filter_map(|line| line.trim().parse().ok());
    let mut old: Vec<u32> = months.filter(|month| *month < first).collect();
    old.sort_unstable();
    for month in &old {
        let statement = format!("ALTER TABLE {db}.events DROP PARTITION {month}");
        engine.send(&statement, Vec::new())?;
    }
    Ok(old)
}

/// The month as a number.
fn month(time: Timestamp) -> u32 {
    let text: String = time.to_string().chars().take(7).collect();
    text.replace('-', "").parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months() {
        let of = |text| month(Timestamp::parse(text).unwrap());
        assert_eq!(of("2026-01-31T23:59:59Z"), 202_601);
        assert_eq!(of("1999-12-01T00:00:00Z"), 199_912);
        assert_eq!(month(Timestamp(0)), 197_001);
    }
}
