//! What the agent hands to the program that replaces it: the cards on the screen, and what their buttons need.
//!
//! A card stays on the screen while an upgrade replaces the agent behind it, and its buttons are to work for the
//! new one as well. Notification daemons tell a button only to the connection that showed the card last, so the
//! new agent shows each card again, in its old place. The cards travel in a file in memory, as standard input:
//! command lines can be read by other users.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _};

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::group::SavedGroup;

/// Most bytes to take over: more than all cards together can need.
const MOST: u64 = 16 << 20;

/// A file with `groups`, to be the next program's standard input.
///
/// # Errors
/// There is no memory.
pub fn write(groups: &[SavedGroup]) -> io::Result<File> {
    let mut file = File::from(memfd_create("cards", MFdFlags::MFD_CLOEXEC)?);
    serde_json::to_writer(&file, groups)?;
    file.rewind()?;
    Ok(file)
}

/// Reads what [`write()`] wrote. A version that has changed its mind about the format starts without cards.
pub fn read(input: impl Read) -> Vec<SavedGroup> {
    serde_json::from_reader(BufReader::new(input.take(MOST))).unwrap_or_else(|error| {
        tracing::warn!("cannot restore the notifications on the screen: {error}");
        Vec::new()
    })
}
