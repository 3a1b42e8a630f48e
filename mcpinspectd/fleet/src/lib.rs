//! Many machines: what a collection of their journals says about the MCP servers on them.
//!
//! Every daemon writes to its own machine's journal, and administrators already ship journals, with
//! systemd's own tools. So a fleet needs no server of its own: this module reads the collected journals and
//! answers what no single machine can know, above all *which hosts see a different definition of the
//! same tool of the same server*. A server that shows a poisoned definition to one host in fifty
//! looks unchanged on each of them.
//!
//! The data path, in memory that does not grow with the fleet:
//!
//! - [`collect`]: threads that read inputs, [cut](framing) them into chunks of entries, and gather;
//!   [`journal`] reads journald's own files through `journalctl`;
//! - [`fields`] and [`entry`]: one entry, in which only the fields that journald itself adds can be trusted;
//! - [`gather`]: rows of what one thread has read, in memory until there are too many;
//! - [`table`]: all rows, in SQLite;
//! - [`row`] and [`value`]: what a row is, and how two become one;
//! - [`state`]: the table that is kept from run to run, and how far each input was read;
//! - [`report`]: the answers, from rows in order; [`digest`]: as much of them as people read;
//!   [`page`]: that as one HTML page;
//! - [`engine`]: rows that ClickHouse keeps and combines.
//!
//! A collection cannot check what a machine's root writes into its journal. Entries by other users of a machine are
//! left out, and so are those in the name of another machine if [certificates](origin) say who sent them.

mod bytes;
pub mod collect;
pub mod digest;
pub mod engine;
pub mod entry;
pub mod fields;
pub mod framing;
pub mod gather;
pub mod journal;
pub mod origin;
pub mod page;
pub mod report;
pub mod row;
pub mod state;
pub mod table;
#[cfg(test)]
mod tests;
pub mod value;
