//! Reading a message completely and writing it in canonical form never panics.
#![cfg_attr(fuzzing, no_main)]

use mcpinspect_core::mcp::view::{ErrorObject, Params, ServerResult, Tool};
use mcpinspect_core::mcp::{Budget, Message, Outcome, Payload, json, parse};
use mcpinspect_core::session::id::IdKey;
use mcpinspect_judge::registry::{canonical, diff};
use mcpinspectd_fuzz::fuzz_target;
use serde_json::value::RawValue;

fn read(message: &Message<'_>) {
    if let Some(id) = message.id() {
        let key = IdKey::new(id);
        assert_eq!(key, IdKey::new(id));
    }
    if let Some(params) = message.params() {
        Params::read(params);
    }
    match message {
        Message::Response(response) => match response.outcome {
            Outcome::Result(result) => {
                if let Some(tools) = ServerResult::read(result).tools {
                    let _ = json::elements(tools.get(), |tool| {
                        Tool::read(tool);
                        diff::diff(tool, result);
                        true
                    });
                }
            }
            Outcome::Error(error) => drop(ErrorObject::read(error)),
        },
        Message::Request(_) | Message::Notification(_) => {}
    }
}

fuzz_target!(|data: &[u8]| {
    match parse(data) {
        Ok(Payload::Single(parsed)) => read(&parsed.message),
        Ok(Payload::Batch(batch)) => batch.for_each(|parsed| {
            if let Ok(parsed) = parsed {
                read(&parsed.message);
            }
        }),
        Err(_) => {}
    }
    if let Ok(raw) = serde_json::from_slice::<&RawValue>(data) {
        json::value(raw, &mut Budget::of(1 << 20));
        json::string(raw);
        let once = canonical::value(raw);
        // The canonical text is JSON, and its own canonical form.
        let text = String::from_utf8(once).expect("canonical text is UTF-8");
        let again = serde_json::from_str::<&RawValue>(&text).expect("canonical text is JSON");
        assert_eq!(canonical::value(again), text.as_bytes());
        canonical::definition(raw);
    }
});
