//! JSON-RPC 2.0 messages, read in one pass over the frame and borrowed from it.
//!
//! The envelope is taken apart member by member: `id`, `method` and `jsonrpc` stand wherever their
//! writer put them, and what is in `params`, `result` or `error` stays text until somebody asks.
//! Skipping that text needs no stack, so nesting is limited by the size of the frame alone.
//!
//! Reading is as lenient as the laxest client. What is odd but readable (a repeated member, a missing
//! version) is a message all the same, with an [`Irregularity`] that says where two readers may
//! disagree; only what nobody could act on is [`Malformed`].

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::json;

/// What a frame holds.
#[derive(Clone, Debug)]
pub enum Payload<'a> {
    /// One message.
    Single(Parsed<'a>),
    /// Several in an array (revision 2025-03-26).
    Batch(Batch<'a>),
}

/// One message and what is odd about it.
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
    /// Wants an answer.
    Request(Request<'a>),
    /// Wants none.
    Notification(Notification<'a>),
    /// Is one.
    Response(Response<'a>),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Its id.
    pub id: Id<'a>,
    /// Its method, known to any revision or not.
    pub method: Cow<'a, str>,
    /// Its parameters, as text.
    pub params: Option<&'a RawValue>,
}

/// A notification.
#[derive(Clone, Debug)]
pub struct Notification<'a> {
    /// Its method, known to any revision or not.
    pub method: Cow<'a, str>,
    /// Its parameters, as text.
    pub params: Option<&'a RawValue>,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response<'a> {
    /// The id of the request that it answers; an error may come without one.
    pub id: Option<Id<'a>>,
    /// What it says.
    pub outcome: Outcome<'a>,
}

/// What a response says.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// The result, as text.
    Result(&'a RawValue),
    /// The error, as text.
    Error(&'a RawValue),
}

/// An id as it is written: JSON text of a number or a string, or of whatever a peer put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id<'a>(pub &'a str);

/// What is odd about a message that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Irregularity {
    /// A member of the envelope is repeated. The last one counts here, as for JavaScript and Python;
    /// other readers take the first or refuse, so the parties may not have seen the same message.
    RepeatedMember,
    /// It has a method as well as a result or error. Read as a request or notification.
    MethodAndOutcome,
    /// It has a result as well as an error. Read as an error.
    ResultAndError,
    /// `jsonrpc` is missing or not `"2.0"`.
    ForeignVersion,
    /// `id` is neither a string nor a number, where the message needs one.
    UnusableId,
}

impl Irregularity {
    /// The word used on the outside.
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

/// Why a frame is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes are no UTF-8.
    InvalidUtf8,
    /// The text is no JSON.
    NotJson,
    /// The text is JSON as far as it goes, and then it ends.
    TruncatedJson,
    /// It is JSON, but no object or array.
    NotAnObject,
    /// It is an object with neither a method nor a result nor an error.
    NotAMessage,
    /// It is an array of nothing.
    EmptyBatch,
}

impl Malformed {
    /// The word used on the outside.
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
    /// Hands out the messages in order. They are read as they are asked for: a frame of a million
    /// tiny messages takes no more memory than one.
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
/// Where no peer could act on it: [`Malformed`] says why.
pub fn parse(frame: &[u8]) -> Result<Payload<'_>, Malformed> {
    let text = std::str::from_utf8(frame).map_err(|_| Malformed::InvalidUtf8)?;
    let text = text.trim_start_matches('\u{feff}');
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') => parse_object(text).map(Payload::Single),
        Some(b'[') => parse_batch(text).map(Payload::Batch),
        _ => match serde_json::from_str::<&RawValue>(text) {
            Ok(_) => Err(Malformed::NotAnObject),
            Err(_) => Err(Malformed::NotJson),
        },
    }
}

fn parse_batch(text: &str) -> Result<Batch<'_>, Malformed> {
    // The whole of it first: half a batch is none.
    let mut empty = true;
    json::elements(text, |_| {
        empty = false;
        true
    })
    .map_err(|error| syntax(&error))?;
    if empty {
        Err(Malformed::EmptyBatch)
    } else {
        Ok(Batch(text))
    }
}

fn syntax(error: &serde_json::Error) -> Malformed {
    if error.is_eof() {
        Malformed::TruncatedJson
    } else {
        Malformed::NotJson
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
    .map_err(|error| match syntax(&error) {
        // A batch may hold anything.
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
        // `"result":null` is a result; `"error":null` beside a result is how some peers say "no error".
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
    /// The id that `raw` is, where it is a string or a number.
    pub fn from_raw(raw: &'a RawValue) -> Option<Self> {
        matches!(
            raw.get().as_bytes().first(),
            Some(b'"' | b'-' | b'0'..=b'9')
        )
        .then_some(Self(raw.get()))
    }
}

impl<'a> Message<'a> {
    /// Its method, where it has one.
    pub fn method(&self) -> Option<&str> {
        match self {
            Self::Request(request) => Some(&request.method),
            Self::Notification(notification) => Some(&notification.method),
            Self::Response(_) => None,
        }
    }

    /// Its id, where it has one.
    pub fn id(&self) -> Option<Id<'a>> {
        match self {
            Self::Request(request) => Some(request.id),
            Self::Notification(_) => None,
            Self::Response(response) => response.id,
        }
    }

    /// Its parameters, where it has some.
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
