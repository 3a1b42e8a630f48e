//! Calls that take several requests (revision 2026-07-28).
//!
//! A server that needs more input answers with `input_required` and a `requestState`. The client gathers
//! the input and sends the request again: with a new id, and with that state, which belongs to the server
//! and must come back unchanged. So the state is what makes two requests one call. A state that comes back
//! altered was changed by the client, or by someone in between.
//!
//! A client may take a state to another session, and a state may be sent twice. So an unknown state
//! counts as altered only while the same call is waiting for its own to come back.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::id::IdKey;
use crate::mcp::method::MethodName;

/// Most states to remember; the oldest make room.
const MAX_STATES: usize = 1024;

/// A call whose last result asked for more input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// Its method.
    pub method: MethodName,
    /// The tool that it calls.
    pub tool: Option<Arc<str>>,
    /// The number of the message that carried its first request.
    pub first: u64,
    /// How many requests came after that one.
    pub retries: u16,
}

/// What a request's state says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Continues {
    /// It continues this call.
    Call(OpenCall),
    /// It continues this call, whose state was different.
    Altered(OpenCall),
    /// The result that it refers to was not seen.
    Unknown,
}

/// The calls of a session that wait for more input.
#[derive(Debug, Default)]
pub struct Chains {
    states: HashMap<IdKey, State>,
    /// Oldest first.
    order: VecDeque<IdKey>,
}

#[derive(Debug)]
struct State {
    call: OpenCall,
    /// Whether it came back.
    returned: bool,
}

impl Chains {
    /// Notes that a result of `call` asked for more input.
    pub fn issued(&mut self, state: IdKey, call: OpenCall) {
        let returned = false;
        let former = self.states.insert(state.clone(), State { call, returned });
        if former.is_some() {
            return;
        }
        self.order.push_back(state);
        if self.order.len() > MAX_STATES
            && let Some(oldest) = self.order.pop_front()
        {
            self.states.remove(&oldest);
        }
    }

    /// Which call a request with this state continues.
    pub fn continued(
        &mut self,
        state: &IdKey,
        method: &MethodName,
        tool: Option<&str>,
    ) -> Continues {
        if let Some(state) = self.states.get_mut(state) {
            state.returned = true;
            return Continues::Call(state.call.clone());
        }
        let waiting = self.states.values_mut().find(|state| {
            !state.returned && state.call.method == *method && state.call.tool.as_deref() == tool
        });
        match waiting {
            Some(state) => {
                state.returned = true;
                Continues::Altered(state.call.clone())
            }
            None => Continues::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tool: &str) -> OpenCall {
        OpenCall {
            method: MethodName::new("tools/call"),
            tool: Some(tool.into()),
            first: 1,
            retries: 0,
        }
    }

    #[test]
    fn a_state_continues_its_call_and_another_is_altered_once() {
        let mut chains = Chains::default();
        let method = MethodName::new("tools/call");
        let state = IdKey::of_text;
        chains.issued(state("one"), call("a"));
        chains.issued(state("two"), call("b"));
        let mut continued = |text, tool| chains.continued(&state(text), &method, Some(tool));
        assert_eq!(continued("one", "a"), Continues::Call(call("a")));
        assert_eq!(continued("one", "a"), Continues::Call(call("a")));
        // The state of `a` came back; no other call of `a` waits for one.
        assert_eq!(continued("three", "a"), Continues::Unknown);
        assert_eq!(continued("three", "b"), Continues::Altered(call("b")));
        assert_eq!(continued("three", "b"), Continues::Unknown);
    }

    #[test]
    fn states_that_never_come_back_make_room() {
        let mut chains = Chains::default();
        for number in 0..10_000 {
            chains.issued(IdKey::Number(number), call("a"));
        }
        assert_eq!((chains.states.len(), chains.order.len()), (1024, 1024));
    }
}
