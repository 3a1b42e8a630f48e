//! The building blocks of the end-to-end tests.
//!
//! A test starts `mcpinspectd tap`, lets real peers talk, and compares what the daemon reported
//! with what the *peers themselves* logged: every peer here writes down the size and SHA-256 of
//! each line it sent and received ([`wirelog`]). Nothing is compared with a second capture, so a
//! blind daemon cannot agree with a blind test.
//!
//! * [`peer`] is one flexible client and server that moves its bytes by whatever system call it is
//!   told to use;
//! * [`wirelog`] is the peers' own account of the wire;
//! * [`talk`] starts peers in a directory of their own and reads that account back;
//! * [`tap`] runs the daemon and collects its JSON lines;
//! * [`busy`] keeps processors busy meanwhile;
//! * [`threads`] reads the priorities of the daemon's threads;
//! * [`verify`] compares the two accounts;
//! * [`listening`] is a program that reports where it listens;
//! * [`daemon`] runs `mcpinspectd run` and reads its events;
//! * [`bus`] is a private system bus;
//! * [`screen`] is a terminal with a program on it;
//! * [`schema`] checks JSON lines against the schemas that the manual publishes;
//! * [`training`] fits the model of what sentences ask;
//! * [`container`] boots a clean Debian with systemd, for tests of the package.

pub mod bus;
pub mod busy;
pub mod container;
pub mod daemon;
pub mod listening;
pub mod peer;
pub mod places;
pub mod schema;
pub mod screen;
pub mod talk;
pub mod tap;
pub mod threads;
pub mod training;
pub mod verify;
pub mod wirelog;
