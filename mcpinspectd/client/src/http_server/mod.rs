//! An MCP server at a URL.
//!
//! Over HTTP each message is a separate request, and what comes back may be one message, a stream of them,
//! or nothing. Three transports look like that: Streamable HTTP with a session, the same without one (the
//! modern era), and the older HTTP+SSE, where everything that the server says comes on one stream. Which one it
//! is shows only when the server is asked, so it is decided here: all other code sees lines in and lines out,
//! as from a process.
//!
//! This is not an MCP client's transport: those turn a status, a body that is not a message, or a wrong id into
//! an error of their own, and a tester wants to see it.
//!
//! - [`endpoint`]: where the server is, and which other URLs are the same server
//! - [`client`]: one HTTP request, redirects, and why it failed
//! - `outgoing`: what headers repeat of a message
//! - `link`: what a session remembers, and the way of a message there
//! - `answer`: the way back of an answer
//! - `legacy`: the older transport with one stream
//! - `events`: streams of events
//! - [`failure`]: why there is no answer
//!
//! The server is untrusted. Its messages are limited in size, like those of a process; what is not taken has to
//! wait, and the connection with it. The caller decides how long to wait: here, only what follows an answer
//! has limits of its own. Everything runs on the caller's thread while it waits.

mod answer;
pub mod client;
pub mod endpoint;
mod events;
pub mod failure;
mod legacy;
mod link;
mod outgoing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::peer::{Peer, PeerEnd, Received, SendOutcome};
use anyhow::Context as _;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use self::endpoint::{Endpoint, is_same_server, resolve, shown};
use self::link::Link;
pub use self::outgoing::{Outgoing, Tools, header_value};

/// Messages that may wait to be sent, and to be taken.
const QUEUE: usize = 64;

/// How long the end of a session may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// A server at a URL.
pub struct HttpServer {
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
    link: Arc<Link>,
    /// `None` once this is stopped.
    outbox: Option<Sender<String>>,
    delivering: JoinHandle<()>,
    inbox: Receiver<Received>,
    started: Instant,
}

impl HttpServer {
    /// The server there. Nothing is sent yet.
    ///
    /// # Errors
    /// This machine lacks the prerequisites.
    pub fn new(endpoint: Endpoint, connect: Duration) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start the runtime for HTTP")?;
        let (outbox, outgoing) = channel(QUEUE);
        let (incoming, inbox) = channel(QUEUE);
        let link = Arc::new(Link::new(endpoint, connect, incoming)?);
        let delivering = runtime.spawn(Arc::clone(&link).deliver(outgoing));
        Ok(Self {
            runtime: Some(runtime),
            link,
            outbox: Some(outbox),
            delivering,
            inbox,
            started: Instant::now(),
        })
    }

    /// Sends what waits to be sent, and ends the session, if there is one.
    pub fn stop(&mut self) {
        let is_first = self.outbox.take().is_some();
        if let (true, Some(runtime)) = (is_first, &self.runtime) {
            let (link, delivering) = (&self.link, &mut self.delivering);
            runtime.block_on(async {
                // A server that does not accept the last message in time does not get it.
                let _ = timeout(GOODBYE, delivering).await;
                // A server that does not end the session in time forgets it some day.
                let _ = timeout(GOODBYE, link.end_session()).await;
            });
        }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A name look-up in progress cannot be interrupted.
            runtime.shutdown_background();
        }
    }
}

impl Peer for HttpServer {
    fn send(&mut self, line: &str) -> SendOutcome {
        let Some(outbox) = &self.outbox else {
            return SendOutcome::Closed;
        };
        match outbox.try_send(line.to_owned()) {
            Ok(()) => SendOutcome::Queued,
            Err(TrySendError::Full(_)) => SendOutcome::Full,
            Err(TrySendError::Closed(_)) => SendOutcome::Closed,
        }
    }

    fn receive(&mut self, wait: Duration) -> Received {
        let Some(runtime) = &self.runtime else {
            return Received::Closed;
        };
        let inbox = &mut self.inbox;
        match runtime.block_on(async { timeout(wait, inbox.recv()).await }) {
            Ok(Some(received)) => received,
            Ok(None) => Received::Closed,
            Err(_) => Received::Nothing,
        }
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn end(&mut self) -> PeerEnd {
        PeerEnd {
            what: "the server ended its event stream".to_owned(),
            ..PeerEnd::default()
        }
    }

    fn is_sending(&self) -> bool {
        let outbox = self.outbox.as_ref();
        outbox.is_some_and(|outbox| outbox.capacity() < QUEUE) || self.link.is_telling()
    }

    fn learn(&mut self, tool: &Value) {
        self.link.learn(tool);
    }
}
