//! What is known about an executable file, and what is found in it.

use std::fmt;

use super::returns::Machine;

/// A part of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Where it begins.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// A part of a file that is mapped for execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The address of its first byte.
    pub address: u64,
    /// Where it is in the file.
    pub part: Part,
}

/// Where the parts of an executable file are.
#[derive(Clone, Debug)]
pub struct Image {
    /// What it was compiled for.
    pub machine: Machine,
    /// Its machine code.
    pub code: Vec<Segment>,
    /// Addresses at which Go's code may begin, the best first. The table of functions has one too, up to Go
    /// 1.25.
    pub starts: Vec<u64>,
    /// Go's table of functions.
    pub functions: Part,
    /// What Go records about how the file was built.
    pub build_info: Part,
}

/// A function, by where it is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its first instruction.
    pub entry: u64,
    /// The instructions that return from it.
    pub returns: Vec<u64>,
}

/// The functions for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFunctions {
    /// `crypto/tls.(*Conn).Read`.
    pub read: Function,
    /// `crypto/tls.(*Conn).Write`.
    pub write: Function,
    /// Those that begin a connection, where they begin.
    pub handshakes: Vec<u64>,
}

/// Why a program in Go is not supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has no TLS, or its functions have other names.
    NoTls,
    /// It was built by a version of Go that is too old.
    TooOld(String),
    /// It was built with a profile, so the compiler may have inlined the functions where they are
    /// called.
    WithProfile,
    /// Its tables or its machine code are not as expected.
    Unknown,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTls => f.write_str("no functions for TLS"),
            Self::TooOld(version) => write!(f, "built by {version}, 1.21 or newer is needed"),
            Self::WithProfile => f.write_str("built with a profile (PGO)"),
            Self::Unknown => f.write_str("of an unknown kind"),
        }
    }
}

impl Image {
    /// Where this many bytes at this address are in the file, if they are machine code.
    pub(super) fn part(&self, address: u64, length: u64) -> Option<Part> {
        self.code.iter().find_map(|segment| {
            let at = address.checked_sub(segment.address)?;
            let is_inside = at.checked_add(length)? <= segment.part.length;
            is_inside.then(|| {
                Some(Part {
                    offset: segment.part.offset.checked_add(at)?,
                    length,
                })
            })?
        })
    }
}
