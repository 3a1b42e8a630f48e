//! Words that say why and how: closed lists, each word the same in JSON, in the journal and on D-Bus.
//!
//! A reader filters by these words, so none may be misspelt in one place or arrive unannounced. Each
//! list is an enum here, and the manual names every word of it.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$about])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word that programs read.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )+};
}

words! {
    /// Which part of a server has changed.
    ServerPart {
        /// What it tells the model about itself.
        Instructions = "instructions",
        /// The name and version that it reports for itself.
        ServerInfo = "server_info",
        /// What runs.
        Program = "program",
        /// How it is launched, and therefore whose pins apply to it.
        Identity = "identity",
    }

    /// Why bytes of a stream are missing from the record.
    GapReason {
        /// The ring was full: user space fell behind.
        RingFull = "ring_full",
        /// The memory that held them was not resident, so the probes could not read it.
        PageNotResident = "page_not_resident",
        /// Their reader took them from the stream without a copy that the probes could see.
        NotCopied = "not_copied",
        /// They belong to a message above the maximum size.
        FrameTooLarge = "frame_too_large",
        /// They were written, and the session ended before anyone read them.
        NeverRead = "never_read",
        /// Monitoring was paused by a person.
        MonitoringPaused = "monitoring_paused",
        /// The stream continued at a later position, for an unknown reason.
        PositionJump = "position_jump",
        /// There was no room for the session of their user.
        SessionBudget = "session_budget",
        /// The stream's reader wrote them to itself, before its client wrote anything.
        WrittenByReader = "written_by_reader",
        /// They came before a stream that had looked like something else turned out to be MCP.
        JudgedNotMcp = "judged_not_mcp",
        /// They belong to a program that the configuration excludes.
        Excluded = "excluded",
    }

    /// Why a session has ended.
    EndReason {
        /// The server's process exited.
        ServerExited = "server_exited",
        /// The client's process exited.
        ClientExited = "client_exited",
        /// The server closed its output.
        ServerClosed = "server_closed",
        /// The client closed the server's input.
        ClientClosed = "client_closed",
        /// No process holds one of its streams any more.
        StreamsClosed = "streams_closed",
        /// The daemon stopped; the session continues unseen.
        MonitoringStopped = "monitoring_stopped",
        /// It made room for another user's; it continues unseen.
        SessionBudget = "session_budget",
        /// Its client asked the server to end it.
        Deleted = "deleted",
        /// No connection has carried it for a while.
        Idle = "idle",
    }

    /// How bytes bypass the probes.
    BlindMechanism {
        /// `splice`: inside the kernel, from or to a pipe.
        Splice = "splice",
        /// `tee`: from pipe to pipe, without taking them out.
        Tee = "tee",
        /// `vmsplice`: by mapping pages into a pipe.
        VmSplice = "vmsplice",
        /// `sendfile`: inside the kernel, from a file.
        SendFile = "sendfile",
        /// `io_uring`: through a queue that the kernel processes.
        IoUring = "io_uring",
        /// `io_submit`: through the kernel's older queue of operations.
        Aio = "io_submit",
        /// `pidfd_getfd`: through a descriptor taken from another process.
        TakeDescriptor = "pidfd_getfd",
        /// The 32-bit system call table, which the probes do not decode.
        Compat = "32bit_syscall",
        /// A seccomp filter lets another process answer its calls, which then do not happen.
        Supervised = "seccomp_notify",
        /// `MSG_OOB`: one byte goes beside the others, and its reader decides whether it belongs to them.
        Urgent = "msg_oob",
        /// Unknown: they left the stream, and no call was seen that took them.
        UnseenReader = "unseen_reader",
        /// The stream's reader wrote to it: its client did not say that.
        WrittenByReader = "written_by_reader",
        /// The stream was at first mistaken for something else.
        JudgedNotMcp = "judged_not_mcp",
        /// The stream was ignored because of its program, and then got another one.
        Excluded = "excluded",
        /// A user holds more streams than there is room for; some are dropped.
        EndpointBudget = "endpoint_budget",
        /// A user has more sessions than there is room for; some are not followed.
        SessionBudget = "session_budget",
        /// A user has more HTTP connections than there is room for; some are not examined.
        ConnectionBudget = "connection_budget",
        /// There was no room to report what a process, stream or connection did.
        RecordLost = "record_lost",
        /// Plain text of an unknown TLS connection.
        TlsUnpaired = "tls_unpaired",
        /// A TLS library that is not supported.
        TlsLibrary = "tls_library",
        /// A connection switched from HTTP to something else.
        HttpUpgraded = "http_upgraded",
        /// Two readers of a connection may find different messages in it from here on.
        HttpAmbiguous = "http_ambiguous",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MANUAL: &str = include_str!("../../../docs/events.md");

    fn check<T>(all: &[T], words: &[&str])
    where
        T: Copy + fmt::Debug + fmt::Display + PartialEq + Serialize + for<'a> Deserialize<'a>,
    {
        let shown: Vec<String> = all.iter().map(T::to_string).collect();
        assert_eq!(shown, words, "programs read these");
        for (value, word) in all.iter().zip(words) {
            assert_eq!(serde_json::to_value(value).ok(), Some(json!(word)));
            assert_eq!(serde_json::from_value(json!(word)).ok(), Some(*value));
            assert!(
                MANUAL.contains(&format!("`{word}`")),
                "{word} is not in the manual"
            );
        }
        assert!(serde_json::from_value::<T>(json!("other")).is_err());
    }

    #[test]
    fn every_word_is_what_programs_read_and_in_the_manual() {
        check(
            GapReason::ALL,
            &[
                "ring_full",
                "page_not_resident",
                "not_copied",
                "frame_too_large",
                "never_read",
                "monitoring_paused",
                "position_jump",
                "session_budget",
                "written_by_reader",
                "judged_not_mcp",
                "excluded",
            ],
        );
        check(
            EndReason::ALL,
            &[
                "server_exited",
                "client_exited",
                "server_closed",
                "client_closed",
                "streams_closed",
                "monitoring_stopped",
                "session_budget",
                "deleted",
                "idle",
            ],
        );
        check(
            BlindMechanism::ALL,
            &[
                "splice",
                "tee",
                "vmsplice",
                "sendfile",
                "io_uring",
                "io_submit",
                "pidfd_getfd",
                "32bit_syscall",
                "seccomp_notify",
                "msg_oob",
                "unseen_reader",
                "written_by_reader",
                "judged_not_mcp",
                "excluded",
                "endpoint_budget",
                "session_budget",
                "connection_budget",
                "record_lost",
                "tls_unpaired",
                "tls_library",
                "http_upgraded",
                "http_ambiguous",
            ],
        );
    }
}
