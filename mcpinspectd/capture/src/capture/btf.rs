//! Finds the offsets of structure fields in BTF, a kernel's type information.
//!
//! This reader exists because no crate fits: aya does not export its own, and the others are either
//! unmaintained or licensed in a way that does not suit a statically linked program. The kernel's
//! `Documentation/bpf/btf.rst` describes the format.

use std::collections::HashMap;

use thiserror::Error;

/// Why BTF could not be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BtfError {
    /// The data is not BTF, or is truncated.
    #[error("malformed BTF: {0}")]
    Malformed(&'static str),
    /// The kernel has no such structure or field.
    #[error("this kernel's BTF has no `{0}`")]
    Missing(String),
}

const MAGIC: u16 = 0xeb9f;
const INT: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const RESTRICT: u32 = 11;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const TYPE_TAG: u32 = 18;
const ENUM64: u32 = 19;
/// No kernel nests anonymous members, or chains typedefs, this deeply.
const DEPTH_MAX: u32 = 32;

/// The types of one kernel.
pub struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Offset in `types` by type id; entry 0 is `void`.
    starts: Vec<usize>,
    structs: HashMap<&'a [u8], u32>,
}

/// A field's position and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the structure's start.
    pub offset: u32,
    /// Its size in bytes; 8 for a pointer.
    pub size: u32,
}

impl<'a> Btf<'a> {
    /// Indexes `data`, the content of `/sys/kernel/btf/vmlinux` or of a file like it.
    pub fn parse(data: &'a [u8]) -> Result<Self, BtfError> {
        let word = |at: usize| read_u32(data, at).ok_or(BtfError::Malformed("header cut short"));
        let magic = data.get(..2).ok_or(BtfError::Malformed("empty"))?;
        if magic != MAGIC.to_ne_bytes() {
            return Err(BtfError::Malformed("wrong magic number"));
        }
        let header = word(4)? as usize;
        let section = |offset: usize, length: usize| {
            let start = header.checked_add(offset)?;
            data.get(start..start.checked_add(length)?)
        };
        let types = section(word(8)? as usize, word(12)? as usize)
            .ok_or(BtfError::Malformed("type section out of bounds"))?;
        let strings = section(word(16)? as usize, word(20)? as usize)
            .ok_or(BtfError::Malformed("string section out of bounds"))?;
        let mut btf = Self {
            types,
            strings,
            starts: vec![usize::MAX],
            structs: HashMap::new(),
        };
        btf.index()?;
        Ok(btf)
    }

    fn index(&mut self) -> Result<(), BtfError> {
        let mut at = 0;
        while at < self.types.len() {
            let id = self.starts.len() as u32;
            self.starts.push(at);
            let (kind, length, _) = self.head(at)?;
            if kind == STRUCT || kind == UNION {
                let name = self.string(self.word(at)?);
                if !name.is_empty() {
                    self.structs.entry(name).or_insert(id);
                }
            }
            let extra = match kind {
                INT | VAR | DECL_TAG => 4,
                ARRAY => 12,
                STRUCT | UNION | DATASEC | ENUM64 => length * 12,
                ENUM | FUNC_PROTO => length * 8,
                // Pointers, forwards, typedefs, qualifiers, functions, floats and type tags: none.
                2 | 7..=12 | 16 | TYPE_TAG => 0,
                _ => return Err(BtfError::Malformed("unknown kind of type")),
            };
            at += 12 + extra;
        }
        Ok(())
    }

    /// The field that `path` names: a structure and its members, as in `task_struct.files`.
    /// Members of anonymous structures and unions are found by their own name.
    pub fn field(&self, path: &str) -> Result<Field, BtfError> {
        let missing = || BtfError::Missing(path.to_owned());
        let mut parts = path.split('.');
        let structure = parts.next().unwrap_or_default();
        let mut id = *self.structs.get(structure.as_bytes()).ok_or_else(missing)?;
        let mut offset = 0;
        for member in parts {
            let found = self.member(id, member.as_bytes(), 0)?.ok_or_else(missing)?;
            id = found.0;
            offset += found.1;
        }
        Ok(Field {
            offset,
            size: self.size(id)?,
        })
    }

    /// Type and byte offset of a member.
    fn member(&self, id: u32, name: &[u8], depth: u32) -> Result<Option<(u32, u32)>, BtfError> {
        if depth > DEPTH_MAX {
            return Err(BtfError::Malformed("nested too deeply"));
        }
        let id = self.resolve(id)?;
        let at = self.start(id)?;
        let (kind, length, flag) = self.head(at)?;
        if kind != STRUCT && kind != UNION {
            return Ok(None);
        }
        for index in 0..length {
            let entry = at + 12 + index * 12;
            let (member_name, kind, bits) = (
                self.word(entry)?,
                self.word(entry + 4)?,
                self.word(entry + 8)?,
            );
            // With the flag set, the upper byte is a bit field's width.
            let offset = if flag { bits & 0x00ff_ffff } else { bits } / 8;
            let member_name = self.string(member_name);
            if member_name == name {
                return Ok(Some((kind, offset)));
            }
            if member_name.is_empty()
                && let Some((found, inner)) = self.member(kind, name, depth + 1)?
            {
                return Ok(Some((found, offset + inner)));
            }
        }
        Ok(None)
    }

    /// Strips typedefs, qualifiers and tags.
    fn resolve(&self, mut id: u32) -> Result<u32, BtfError> {
        for _ in 0..DEPTH_MAX {
            let at = self.start(id)?;
            match self.head(at)?.0 {
                TYPEDEF..=RESTRICT | TYPE_TAG => id = self.word(at + 8)?,
                _ => return Ok(id),
            }
        }
        Err(BtfError::Malformed("endless chain of types"))
    }

    fn size(&self, mut id: u32) -> Result<u32, BtfError> {
        let mut count: u32 = 1;
        for _ in 0..DEPTH_MAX {
            let at = self.start(self.resolve(id)?)?;
            let one = match self.head(at)?.0 {
                INT | STRUCT | UNION | ENUM | ENUM64 => self.word(at + 8)?,
                ARRAY => {
                    id = self.word(at + 12)?;
                    count = count.saturating_mul(self.word(at + 20)?);
                    continue;
                }
                _ => 8,
            };
            return Ok(one.saturating_mul(count));
        }
        Err(BtfError::Malformed("endless chain of types"))
    }

    fn start(&self, id: u32) -> Result<usize, BtfError> {
        match self.starts.get(id as usize) {
            Some(&at) if at != usize::MAX => Ok(at),
            _ => Err(BtfError::Malformed("type id out of range")),
        }
    }

    /// Kind, number of members and kind flag of the type at `at`.
    fn head(&self, at: usize) -> Result<(u32, usize, bool), BtfError> {
        let info = self.word(at + 4)?;
        Ok((info >> 24 & 0x1f, (info & 0xffff) as usize, info >> 31 == 1))
    }

    fn word(&self, at: usize) -> Result<u32, BtfError> {
        read_u32(self.types, at).ok_or(BtfError::Malformed("type cut short"))
    }

    fn string(&self, at: u32) -> &'a [u8] {
        let tail = self.strings.get(at as usize..).unwrap_or_default();
        tail.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

fn read_u32(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests;
