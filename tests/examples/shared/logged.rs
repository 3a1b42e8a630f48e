//! A stream end that logs what passes through it and changes nothing, vectored writes included.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use mcpinspect_tests::wirelog::WireLog;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One log for both ends.
pub type SharedLog = Arc<Mutex<WireLog>>;

/// Opens this process's log.
pub fn open_log(role: &str) -> io::Result<SharedLog> {
    Ok(Arc::new(Mutex::new(WireLog::open(role)?)))
}

/// A reading or writing end with its log.
pub struct Logged<T> {
    inner: T,
    log: SharedLog,
}

impl<T> Logged<T> {
    /// Logs what passes through `inner`.
    pub fn new(inner: T, log: &SharedLog) -> Self {
        let log = Arc::clone(log);
        Self { inner, log }
    }

    fn sent(&self, bytes: &[u8]) -> io::Result<()> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.sent(bytes)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Logged<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        Poll::Ready(log.received(&buffer.filled()[before..]))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Logged<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        self.sent(&bytes[..count])?;
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_write_vectored(cx, slices))?;
        let mut left = count;
        for slice in slices {
            let part = &slice[..slice.len().min(left)];
            self.sent(part)?;
            left -= part.len();
        }
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
