//! JSON-RPC 2.0 messages, read in one pass over the frame and borrowed from it.
//!
//! The envelope is read member by member: `id`, `method` and `jsonrpc` may be anywhere in it, and
//! `params`, `result` and `error` stay text until a caller reads them. Skipping that text needs no
//! stack and one bit per open bracket, so only the size of the frame limits nesting.
//!
//! Reading is as lenient as the most lenient client. What is odd but readable (a repeated member, a
//! missing version) is still a message, with an [`Irregularity`] that says where two readers may
//! disagree; only what no peer could act on is [`Malformed`].

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::json::{self, Flaw};

/// What a frame contains.
#[derive(Clone, Debug)]
pub enum Payload<'a> {
    /// One message.
    Single(Parsed<'a>),
    /// Several messages in an array (revision 2025-03-26).
    Batch(Batch<'a>),
}

/// One message, and what is odd about it.
#[derive(Clone, Debug)]
pub struct Parsed<'a> {
    /// The message.
    pub message: Message<'a>,
    /// The first thing that is odd about it.
    pub irregular: Option<Irregularity>,
}

/// A JSON-RPC message.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// Expects an answer.
    Request(Request<'a>),
    /// Expects no answer.
    Notification(Notification<'a>),
    /// Is an answer.
    Response(Response<'a>),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Its id.
    pub id: Id<'a>,
    /// Its method, known to any revision or not; if it has escapes, only the first 64 KiB.
    pub method: Cow<'a, str>,
    /// Its parameters, unparsed.
    pub params: Option<&'a RawValue>,
}

/// A notification.
#[derive(Clone, Debug)]
pub struct Notification<'a> {
    /// Its method, known to any revision or not.
    pub method: Cow<'a, str>,
    /// Its parameters, unparsed.
    pub params: Option<&'a RawValue>,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response<'a> {
    /// The id of the request that it answers; an error may lack one.
    pub id: Option<Id<'a>>,
    /// Its result or error.
    pub outcome: Outcome<'a>,
}

/// The result or error of a response.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// The result, unparsed.
    Result(&'a RawValue),
    /// The error, unparsed.
    Error(&'a RawValue),
}

/// An id as written: the JSON text of a number or a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id<'a>(pub &'a str);

/// What is odd about a readable message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Irregularity {
    /// A member of the envelope is repeated. The last one counts, as in JavaScript and Python; other
    /// readers take the first or refuse, so the parties may not have read the same message.
    RepeatedMember,
    /// It has both a method and a result or error. Read as a request or notification.
    MethodAndOutcome,
    /// It has both a result and an error. Read as an error.
    ResultAndError,
    /// `jsonrpc` is missing or not `"2.0"`.
    ForeignVersion,
    /// The message needs an `id`, and it is neither a string nor a number.
    UnusableId,
}

impl Irregularity {
    /// The word used in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RepeatedMember => "repeated_member",
            Self::MethodAndOutcome => "method_and_outcome",
            Self::ResultAndError => "result_and_error",
            Self::ForeignVersion => "foreign_version",
            Self::UnusableId => "unusable_id",
        }
    }
}

/// Why a frame is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes are not UTF-8.
    InvalidUtf8,
    /// The text is not JSON.
    NotJson,
    /// The text is the start of JSON.
    TruncatedJson,
    /// It is JSON, but neither an object nor an array.
    NotAnObject,
    /// It is an object without a method, result or error.
    NotAMessage,
    /// It is an empty array.
    EmptyBatch,
}

impl Malformed {
    /// The word used in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidUtf8 => "invalid_utf8",
            Self::NotJson => "not_json",
            Self::TruncatedJson => "truncated_json",
            Self::NotAnObject => "not_an_object",
            Self::NotAMessage => "not_a_message",
            Self::EmptyBatch => "empty_batch",
        }
    }
}

/// Several messages in one frame.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a>(&'a str);

impl<'a> Batch<'a> {
    /// Visits the messages in order. Each is read when it is visited: a frame of a million tiny messages
    /// takes no more memory than one.
    pub fn for_each(&self, mut visit: impl FnMut(Result<Parsed<'a>, Malformed>)) {
        let read = json::elements(self.0, |element| {
            visit(parse_object(element.get()));
            true
        });
        debug_assert!(read.is_ok(), "the text was read as an array before");
    }
}

/// Reads a frame.
///
/// # Errors
/// If no peer could act on it; [`Malformed`] says why.
pub fn parse(frame: &[u8]) -> Result<Payload<'_>, Malformed> {
    let text = std::str::from_utf8(frame).map_err(|_| Malformed::InvalidUtf8)?;
    let text = text.trim_start_matches('\u{feff}');
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') => parse_object(text).map(Payload::Single),
        Some(b'[') => parse_batch(text).map(Payload::Batch),
        _ => match json::check(text) {
            Ok(()) => Err(Malformed::NotAnObject),
            Err(_) => Err(Malformed::NotJson),
        },
    }
}

