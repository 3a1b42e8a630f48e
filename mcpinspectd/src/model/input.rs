//! What a source produces and the pipeline consumes: one thing that happened.

use serde_json::value::RawValue;

use super::{Direction, Party, Pid, ServerIdentity, SessionId, Timestamp};

/// A session that was recognised.
#[derive(Clone, Debug)]
pub struct SessionStart {
    /// Its id.
    pub id: SessionId,
    /// Which server it talks to.
    pub server: ServerIdentity,
    /// The server's process, where known.
    pub server_party: Option<Party>,
    /// The client's process, where known.
    pub client_party: Option<Party>,
    /// Whether it was under way before it was seen, so that its streams may start inside a line.
    pub joined_midstream: bool,
    /// When it was recognised.
    pub time: Timestamp,
}

/// One thing that happened. Inputs of one session come in the order in which they happened.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "inputs are passed on one by one and never kept; the large one comes once a session"
)]
pub enum Input<'a> {
    /// A session was recognised. Its bytes follow.
    SessionStarted(SessionStart),
    /// A session's process is another one now, or became known.
    PartiesChanged {
        /// The session.
        session: &'a SessionId,
        /// The server's process.
        server_pid: Option<Pid>,
        /// The client's process.
        client_pid: Option<Pid>,
    },
    /// It became known what runs behind a session's server.
    Program {
        /// The session.
        session: &'a SessionId,
        /// The program, as a JSON object; see [`crate::process::program`].
        definition: &'a RawValue,
        /// When it was looked at.
        time: Timestamp,
    },
    /// A stream's next bytes.
    Bytes {
        /// The session.
        session: &'a SessionId,
        /// Which of its streams.
        direction: Direction,
        /// Where they stand, in bytes from the start of the stream.
        position: u64,
        /// When they were sent.
        time: Timestamp,
        /// The bytes; contiguous with the ones before, but for a gap.
        bytes: &'a [u8],
    },
    /// Bytes of a stream that were lost.
    Gap {
        /// The session.
        session: &'a SessionId,
        /// Which of its streams.
        direction: Direction,
        /// Where the gap starts, in bytes from the start of the stream.
        position: u64,
        /// How many bytes.
        bytes_lost: u64,
        /// Why, such as `ring_full`.
        reason: &'static str,
        /// When it was noticed.
        time: Timestamp,
    },
    /// What was written to a stream is not what was read from it. The bytes that come are those of
    /// the client's end.
    EndsDisagree {
        /// The session.
        session: &'a SessionId,
        /// Which of its streams.
        direction: Direction,
        /// The first byte that differs.
        position: u64,
        /// How many bytes from there may differ.
        bytes: u64,
        /// What was read; the beginning of it.
        read: &'a [u8],
        /// What was written; the beginning of it.
        written: &'a [u8],
        /// When it was noticed.
        time: Timestamp,
    },
    /// A party moves bytes in a way that cannot be copied.
    BlindSpot {
        /// The session.
        session: &'a SessionId,
        /// How, such as `splice`.
        mechanism: &'static str,
        /// Who.
        pid: Pid,
        /// Whether the bytes are seen at the other end of the stream.
        covered_by_other_end: bool,
        /// When.
        time: Timestamp,
    },
    /// A stream is over.
    EndOfStream {
        /// The session.
        session: &'a SessionId,
        /// Which of its streams.
        direction: Direction,
        /// When.
        time: Timestamp,
    },
    /// A session is over. Nothing of it follows.
    SessionEnded {
        /// The session.
        session: &'a SessionId,
        /// Why, such as `server_exited`.
        reason: &'static str,
        /// When.
        time: Timestamp,
    },
}

/// Takes inputs in the order in which they happened.
pub trait InputSink {
    /// Takes the next input.
    fn input(&mut self, input: Input<'_>);

    /// No more input is available for now: what was held back in the hope of more can go out.
    fn idle(&mut self) {}
}
