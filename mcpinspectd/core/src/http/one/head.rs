//! Heads of HTTP/1: collected, checked line by line, and read.

use crate::http::anomaly::Anomaly;
use crate::http::head::{Head, Name};
use crate::http::limits::Limits;
use crate::http::part::{PREFACE, Role};

/// Bytes to copy when looking for the end of a head; the rest belongs to the body.
const PIECE: usize = 1024;

/// The most fields that can be read.
const FIELDS: usize = 256;

/// How many bytes distinguish a head from the rest of a body. No head is shorter.
const TELLING: usize = 16;

/// A head in progress.
#[derive(Debug, Default)]
pub(super) struct Heading {
    buffer: Vec<u8>,
    /// Where the current line starts.
    line: usize,
    /// Lines before this are checked.
    checked: usize,
    /// It may be the rest of something that was lost.
    is_doubtful: bool,
}

/// How far a head has been read.
#[derive(Debug)]
pub(super) enum HeadStatus {
    /// It continues.
    Incomplete,
    /// It is complete.
    Complete,
    /// It is not a head: it follows a loss.
    NotAHead,
    Invalid(Anomaly),
}

impl Heading {
    /// The head may be the rest of something that was lost.
    pub(super) fn behind_a_loss() -> Self {
        Self {
            is_doubtful: true,
            ..Self::default()
        }
    }

    /// Bytes of it so far.
    pub(super) fn length(&self) -> usize {
        self.buffer.len()
    }

    /// The memory it takes in bytes.
    pub(super) fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    /// Takes in some of the next bytes, at least one. Returns how many.
    pub(super) fn push(&mut self, rest: &[u8], role: Role, limits: &Limits) -> (usize, HeadStatus) {
        // Blank lines before a head are not part of it.
        if self.buffer.is_empty() && !self.is_doubtful && matches!(rest[0], b'\r' | b'\n') {
            return (1, HeadStatus::Incomplete);
        }
        if self.is_doubtful {
            let taken = rest.len().min(TELLING - self.buffer.len());
            self.buffer.extend_from_slice(&rest[..taken]);
            if self.buffer.len() < TELLING {
                return (taken, HeadStatus::Incomplete);
            }
            if !begins(&self.buffer, role) {
                return (taken, HeadStatus::NotAHead);
            }
            self.is_doubtful = false;
            return (taken, self.check(limits).1);
        }
        let taken = rest.len().min(PIECE);
        self.buffer.extend_from_slice(&rest[..taken]);
        let (surplus, status) = self.check(limits);
        (taken - surplus.min(taken), status)
    }

    /// Checks the complete lines. Returns how many bytes at the end are not part of the head.
    fn check(&mut self, limits: &Limits) -> (usize, HeadStatus) {
        while let Some(at) = memchr::memchr(b'\n', &self.buffer[self.checked..]) {
            let end = self.checked + at;
            let line = &self.buffer[self.line..end];
            let Some(line) = line.strip_suffix(b"\r") else {
                return (0, HeadStatus::Invalid(Anomaly::BareLineFeed));
            };
            if memchr::memchr(b'\r', line).is_some() {
                return (0, HeadStatus::Invalid(Anomaly::BareCarriageReturn));
            }
            if self.line > 0 && matches!(line.first(), Some(b' ' | b'\t')) {
                return (0, HeadStatus::Invalid(Anomaly::FoldedField));
            }
            self.checked = end + 1;
            self.line = end + 1;
            if line.is_empty() {
                let surplus = self.buffer.len() - self.checked;
                self.buffer.truncate(self.checked);
                return (surplus, self.sized(HeadStatus::Complete, limits));
            }
        }
        self.checked = self.buffer.len();
        (0, self.sized(HeadStatus::Incomplete, limits))
    }

    fn sized(&self, status: HeadStatus, limits: &Limits) -> HeadStatus {
        if self.buffer.len() > limits.max_head {
            HeadStatus::Invalid(Anomaly::HeadTooLarge)
        } else {
            status
        }
    }

    /// Whether the head is how HTTP/2 begins.
    pub(super) fn is_preface(&self) -> bool {
        PREFACE.starts_with(&self.buffer)
    }

    /// Reads a complete head.
    pub(super) fn read(&self, role: Role, limits: &Limits) -> Result<Head, Anomaly> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut head = Head::default();
        let version = match role {
            Role::Requests => {
                let mut request = httparse::Request::new(&mut fields);
                let status = request.parse(&self.buffer);
                self.complete(status)?;
                head.field(Name::Method, request.method.unwrap_or_default().as_bytes());
                head.field(Name::Path, request.path.unwrap_or_default().as_bytes());
                request.version
            }
            Role::Responses => {
                let mut response = httparse::Response::new(&mut fields);
                let status = response.parse(&self.buffer);
                self.complete(status)?;
                head.status = response.code.unwrap_or(0);
                response.version
            }
        };
        let fields = fields.iter().take_while(|field| !field.name.is_empty());
        for (index, field) in fields.enumerate() {
            if index == limits.max_fields {
                return Err(Anomaly::HeadTooLarge);
            }
            if let Some(name) = Name::of(field.name.as_bytes()) {
                head.field(name, field.value.trim_ascii());
            }
        }
        if head.is_chunked && version != Some(1) {
            head.doubt(Anomaly::UnknownTransferCoding);
        }
        if head.is_chunked && head.length.is_some() {
            head.doubt(Anomaly::LengthAndCoding);
        }
        Ok(head)
    }

    fn complete(&self, status: httparse::Result<usize>) -> Result<(), Anomaly> {
        match status {
            Ok(httparse::Status::Complete(length)) if length == self.buffer.len() => Ok(()),
            Ok(_) => Err(Anomaly::MalformedHead),
            Err(httparse::Error::TooManyHeaders) => Err(Anomaly::HeadTooLarge),
            Err(_) if self.has_space_before_colon() => Err(Anomaly::SpaceInFieldName),
            Err(_) => Err(Anomaly::MalformedHead),
        }
    }

    /// Whether there is white space before the colon of a field.
    fn has_space_before_colon(&self) -> bool {
        let mut lines = self.buffer.split(|&byte| byte == b'\n').skip(1);
        lines.any(|line| {
            let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
            name.len() < line.len() && name.iter().any(|byte| matches!(byte, b' ' | b'\t'))
        })
    }
}

/// Whether bytes after a loss are the start of a head.
fn begins(start: &[u8], role: Role) -> bool {
    match role {
        Role::Requests => {
            let methods = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"];
            methods.iter().any(|method| {
                let rest = start.strip_prefix(method.as_bytes());
                rest.is_some_and(|rest| rest.starts_with(b" /") || rest.starts_with(b" http"))
            })
        }
        Role::Responses => {
            let rest = start.strip_prefix(b"HTTP/1.");
            rest.is_some_and(|rest| match rest {
                [b'0' | b'1', b' ', one, two, three, ..] => {
                    [one, two, three].iter().all(|digit| digit.is_ascii_digit())
                }
                _ => false,
            })
        }
    }
}
