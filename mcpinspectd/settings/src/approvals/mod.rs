//! Signed lists of approved definitions: what one person has read counts on every machine.
//!
//! A fleet's tools change on all machines at once, and no one reads the same change a thousand times.
//! So an approval is written into a list once, the list is signed, and each machine takes it in
//! however files get there. The transport need not be trusted: the signature is checked, and a list
//! that was replaced by an older one of the same name is refused.
//!
//! - [`list`]: the list and its text
//! - [`keys`]: whose signatures count
//! - [`folder`]: the lists of this machine, reread when they change
//! - `accepted`: the lists that were taken in, so that no older one follows
//!
//! What a list means for a definition is up to the registry: see [`mcpinspect_judge::registry::Listed`].

mod accepted;
pub mod folder;
pub mod keys;
pub mod list;
#[cfg(test)]
mod tests;
