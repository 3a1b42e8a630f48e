//! Tells that the kernel had no room to report what processes, streams and connections did.
//!
//! Lost bytes are told as gaps of the sessions that they belong to. Such a record may be the first word of a
//! session, and then there is none that a gap could belong to.

use std::borrow::Cow;
use std::time::Duration;

use mcpinspect_core::model::{BlindMechanism, BootTime, Input, Pid, SessionId, Timestamp};

/// Time between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Time between two reports: a ring that is full once tends to be full again.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// How many losses were told, and when to look for more.
#[derive(Debug, Default)]
pub struct LostRecords {
    told: u64,
    look: BootTime,
}

impl LostRecords {
    /// At `now`: what is to be told, if `lost`, the number of losses since the start,
    /// has grown.
    pub fn tell(&mut self, now: BootTime, lost: impl FnOnce() -> u64) -> Option<u64> {
        if now < self.look {
            return None;
        }
        self.look = now + LOOK_INTERVAL;
        let lost = lost();
        let more = lost.saturating_sub(self.told);
        if more == 0 {
            return None;
        }
        self.told = lost;
        self.look = now + REPORT_INTERVAL;
        Some(more)
    }
}

/// The input that says so.
pub fn input(records: u64, time: Timestamp) -> Input<'static> {
    let records = match records {
        1 => "1 record".to_owned(),
        _ => format!("{records} records"),
    };
    Input::BlindSpot {
        session: Cow::Owned(SessionId::none()),
        mechanism: BlindMechanism::RecordLost,
        pid: Pid(0),
        uid: None,
        found: Some(Cow::Owned(records)),
        time,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_soon_and_then_together() {
        let mut losses = LostRecords::default();
        assert_eq!(losses.tell(BootTime(1), || 0), None);
        assert_eq!(
            losses.tell(BootTime(2), || panic!("too soon to look")),
            None
        );
        let first = BootTime(1) + LOOK_INTERVAL;
        assert_eq!(losses.tell(first, || 3), Some(3));
        assert_eq!(
            losses.tell(first + LOOK_INTERVAL, || panic!("too soon")),
            None
        );
        let second = first + REPORT_INTERVAL;
        assert_eq!(losses.tell(second, || 10), Some(7));
        assert_eq!(losses.tell(second + REPORT_INTERVAL, || 10), None);
    }
}
