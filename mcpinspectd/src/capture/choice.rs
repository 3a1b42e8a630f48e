//! Which hook the configuration asks for.

use serde::Deserialize;

/// How system calls are to be hooked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookChoice {
    /// The cheapest hook that is exact on this kernel.
    #[default]
    Auto,
    /// The tracepoint that every system call passes.
    Tracepoint,
    /// The exits of the functions behind the calls that carry bytes; fails if they cannot be hooked.
    FunctionExit,
    /// A kprobe on the function that calls the tracepoint; fails if there are no kprobes.
    Kprobe,
}
