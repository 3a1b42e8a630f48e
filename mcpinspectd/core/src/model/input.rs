//! What a source produces and the pipeline consumes: one thing that happened.
//!
//! An input borrows what it can, so that a source passes bytes on without copying them, and owns
//! what it must: `Input<'static>`, from [`Input::into_owned`] or from a tape, can be kept. As JSON it
//! is an object with one key, the kind of input; reading it back returns an equal input.
//!
//! # Sources other than processes' pipes
//!
//! A session needs a [`SessionId`] that no other session has, a [`ServerIdentity`] that is the same
//! after a restart and on another host, and a [`ServerEndpoint`]. None of these is a process:
//!
//! - The identity of a server at a URL is derived from the URL (`name_source` is `url`, or
//!   `config:CLIENT` if a client's configuration names it), as that of a local server is derived from
//!   its command.
//! - A party that is not a process on this machine, such as a remote server, is `None`.
//! - A transport that frames messages itself produces [`Input::Message`] instead of
//!   [`Input::Bytes`]. Several connections may carry one session: the source puts their messages
//!   into one order per direction.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::time::exact;
use super::{
    BlindMechanism, Direction, EndReason, GapReason, JsonText, Party, Pid, ServerEndpoint,
    ServerIdentity, ServerSide, SessionId, Timestamp, bytes,
};

/// A recognised session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionStart {
    /// Its id.
    pub id: SessionId,
    /// Which server it talks to.
    pub server: ServerIdentity,
    /// Where to reach that server.
    pub endpoint: ServerEndpoint,
    /// The server's process, if known.
    pub server_party: Option<Party>,
    /// The client's process, if known.
    pub client_party: Option<Party>,
    /// Whether it was already open when first seen, so that its streams may start inside a line.
    pub joined_midstream: bool,
    /// When it was recognised.
    #[serde(with = "exact")]
    pub time: Timestamp,
}

/// One thing that happened. Inputs of one session come in the order in which they happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "inputs are passed on one by one and rarely kept; the large one comes once a session"
)]
pub enum Input<'a> {
    /// A session was recognised. Its bytes follow.
    SessionStarted(SessionStart),
    /// A session's process has changed, or became known.
    PartiesChanged {
        /// The session.
        session: Cow<'a, SessionId>,
        /// The server's process.
        server_pid: Option<Pid>,
        /// The client's process.
        client_pid: Option<Pid>,
        /// What was started as its server.
        #[serde(default, skip_serializing_if = "ServerSide::is_unknown")]
        server_side: ServerSide,
    },
    /// It became known which program runs behind a session's server.
    Program {
        /// The session.
        session: Cow<'a, SessionId>,
        /// The program, as a JSON object; see `process::program`.
        definition: JsonText<'a>,
        /// When it was examined.
        #[serde(with = "exact")]
        time: Timestamp,
    },
    /// A stream's next bytes.
    Bytes {
        /// The session.
        session: Cow<'a, SessionId>,
        /// Which of its streams.
        direction: Direction,
        /// Their position: bytes from the start of the stream.
        position: u64,
        /// When they were sent.
        #[serde(with = "exact")]
        time: Timestamp,
        /// The bytes. They follow the ones before, except after a gap.
        #[serde(with = "bytes")]
        bytes: Cow<'a, [u8]>,
    },
    /// A whole message, of a transport that frames messages itself.
    Message {
        /// The session.
        session: Cow<'a, SessionId>,
        /// Which way it went.
        direction: Direction,
        /// Its position: bytes of all messages before it in this direction, including lost ones. So
        /// positions order messages, and a jump shows a gap.
        position: u64,
        /// When its last byte was sent.
        #[serde(with = "exact")]
        time: Timestamp,
        /// Its bytes, without any framing.
        #[serde(with = "bytes")]
        bytes: Cow<'a, [u8]>,
    },
    /// Bytes of a stream that were lost.
    Gap {
        /// The session.
        session: Cow<'a, SessionId>,
        /// Which of its streams.
        direction: Direction,
        /// Where the gap starts: bytes from the start of the stream.
        position: u64,
        /// How many bytes.
        bytes_lost: u64,
        /// Why.
        reason: GapReason,
        /// When it was noticed.
        #[serde(with = "exact")]
        time: Timestamp,
    },
    /// What was written to a stream is not what was read from it. The bytes that follow are those of
    /// the client's end.
    EndsDisagree {
        /// The session.
        session: Cow<'a, SessionId>,
        /// Which of its streams.
        direction: Direction,
        /// The first byte that differs.
        position: u64,
        /// How many bytes from there on may differ.
        bytes: u64,
        /// The beginning of what was read.
        #[serde(with = "bytes")]
        read: Cow<'a, [u8]>,
        /// The beginning of what was written.
        #[serde(with = "bytes")]
        written: Cow<'a, [u8]>,
        /// When it was noticed.
        #[serde(with = "exact")]
        time: Timestamp,
    },
    /// Bytes that cannot be seen: a party moves them in a way that cannot be copied, and the other end of
    /// the stream does not have them either; or there is no room to follow them.
    BlindSpot {
        /// The session; [`SessionId::none`] if unknown.
        session: Cow<'a, SessionId>,
        /// How.
        mechanism: BlindMechanism,
        /// Which process.
        pid: Pid,
        /// Whose process, if a user has used up their share.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uid: Option<u32>,
        /// What was found instead of something supported.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        found: Option<Cow<'a, str>>,
        /// When.
        #[serde(with = "exact")]
        time: Timestamp,
    },
    /// A stream has ended.
    EndOfStream {
        /// The session.
        session: Cow<'a, SessionId>,
        /// Which of its streams.
        direction: Direction,
        /// When.
        #[serde(with = "exact")]
        time: Timestamp,
    },
    /// A session has ended. No input of it follows.
    SessionEnded {
        /// The session.
        session: Cow<'a, SessionId>,
        /// Why.
        reason: EndReason,
        /// When.
        #[serde(with = "exact")]
        time: Timestamp,
    },
}

