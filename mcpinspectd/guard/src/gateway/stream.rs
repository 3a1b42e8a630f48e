//! A stream of events on its way to a client, event by event.

use std::io;

use hyper::Uri;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use mcpinspect_core::model::Direction;
use mcpinspect_core::wire::framing::DEFAULT_MAX_FRAME;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;

use super::admitted::{AdmittedRequest, ForwardedPart, judged};
use super::blocks::{self, Blocks};
use super::body::{Flow, Source};
use super::body_summary::BodySummary;
use super::heads;
use super::memory::MemoryReservation;
use super::reply::{self, INTERNAL, INVALID};
use super::sessions::Key;

/// The gateway's own messages that may wait for their turn on the older transport's stream.
const QUEUE: usize = 64;

/// A stream.
pub struct Stream {
    admitted: AdmittedRequest,
    source: Source,
    blocks: Blocks,
    reservation: MemoryReservation,
    out: Sender<io::Result<Bytes>>,
    session: Option<HeaderValue>,
    /// The gateway's own messages for the older transport's stream.
    inbox: Option<Receiver<Bytes>>,
    /// The name of the session in the older transport.
    name: Option<Key>,
    /// Where the client posts messages.
    posts_to: Uri,
    /// Whether a client can ask for what it missed.
    is_resumable: bool,
    is_first: bool,
}

/// Why a stream is over.
enum StreamEnd {
    /// The server ended it, or the gateway ends.
    Ended,
    /// The client is gone.
    Left,
    /// It cannot continue.
    Broken(&'static str),
}

impl Stream {
    /// Passes a stream on.
    pub fn start(admitted: AdmittedRequest, source: Source, session: Option<HeaderValue>) -> Flow {
        let (out, flow) = Flow::pieces();
        let stream = Self {
            posts_to: admitted.uri.clone(),
            reservation: admitted.hub.memory.hold(),
            blocks: Blocks::default(),
            inbox: None,
            name: None,
            is_resumable: false,
            is_first: true,
            admitted,
            source,
            out,
            session,
        };
        tokio::spawn(stream.run());
        flow
    }

    async fn run(mut self) {
        let over = match self.pass().await {
            Err(over) => over,
            Ok(()) => StreamEnd::Ended,
        };
        if let Some(name) = &self.name {
            self.admitted.hub.table.remove(name);
        }
        let text = match over {
            StreamEnd::Left => return,
            StreamEnd::Ended => "the server ended the stream before it answered",
            StreamEnd::Broken(why) => why,
        };
        let waiting = std::mem::take(&mut self.admitted.summary.requests);
        if !self.is_resumable && !waiting.is_empty() {
            for id in waiting {
                let error = reply::error(Some(&id), INTERNAL, text);
                let _ = self.send(blocks::event(&error)).await;
            }
        } else if let StreamEnd::Broken(why) = over {
            // The client then knows that it is not the end, and can resume.
            let _ = self.out.send(Err(io::Error::other(why))).await;
        }
    }

    async fn pass(&mut self) -> Result<(), StreamEnd> {
        for own in std::mem::take(&mut self.admitted.own) {
            self.send(blocks::event(&own)).await?;
        }
        let mut ending = self.admitted.hub.ending.clone();
        loop {
            while let Some(block) = self.blocks.next() {
                self.block(block).await?;
            }
            if self.blocks.len() > DEFAULT_MAX_FRAME || !self.reservation.set(self.blocks.len()) {
                let judge = &self.admitted.client_session.judge;
                let beginning = self.blocks.rest();
                judge.ambiguous(Direction::ServerToClient, &beginning, "too_long");
                return Err(StreamEnd::Broken("the server's message is too large"));
            }
            let is_waited_for = !self.admitted.summary.requests.is_empty();
            tokio::select! {
                () = self.out.closed() => return Err(StreamEnd::Left),
                () = ended(&mut ending), if !is_waited_for => return Ok(()),
                own = next(&mut self.inbox) => self.send(own).await?,
                piece = self.source.next() => match piece {
                    Some(Ok(piece)) => self.blocks.push(&piece),
                    Some(Err(_)) => return Err(StreamEnd::Broken("the connection to the server was lost")),
                    None => break,
                },
            }
        }
        let rest = self.blocks.rest();
        match rest.is_empty() {
            true => Ok(()),
            false => self.block(rest).await,
        }
    }

