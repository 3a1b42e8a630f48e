//! What a step works with.

use crate::capture::BootClock;
use crate::discover::environment::Environment;
use crate::model::InputSink;
use crate::process::Launches;

/// The machine, and where the results go. Created for each record or tick.
pub struct Context<'a> {
    /// The machine.
    pub machine: &'a mut dyn Environment,
    /// What processes were started as.
    pub launches: &'a Launches,
    /// Converts the kernel's time to calendar time.
    pub clock: BootClock,
    /// Takes the inputs.
    pub sink: &'a mut dyn InputSink,
}
