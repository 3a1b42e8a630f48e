//! What a step works with.

use mcpinspect_process::Launches;

use crate::discover::environment::Environment;
use crate::discover::output::Output;

/// The machine, and where the results go. Created for each record or tick.
pub struct Context<'a> {
    /// The machine.
    pub machine: &'a mut dyn Environment,
    /// What processes were started as.
    pub launches: &'a Launches,
    /// Takes the inputs.
    pub output: Output<'a>,
}
