//! Exchanges, counted by method: how many, how many failed, how long answers took.
//!
//! This is what monitoring systems read. Its only labels are methods of the protocol: names
//! of servers and tools are not for every user of the machine, and a server decides how many there are.
//! Counts per server and tool are in the message store.

use mcpinspect_core::mcp::method;
use mcpinspect_core::session::Correlation;
use mcpinspect_core::session::latency::Histogram;
use mcpinspect_engine::{MessageKind, MessageSeen, Output, OutputSink};

/// Stands for every method that no revision of the protocol defines.
pub const OTHER: &str = "other";

/// The exchanges of one method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MethodCounts {
    /// Requests that were sent.
    pub requests: u64,
    /// Responses to them that were errors, the protocol's or a tool's.
    pub errors: u64,
    /// How long responses took.
    pub latency: Histogram,
}

/// Exchanges since the daemon started. An output of the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// By method, in the order of [`method::KNOWN`] and [`OTHER`] last; shorter while there is nothing.
    methods: Vec<MethodCounts>,
    /// Responses by [`Correlation`], in its order.
    responses: [u64; Correlation::ALL.len()],
    /// Requests that were noted as overdue.
    overdue: u64,
}

impl CallCounts {
    fn method(&mut self, name: &str) -> &mut MethodCounts {
        let known = method::KNOWN.iter().position(|known| *known == name);
        let index = known.unwrap_or(method::KNOWN.len());
        if self.methods.len() <= index {
            self.methods.resize_with(index + 1, MethodCounts::default);
        }
        &mut self.methods[index]
    }

    fn count(&mut self, seen: &MessageSeen<'_>) {
        match (seen.head.kind, seen.method()) {
            (MessageKind::Request, Some(name)) => self.method(name).requests += 1,
            (MessageKind::Response, Some(name)) => {
                let counts = self.method(name);
                counts.errors += u64::from(seen.exchange.is_error);
                if let Some(nanos) = seen.exchange.latency_ns {
                    counts.latency.add(nanos);
                }
            }
            _ => {}
        }
        if let Some(correlation) = seen.exchange.correlation {
            self.responses[correlation as usize] += 1;
        }
    }

    /// The methods with a request or a response, by name.
    pub fn methods(&self) -> impl Iterator<Item = (&'static str, &MethodCounts)> {
        let names = method::KNOWN.into_iter().chain([OTHER]);
        let all = names.zip(&self.methods);
        all.filter(|(_, counts)| **counts != MethodCounts::default())
    }

    /// How many responses relate to their request in each way.
    pub fn responses(&self) -> impl Iterator<Item = (Correlation, u64)> {
        Correlation::ALL.into_iter().zip(self.responses)
    }

    /// Requests that waited too long for their answer.
    pub fn overdue(&self) -> u64 {
        self.overdue
    }
}

impl OutputSink for CallCounts {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Message(seen) | Output::Member(seen) => self.count(seen),
            Output::Overdue(_) => self.overdue += 1,
            Output::Judged(..) | Output::Event(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::Direction::{ClientToServer as Up, ServerToClient as Down};
    use mcpinspect_core::source::script::Script;
    use mcpinspect_engine::{Engine, Limits};
    use mcpinspect_judge::detect::NoDetector;
    use mcpinspect_judge::registry::Registry;

    use super::*;

    #[test]
    fn exchanges_are_counted_by_method_members_of_batches_too() {
        let mut engine = Engine::new(
            Limits::default(),
            Registry::in_memory(),
            Box::new(NoDetector),
        );
        let mut counts = CallCounts::default();
        let mut script = Script::new("files");
        engine.handle(script.start(), &mut counts);
        for (direction, text) in [
            (
                Up,
                r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call"},{"jsonrpc":"2.0","id":2,"method":"x/y"}]"#,
            ),
            (
                Down,
                r#"{"jsonrpc":"2.0","id":1,"result":{"isError":true}}"#,
            ),
            (Down, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#),
            (Down, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#),
            (Down, r#"{"jsonrpc":"2.0","id":3,"result":{}}"#),
        ] {
            engine.handle(script.line(direction, text), &mut counts);
        }
        let methods: Vec<_> = counts
            .methods()
            .map(|(name, counts)| (name, counts.requests, counts.errors, counts.latency.count()))
            .collect();
        assert_eq!(methods, [("tools/call", 1, 1, 1), ("other", 1, 0, 1)]);
        let of = |one| counts.responses().find(|(each, _)| *each == one);
        assert_eq!(of(Correlation::Answer), Some((Correlation::Answer, 2)));
        assert_eq!(
            of(Correlation::Duplicate),
            Some((Correlation::Duplicate, 1))
        );
        assert_eq!(of(Correlation::Orphan), Some((Correlation::Orphan, 1)));
    }
}
