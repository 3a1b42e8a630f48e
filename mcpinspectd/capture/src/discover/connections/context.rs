//! What a step works with.

use mcpinspect_core::model::InputSink;
use mcpinspect_process::Launches;

use crate::capture::BootClock;
use crate::discover::environment::Environment;

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
