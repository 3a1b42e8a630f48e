//! Bodies: what is sent to clients, and what comes from the server.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_ENCODING, HeaderMap};
use mcpinspect_core::http::{Coding, Decompressor};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::memory::MemoryReservation;

/// Pieces that wait for a client. A server whose client reads slowly has to wait too.
const QUEUE: usize = 2;

/// Compressed bytes to decompress at a time, and the most that may become of them.
const STEP: usize = 512;
const MAX_STEP: usize = 16 << 20;

/// A body for a client.
pub enum Flow {
    /// All of it.
    Whole {
        bytes: Option<Bytes>,
        /// Its memory counts until it is sent.
        _reservation: Option<MemoryReservation>,
    },
    /// Pieces as they come. An error among them breaks off the connection.
    Pieces(Receiver<io::Result<Bytes>>),
}

impl Flow {
    /// A complete body.
    pub fn of(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::Whole {
            bytes: (!bytes.is_empty()).then_some(bytes),
            _reservation: None,
        }
    }

    /// The same, with memory that counts until it is sent.
    pub fn holding(bytes: Bytes, reservation: MemoryReservation) -> Self {
        Self::Whole {
            bytes: (!bytes.is_empty()).then_some(bytes),
            _reservation: Some(reservation),
        }
    }

    /// A body whose pieces are sent.
    pub fn pieces() -> (Sender<io::Result<Bytes>>, Self) {
        let (sender, receiver) = channel(QUEUE);
        (sender, Self::Pieces(receiver))
    }
}

impl Body for Flow {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole { bytes, .. } => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Pieces(pieces) => {
                let piece = pieces.poll_recv(context);
                piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole { bytes: None, .. })
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole { bytes, .. } => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Pieces(_) => SizeHint::default(),
        }
    }
}

/// A body of the server, decompressed.
pub struct Source {
    body: Incoming,
    decompressor: Option<Decompressor>,
    ready: VecDeque<Bytes>,
    rest: Bytes,
}

/// A response is compressed in an unknown way.
#[derive(Debug)]
pub struct Unknown;

impl Source {
    /// The body that comes with these fields, which are changed to say that it is not compressed.
    pub fn new(headers: &mut HeaderMap, body: Incoming) -> Result<Self, Unknown> {
        let coding = headers.get(CONTENT_ENCODING);
        let coding = coding.map_or(Coding::Identity, |value| Coding::of(value.as_bytes()));
        let decompressor = match coding {
            Coding::Identity => None,
            coding => Some(Decompressor::new(coding).ok_or(Unknown)?),
        };
        if decompressor.is_some() {
            headers.remove(CONTENT_ENCODING);
            headers.remove(hyper::header::CONTENT_LENGTH);
        }
        Ok(Self {
            body,
            decompressor,
            ready: VecDeque::new(),
            rest: Bytes::new(),
        })
    }

    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(Ok(bytes));
            }
            if !self.rest.is_empty() {
                if let Err(error) = self.step() {
                    return Some(Err(error));
                }
                continue;
            }
            let frame = match self.body.frame().await {
                None => return self.end(),
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Some(Err(io::Error::other(error))),
            };
            match frame.into_data() {
                Ok(bytes) if self.decompressor.is_none() => return Some(Ok(bytes)),
                Ok(bytes) => self.rest = bytes,
                // Trailers concern only the hop.
                Err(_) => {}
            }
        }
    }

    fn step(&mut self) -> io::Result<()> {
        let input = self.rest.split_to(self.rest.len().min(STEP));
        let Some(decompressor) = &mut self.decompressor else {
            self.ready.push_back(input);
            return Ok(());
        };
        let (ready, mut made) = (&mut self.ready, 0);
        let result = decompressor.push(&input, |bytes| {
            made += bytes.len();
            ready.push_back(Bytes::copy_from_slice(bytes));
            made <= MAX_STEP
        });
        result.map_err(|_| io::Error::other("the body cannot be decompressed"))
    }

    fn end(&self) -> Option<io::Result<Bytes>> {
        let is_torn = self.decompressor.as_ref().is_some_and(|all| !all.is_over());
        is_torn.then(|| Err(io::ErrorKind::UnexpectedEof.into()))
    }
}
