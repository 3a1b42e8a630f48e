//! The parts of Go's table of functions ("pclntab") that say which bytes a function has.
//!
//! It begins with a head, which says where the rest is: the names, one after another, each ending in a
//! zero, and a list of all functions by address. An entry of the list has the address, counted from
//! where Go's code begins, and the offset of a record, whose second word says where the name is. The format is
//! that of Go 1.20, which starts with a different number than earlier ones.

use memchr::memmem::Finder;

use super::file_part::{FilePart, ReadAt};

const MAGIC: u32 = 0xffff_fff1;
/// Most functions of one program.
const FUNCTIONS_MAX: u64 = 1 << 21;
/// Bytes of an entry in the list.
const ENTRY: u64 = 8;
/// Bytes to search at a time for names.
const PIECE: usize = 32 << 10;
/// What the names of the methods begin with.
const RECEIVER: &str = "crypto/tls.(*Conn).";
/// Longer than any name searched for, with the zeroes around it.
const NAME_MAX: usize = 64;

/// Where a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Its first byte, counted from where Go's code begins.
    pub(super) entry: u64,
    /// Bytes up to the next function.
    pub(super) length: u64,
}

/// The table's head.
pub(super) struct FunctionTable {
    count: u64,
    start: u64,
    names: u64,
    names_end: u64,
    list: u64,
}

impl FunctionTable {
    /// Reads the head; `None` if it is of another kind.
    pub(super) fn read(table: &mut FilePart<'_, impl ReadAt + ?Sized>) -> Option<Self> {
        let kind = table.u64(0)?;
        let [_, _, _, _, first, second, step, word] = kind.to_le_bytes();
        let is_known =
            kind as u32 == MAGIC && (first, second, word) == (0, 0, 8) && matches!(step, 1 | 4);
        let head = Self {
            count: table.u64(8)?,
            start: table.u64(24)?,
            names: table.u64(32)?,
            names_end: table.u64(40)?,
            list: table.u64(64)?,
        };
        let is_sound = head.count <= FUNCTIONS_MAX
            && head.names < head.names_end
            && head.names_end <= table.length()
            && head.list < table.length();
        (is_known && is_sound).then_some(head)
    }

    /// The address at which Go's code begins, if the table says so.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Where the methods of these names are, if they exist. `None`: the table is damaged.
    pub(super) fn find<R: ReadAt + ?Sized>(
        &self,
        table: &mut FilePart<'_, R>,
        methods: &[&str],
    ) -> Option<Vec<Option<Extent>>> {
        let names = self.names(table, methods)?;
        let mut found = vec![None; methods.len()];
        let mut missing = names.iter().flatten().count();
        let mut records = table.again();
        for number in 0..self.count {
            if missing == 0 {
                break;
            }
            let at = self.list.checked_add(number * ENTRY)?;
            let (entry, record) = (table.u32(at)?, table.u32(at + 4)?);
            let record = self.list.checked_add(record.into())?;
            let name = records.u32(record.checked_add(4)?)?;
            let Some(method) = names.iter().position(|known| *known == Some(name)) else {
                continue;
            };
            // The last one is followed by the end of the code.
            let next = table.u32(at + ENTRY)?;
            let is_first = found[method].is_none();
            if records.u32(record)? != entry || next <= entry || !is_first {
                return None;
            }
            found[method] = Some(Extent {
                entry: entry.into(),
                length: u64::from(next - entry),
            });
            missing -= 1;
        }
        Some(found)
    }

    /// Where the names of these methods are.
    fn names(
        &self,
        table: &mut FilePart<'_, impl ReadAt + ?Sized>,
        methods: &[&str],
    ) -> Option<Vec<Option<u32>>> {
        let receiver = Finder::new(RECEIVER);
        let mut found = vec![None; methods.len()];
        let mut at = self.names;
        while at < self.names_end {
            let rest = usize::try_from(self.names_end - at).unwrap_or(usize::MAX);
            let piece = table.bytes(at, rest.min(PIECE + NAME_MAX))?;
            for place in receiver.find_iter(piece) {
                let name = &piece[place + RECEIVER.len()..];
                let is_whole = at == self.names && place == 0
                    || place
                        .checked_sub(1)
                        .is_some_and(|before| piece[before] == 0);
                let end = memchr::memchr(0, name);
                let (true, Some(end)) = (is_whole, end) else {
                    continue;
                };
                let known = methods
                    .iter()
                    .position(|method| method.as_bytes() == &name[..end]);
                if let Some(method) = known {
                    let offset = at - self.names + place as u64;
                    found[method] = Some(u32::try_from(offset).ok()?);
                }
            }
            // A name cut off at the piece's end is found in the next one, with the zero before it.
            at = at.checked_add(PIECE as u64)?;
        }
        Some(found)
    }
}
