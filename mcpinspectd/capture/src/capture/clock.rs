//! Converts the kernel's time stamps to calendar time.

use mcpinspect_core::model::{BootTime, Timestamp};
use nix::time::{ClockId, clock_gettime};

/// Converts `CLOCK_BOOTTIME` to calendar time. The offset is measured again now and then, because the
/// calendar clock can be set while the machine runs.
#[derive(Clone, Copy, Debug)]
pub struct BootClock {
    /// Calendar time at boot, in nanoseconds since the epoch.
    boot: u64,
}

impl BootClock {
    /// Measures the offset.
    ///
    /// # Errors
    /// The kernel cannot read a clock that every supported version has.
    pub fn measure() -> nix::Result<Self> {
        let now = nanos(ClockId::CLOCK_REALTIME)?;
        Ok(Self {
            boot: now.saturating_sub(Self::now_boot()?.0),
        })
    }

    /// The clock of a machine booted at the epoch, for replays and tests.
    pub fn at_epoch() -> Self {
        Self { boot: 0 }
    }

    /// The calendar time of a point in time.
    pub fn at(self, time: BootTime) -> Timestamp {
        Timestamp(self.boot.saturating_add(time.0))
    }

    /// The current time.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn now_boot() -> nix::Result<BootTime> {
        nanos(ClockId::CLOCK_BOOTTIME).map(BootTime)
    }
}

fn nanos(clock: ClockId) -> nix::Result<u64> {
    let time = clock_gettime(clock)?;
    let (seconds, nanos) = (u64::try_from(time.tv_sec()), u64::try_from(time.tv_nsec()));
    Ok(seconds
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(nanos.unwrap_or(0)))
}
