//! Tools that stand in for another server's.
//!
//! A model sees the tools of all its servers in one list, and distinguishes them by name and description
//! alone. So a server can speak for another one: it takes the name of the other's tool, a name that looks
//! like it, or its description, or it simply gives orders about that tool. A definition alone shows none
//! of this; it has to be compared with the definitions of the other servers.
//!
//! Honest servers collide too. Many offer `search` or `read_file`, and some run twice under two names.
//! So an equal name is evidence only if more than the name is alike, or if the name is distinctive. Servers of
//! one maker, and a server that resembles another one as a whole, are not impostors. Whichever server had a
//! name first owns it.
//!
//! - `server_profile`: a server as a whole: what it offers, who made it
//! - [`ToolProfile`]: the parts of a tool that are compared, with `word_pairs` for its description
//! - [`ToolIndex`]: the tools of all servers
//! - [`similarities`]: how a tool resembles others

mod index;
mod profile;
mod server_profile;
mod similarity;
mod word_pairs;

pub(in crate::detect) use index::{MakerCache, Owner};
pub use index::{SERVERS, TOOLS, ToolIndex};
pub use profile::ToolProfile;
pub use server_profile::Offer;
pub use similarity::{Similarity, similarities};

#[cfg(test)]
mod tests;
