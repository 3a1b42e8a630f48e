//! Replay: a tape by itself, against a server, or in a server's place.
//!
//! A recorded session is a test that no one had to write. Played to a server, the client's side of a tape
//! asks again what was asked, and the answers are compared with those on the tape. Played to a
//! client, the server's side answers as the server did, or fails on purpose.
//!
//! Nothing here knows processes: the other side is a [`Peer`](crate::peer::Peer), which may be a test.
//!
//! - [`recording`]: a tape in memory, with requests and answers related
//! - [`envelope`]: messages under new ids, with values substituted
//! - [`compare`]: where two answers differ
//! - [`drive`]: the client's side, played to a server
//! - [`serve`]: the server's side, played to a client
//! - [`fault`]: answers that fail or come late on purpose
//! - [`player`]: a tape by itself
//! - [`report`]: the results
//! - [`speed`]: how fast

pub mod compare;
pub mod drive;
pub mod envelope;
pub mod fault;
pub mod player;
pub mod recording;
pub mod report;
pub mod serve;
pub mod speed;

/// Memory that the tree of one message may take; one that takes more is passed on as text.
const TREE: usize = 256 << 20;
