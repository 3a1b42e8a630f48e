//! HPACK, read by an observer (RFC 7541).
//!
//! A decoder at the end of a connection has seen all of it and may close it at the first mistake. An
//! observer may come late or miss a block, and carries on: what was in the table before is
//! *unknown*, and a field that refers to it is counted as such and never guessed. What came since is
//! known, because indices count from the newest entry. A block that is wrong leaves the table unknown.
//!
//! Existing libraries stop at the first unknown index within a block, which leaves their table in a state
//! that neither end has, and build a table of the Huffman code for every string. This one also keeps
//! only the values of relevant fields: cookies and authorisation pass as lengths.

mod huffman;
mod table;
#[cfg(test)]
mod tests;

use self::table::{FIXED_LENGTH, Field, KnownName, Lookup, Table, fixed};
use crate::http::head::Head;

/// The default size of a table.
const DEFAULT_TABLE: usize = 4096;

/// The largest table to follow, in bytes. Browsers use this much; nothing uses more.
const MAX_TABLE: usize = 64 << 10;

/// The longest value to decode, in bytes. A longer one is cut, which affects no MCP field.
const MAX_VALUE: usize = 16 << 10;

/// A block cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Reads the blocks of one direction.
#[derive(Debug)]
pub(super) struct Decoder {
    table: Table,
    max_fields: usize,
}

/// A string: a part of the block, and whether it is Huffman-coded.
struct Text<'a> {
    bytes: &'a [u8],
    is_coded: bool,
}

impl Decoder {
    /// Reads a direction from its first block on.
    pub(super) fn new(max_fields: usize) -> Self {
        Self {
            table: Table::new(DEFAULT_TABLE),
            max_fields,
        }
    }

    /// Reads a direction whose earlier blocks were missed.
    pub(super) fn unknown(max_fields: usize) -> Self {
        Self {
            table: Table::unknown(MAX_TABLE),
            max_fields,
        }
    }

    /// Bytes of memory that the table takes.
    pub(super) fn memory(&self) -> usize {
        self.table.memory()
    }

    /// Forgets the table because a block was missed.
    pub(super) fn forget(&mut self) {
        self.table = Table::unknown(MAX_TABLE);
    }

    /// Reads a block into `head`. Returns whether it has more fields than are examined.
    pub(super) fn read(&mut self, block: &[u8], head: &mut Head) -> Result<bool, Malformed> {
        let (mut fields, max_fields) = (0, self.max_fields);
        let result = self.fields(block, &mut |name, value| {
            fields += 1;
            match name {
                _ if fields > max_fields => {}
                KnownName::Wanted(name) => head.field(name, value.trim_ascii()),
                KnownName::Unknown => head.has_unknown_fields = true,
                KnownName::Other => {}
            }
        });
        if result.is_none() {
            self.forget();
            return Err(Malformed);
        }
        Ok(fields > max_fields)
    }

    /// Reads a block field by field. `None` if it cannot be read.
    fn fields(&mut self, mut block: &[u8], emit: &mut dyn FnMut(KnownName, &[u8])) -> Option<()> {
        let mut is_start = true;
        let mut value = Vec::new();
        while let Some(&first) = block.first() {
            if first & 0x80 != 0 {
                let index = integer(&mut block, 7)?;
                self.indexed(index, emit)?;
            } else if first & 0xe0 == 0x20 {
                let max = integer(&mut block, 5)?;
                if !is_start || max > MAX_TABLE {
                    return None;
                }
                self.table.resize(max);
                continue;
            } else {
                let is_added = first & 0x40 != 0;
                let index = integer(&mut block, if is_added { 6 } else { 4 })?;
                let (name, name_bytes) = match index {
                    0 => {
                        let bytes = text(&mut block)?.decode(&mut value)?;
                        (KnownName::of(&value), bytes)
                    }
                    index => self.name(index)?,
                };
                let bytes = text(&mut block)?.decode(&mut value)?;
                emit(name, &value);
                if is_added {
                    let kept = match name {
                        KnownName::Wanted(_) => value.as_slice(),
                        KnownName::Other | KnownName::Unknown => &[],
                    };
                    let value = kept.into();
                    self.table.add(Field { name, value }, name_bytes, bytes);
                }
            }
            is_start = false;
        }
        Some(())
    }

    /// A field in one of the tables.
    fn indexed(&self, index: usize, emit: &mut dyn FnMut(KnownName, &[u8])) -> Option<()> {
        if let Some((name, value)) = fixed(index) {
            emit(KnownName::of(name.as_bytes()), value.as_bytes());
            return Some(());
        }
        match self.table.get(index.checked_sub(FIXED_LENGTH + 1)?)? {
            Lookup::Known(entry) => emit(entry.field.name, &entry.field.value),
            Lookup::Unknown => emit(KnownName::Unknown, &[]),
        }
        Some(())
    }

    /// A name in one of the tables, and its length.
    fn name(&self, index: usize) -> Option<(KnownName, usize)> {
        if let Some((name, _)) = fixed(index) {
            return Some((KnownName::of(name.as_bytes()), name.len()));
        }
        match self.table.get(index.checked_sub(FIXED_LENGTH + 1)?)? {
            Lookup::Known(entry) => Some((entry.field.name, entry.name_bytes)),
            // Its length is unknown too: it counts as zero, so that the entry outlives the one at
            // the other ends.
            Lookup::Unknown => Some((KnownName::Unknown, 0)),
        }
    }
}

impl Text<'_> {
    /// Decodes it, only the start of a long one. Returns its whole length.
    fn decode(&self, into: &mut Vec<u8>) -> Option<usize> {
        into.clear();
        if !self.is_coded {
            into.extend_from_slice(self.bytes.get(..MAX_VALUE).unwrap_or(self.bytes));
            return Some(self.bytes.len());
        }
        let mut length = 0;
        huffman::decode(self.bytes, |octet| {
            length += 1;
            if length <= MAX_VALUE {
                into.push(octet);
            }
        })?;
        Some(length)
    }
}

/// Reads an integer whose first octet has a prefix of `bits` bits for it (RFC 7541, 5.1).
fn integer(block: &mut &[u8], bits: u32) -> Option<usize> {
    let mask = (1_usize << bits) - 1;
    let (&first, mut rest) = block.split_first()?;
    let mut value = usize::from(first) & mask;
    if value == mask {
        let mut shift = 0;
        loop {
            let (&octet, after) = rest.split_first()?;
            rest = after;
            // More than 28 bits cannot be a length or an index.
            if shift > 21 {
                return None;
            }
            value += (usize::from(octet) & 0x7f) << shift;
            shift += 7;
            if octet & 0x80 == 0 {
                break;
            }
        }
    }
    *block = rest;
    Some(value)
}

/// Reads a string (RFC 7541, 5.2).
fn text<'a>(block: &mut &'a [u8]) -> Option<Text<'a>> {
    let is_coded = block.first()? & 0x80 != 0;
    let length = integer(block, 7)?;
    let (bytes, rest) = block.split_at_checked(length)?;
    *block = rest;
    Some(Text { bytes, is_coded })
}
