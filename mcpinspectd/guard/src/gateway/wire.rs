//! A client's connection, with two additions to the HTTP library: requests that can be read in two
//! ways end it, and so does a client that accepts nothing for long.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mcpinspect_core::http::{Limits, RequestCheck};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long a client may leave what is there for it untouched.
const PATIENCE: Duration = Duration::from_secs(60);

const REFUSED: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 46\r\n\r\nThe request can be read in more than one way.\n";

/// What could be read in two ways, if that has ended a connection: the library passes it on only if it had
/// begun to read.
pub type Anomaly = Arc<OnceLock<&'static str>>;

/// A connection.
pub struct CheckedConnection {
    stream: TcpStream,
    check: RequestCheck,
    found: Anomaly,
    /// Whether a response has begun.
    has_spoken: bool,
    /// Expires when the client has accepted nothing for too long.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl CheckedConnection {
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            check: RequestCheck::new(Limits::default()),
            found: Anomaly::default(),
            has_spoken: false,
            stalled: None,
        }
    }

    /// Where it reports what could be read in two ways.
    pub fn anomaly(&self) -> Anomaly {
        Arc::clone(&self.found)
    }

    /// Notes whether the client accepted something.
    fn progress<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.has_spoken = true;
            self.stalled = None;
            return written;
        }
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for CheckedConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, into))?;
        let new = into.filled().get(before..).unwrap_or_default();
        if let Err(anomaly) = this.check.push(new) {
            into.set_filled(before);
            let _ = this.found.set(anomaly.as_str());
            if !this.has_spoken {
                // It closes the connection anyway.
                let _ = this.stream.try_write(REFUSED);
            }
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                anomaly.as_str(),
            )));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CheckedConnection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.progress(written, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.progress(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