impl Input<'_> {
    /// The session that it concerns.
    pub fn session(&self) -> &SessionId {
        match self {
            Self::SessionStarted(start) => &start.id,
            Self::PartiesChanged { session, .. }
            | Self::Program { session, .. }
            | Self::Bytes { session, .. }
            | Self::Message { session, .. }
            | Self::Gap { session, .. }
            | Self::EndsDisagree { session, .. }
            | Self::BlindSpot { session, .. }
            | Self::EndOfStream { session, .. }
            | Self::SessionEnded { session, .. } => session,
        }
    }

    /// When it happened; `None` if the input does not say.
    pub fn time(&self) -> Option<Timestamp> {
        match self {
            Self::SessionStarted(start) => Some(start.time),
            Self::PartiesChanged { .. } => None,
            Self::Program { time, .. }
            | Self::Bytes { time, .. }
            | Self::Message { time, .. }
            | Self::Gap { time, .. }
            | Self::EndsDisagree { time, .. }
            | Self::BlindSpot { time, .. }
            | Self::EndOfStream { time, .. }
            | Self::SessionEnded { time, .. } => Some(*time),
        }
    }

    /// The same input, borrowing nothing.
    pub fn into_owned(self) -> Input<'static> {
        fn owned<T: ToOwned + ?Sized + 'static>(value: Cow<'_, T>) -> Cow<'static, T> {
            Cow::Owned(value.into_owned())
        }
        match self {
            Self::SessionStarted(start) => Input::SessionStarted(start),
            Self::PartiesChanged {
                session,
                server_pid,
                client_pid,
                server_side,
            } => Input::PartiesChanged {
                session: owned(session),
                server_pid,
                client_pid,
                server_side,
            },
            Self::Program {
                session,
                definition,
                time,
            } => Input::Program {
                session: owned(session),
                definition: definition.into_owned(),
                time,
            },
            Self::Bytes {
                session,
                direction,
                position,
                time,
                bytes,
            } => Input::Bytes {
                session: owned(session),
                direction,
                position,
                time,
                bytes: owned(bytes),
            },
            Self::Message {
                session,
                direction,
                position,
                time,
                bytes,
            } => Input::Message {
                session: owned(session),
                direction,
                position,
                time,
                bytes: owned(bytes),
            },
            Self::Gap {
                session,
                direction,
                position,
                bytes_lost,
                reason,
                time,
            } => Input::Gap {
                session: owned(session),
                direction,
                position,
                bytes_lost,
                reason,
                time,
            },
            Self::EndsDisagree {
                session,
                direction,
                position,
                bytes,
                read,
                written,
                time,
            } => Input::EndsDisagree {
                session: owned(session),
                direction,
                position,
                bytes,
                read: owned(read),
                written: owned(written),
                time,
            },
            Self::BlindSpot {
                session,
                mechanism,
                pid,
                uid,
                found,
                time,
            } => Input::BlindSpot {
                session: owned(session),
                mechanism,
                pid,
                uid,
                found: found.map(owned),
                time,
            },
            Self::EndOfStream {
                session,
                direction,
                time,
            } => Input::EndOfStream {
                session: owned(session),
                direction,
                time,
            },
            Self::SessionEnded {
                session,
                reason,
                time,
            } => Input::SessionEnded {
                session: owned(session),
                reason,
                time,
            },
        }
    }
}

/// Takes inputs in the order in which they happened.
pub trait InputSink {
    /// Takes the next input.
    fn input(&mut self, input: Input<'_>);

    /// No more input is available `now`: anything held back in the hope of more can go out.
    fn idle(&mut self, _now: Timestamp) {}
}