    /// Judges a block, and passes on what passes of it.
    async fn block(&mut self, block: Bytes) -> Result<(), StreamEnd> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let judge = &self.admitted.client_session.judge;
        let is_idle = judge.is_idle();
        if !is_idle
            && let Some(reason) = blocks::doubt(&block, is_first)
            && !judge.ambiguous(Direction::ServerToClient, &block, reason)
        {
            return Ok(());
        }
        let sse_event = blocks::SseEvent::read(&block);
        self.is_resumable |= sse_event.has_id;
        let Some(data) = sse_event.data else {
            return self.send(block).await;
        };
        if sse_event.name == b"endpoint" {
            return self.endpoint(block, &data).await;
        }
        let escaped = match is_idle {
            true => None,
            false => blocks::without_separators(&data),
        };
        let text = escaped.as_deref().unwrap_or(&data);
        let answered = BodySummary::read(text).responses;
        let forward = match is_idle {
            true => ForwardedPart::AsIs,
            false => self.judged(text).await,
        };
        let passing = match forward {
            ForwardedPart::AsIs => match &escaped {
                Some(escaped) => Some(blocks::with_data(&block, escaped).into()),
                None => Some(block),
            },
            ForwardedPart::Changed(changed) => Some(blocks::with_data(&block, &changed).into()),
            ForwardedPart::Nothing => None,
        };
        let waiting = &mut self.admitted.summary.requests;
        let before = waiting.len();
        waiting.retain(|id| !answered.contains(id));
        let is_answer = waiting.len() < before;
        match passing {
            Some(block) => self.send(block).await,
            None if is_answer => {
                // A client that waits for it has to know that nothing else comes.
                let text =
                    "Refused by policy: the server's answer can be read in more than one way";
                for id in answered {
                    let error = reply::error(Some(&id), INVALID, text);
                    self.send(blocks::event(&error)).await?;
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Judges a message, answers it if the policy does, and waits as long as the policy says.
    async fn judged(&self, text: &[u8]) -> ForwardedPart {
        let judged = judged(&self.admitted, Direction::ServerToClient, text);
        if !judged.delay.is_zero() {
            tokio::time::sleep(judged.delay).await;
        }
        for reply in judged.replies {
            let headers =
                heads::in_the_clients_place(&self.admitted.headers, self.session.as_ref());
            let to = self.posts_to.clone();
            self.admitted.hub.upstream.tell(to, headers, reply).await;
        }
        judged.forward
    }

    /// Notes where the older transport's client posts messages, and makes it post them here.
    async fn endpoint(&mut self, block: Bytes, data: &[u8]) -> Result<(), StreamEnd> {
        let upstream = &self.admitted.hub.upstream;
        let named = String::from_utf8_lossy(data);
        let named = named.trim();
        let path = upstream.own(&self.admitted.uri, named);
        let target = path.and_then(|path| Some((upstream.at(&path)?, path)));
        let Some((uri, path)) = target else {
            let judge = &self.admitted.client_session.judge;
            judge.ambiguous(Direction::ServerToClient, &block, "foreign_endpoint");
            return Err(StreamEnd::Broken(
                "the server asks to send messages to another server, which is not behind this gateway",
            ));
        };
        self.posts_to = uri;
        if self.name.is_none() {
            let (sender, receiver) = channel(QUEUE);
            let _ = self.admitted.client_session.beside.set(sender);
            let key = Key::Endpoint(path.as_str().into());
            let client_session = std::sync::Arc::clone(&self.admitted.client_session);
            let added = self.admitted.hub.table.add(key.clone(), client_session);
            added.map_err(|_| {
                StreamEnd::Broken("the gateway has reached its maximum number of sessions")
            })?;
            self.inbox = Some(receiver);
            self.name = Some(key);
        }
        let is_whole = named.contains("://") || named.starts_with("//");
        match is_whole {
            true => {
                let own = blocks::with_data(&block, path.as_bytes());
                self.send(own.into()).await
            }
            false => self.send(block).await,
        }
    }

    async fn send(&self, bytes: Bytes) -> Result<(), StreamEnd> {
        self.out.send(Ok(bytes)).await.map_err(|_| StreamEnd::Left)
    }
}

async fn ended(ending: &mut watch::Receiver<bool>) {
    // The sender exists as long as the gateway does.
    let _ = ending.wait_for(|is_ending| *is_ending).await;
}

/// The next message of the gateway's own; never, if there are none.
async fn next(inbox: &mut Option<Receiver<Bytes>>) -> Bytes {
    if let Some(inbox) = inbox
        && let Some(own) = inbox.recv().await
    {
        return own;
    }
    std::future::pending().await
}