fn parse_batch(text: &str) -> Result<Batch<'_>, Malformed> {
    // Check all of it first: half a batch is not a batch.
    let mut empty = true;
    json::elements(text, |_| {
        empty = false;
        true
    })
    .map_err(malformed)?;
    if empty {
        Err(Malformed::EmptyBatch)
    } else {
        Ok(Batch(text))
    }
}

fn malformed(flaw: Flaw) -> Malformed {
    match flaw {
        Flaw::Truncated => Malformed::TruncatedJson,
        Flaw::Invalid => Malformed::NotJson,
    }
}

/// A member of the envelope.
#[derive(Clone, Copy)]
enum Member {
    JsonRpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

impl Member {
    fn from_key(key: &[u8]) -> Self {
        match key {
            b"jsonrpc" => Self::JsonRpc,
            b"id" => Self::Id,
            b"method" => Self::Method,
            b"params" => Self::Params,
            b"result" => Self::Result,
            b"error" => Self::Error,
            _ => Self::Other,
        }
    }
}

#[derive(Default)]
struct Envelope<'a> {
    json_rpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    repeated: bool,
}

fn parse_object(text: &str) -> Result<Parsed<'_>, Malformed> {
    let mut envelope = Envelope::default();
    json::members(text, Member::from_key, |member, value| {
        let slot = match member {
            Member::JsonRpc => &mut envelope.json_rpc,
            Member::Id => &mut envelope.id,
            Member::Method => &mut envelope.method,
            Member::Params => &mut envelope.params,
            Member::Result => &mut envelope.result,
            Member::Error => &mut envelope.error,
            Member::Other => return,
        };
        envelope.repeated |= slot.replace(value).is_some();
    })
    .map_err(|flaw| match malformed(flaw) {
        // A batch may contain anything.
        Malformed::NotJson if !text.trim_ascii_start().starts_with('{') => Malformed::NotAnObject,
        malformed => malformed,
    })?;
    envelope.into_message()
}

impl<'a> Envelope<'a> {
    fn into_message(self) -> Result<Parsed<'a>, Malformed> {
        let mut irregular = self.repeated.then_some(Irregularity::RepeatedMember);
        let mut note = |condition: bool, what: Irregularity| {
            if condition && irregular.is_none() {
                irregular = Some(what);
            }
        };
        // `"result":null` is a result; some peers write `"error":null` beside a result for "no error".
        let error = self
            .error
            .filter(|error| self.result.is_none() || error.get() != "null");
        let id = self.id.and_then(Id::from_raw);
        let method = self.method.and_then(json::string);
        note(
            method.is_some() && (self.result.is_some() || error.is_some()),
            Irregularity::MethodAndOutcome,
        );
        note(
            method.is_none() && self.result.is_some() && error.is_some(),
            Irregularity::ResultAndError,
        );
        let message = if let Some(method) = method {
            let params = self.params.and_then(json::present);
            match id {
                Some(id) => Message::Request(Request { id, method, params }),
                None => {
                    note(self.id.is_some(), Irregularity::UnusableId);
                    Message::Notification(Notification { method, params })
                }
            }
        } else {
            let outcome = match (error, self.result) {
                (Some(error), _) => Outcome::Error(error),
                (None, Some(result)) => Outcome::Result(result),
                (None, None) => return Err(Malformed::NotAMessage),
            };
            let needs_id = matches!(outcome, Outcome::Result(_));
            let odd_id = self.id.is_some_and(|raw| raw.get() != "null");
            note(
                id.is_none() && (needs_id || odd_id),
                Irregularity::UnusableId,
            );
            Message::Response(Response { id, outcome })
        };
        let version = self.json_rpc.and_then(json::string);
        note(
            version.as_deref() != Some("2.0"),
            Irregularity::ForeignVersion,
        );
        Ok(Parsed { message, irregular })
    }
}

impl<'a> Id<'a> {
    /// The id in `raw`, if it is a string or a number.
    pub fn from_raw(raw: &'a RawValue) -> Option<Self> {
        matches!(
            raw.get().as_bytes().first(),
            Some(b'"' | b'-' | b'0'..=b'9')
        )
        .then_some(Self(raw.get()))
    }
}

impl<'a> Message<'a> {
    /// Its method, if it has one.
    pub fn method(&self) -> Option<&str> {
        match self {
            Self::Request(request) => Some(&request.method),
            Self::Notification(notification) => Some(&notification.method),
            Self::Response(_) => None,
        }
    }

    /// Its id, if it has one.
    pub fn id(&self) -> Option<Id<'a>> {
        match self {
            Self::Request(request) => Some(request.id),
            Self::Notification(_) => None,
            Self::Response(response) => response.id,
        }
    }

    /// Its parameters, if it has any.
    pub fn params(&self) -> Option<&'a RawValue> {
        match self {
            Self::Request(request) => request.params,
            Self::Notification(notification) => notification.params,
            Self::Response(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
