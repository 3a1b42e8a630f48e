//! Which hook the configuration asks for.

use serde::Deserialize;

/// How to hook system calls.
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

/// Where to look into TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Words")]
pub enum TlsChoice {
    /// Nowhere.
    Off,
    /// In individual processes, unless they call their library too often.
    #[default]
    Processes,
    /// In every process that has mapped a library, whatever it costs.
    Machine,
}

/// How that is written.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    Switch(bool),
    Name(String),
}

impl TryFrom<Words> for TlsChoice {
    type Error = &'static str;

    fn try_from(words: Words) -> Result<Self, Self::Error> {
        match words {
            Words::Switch(false) => Ok(Self::Off),
            Words::Switch(true) => Ok(Self::Processes),
            Words::Name(name) if name == "machine" => Ok(Self::Machine),
            Words::Name(_) => Err("`tls` must be true, false or \"machine\""),
        }
    }
}
