//! HTTP+SSE, the transport of 2024: the server says everything on one stream of events, whose first event
//! names the URL that messages are posted to.
//!
//! Nothing says which transport a URL has. So a server that refuses the first message is asked for such a
//! stream.

use std::sync::Arc;
use std::time::Duration;

use crate::failure::Failure;
use crate::peer::Received;
use tokio::time::timeout;

use super::answer::{Stream, is_stream};
use super::endpoint::{Endpoint, is_same_server, resolve, shown};
use super::failure::transport;
use super::link::Link;
use super::outgoing::Outgoing;

/// How long such a server may take to say where messages go.
const PATIENCE: Duration = Duration::from_secs(5);

impl Link {
    /// Asks for the stream; `None` if the server has none of this kind.
    ///
    /// # Errors
    /// It has one that cannot be used.
    pub(super) async fn open_beside(self: &Arc<Self>) -> Result<Option<Endpoint>, Failure> {
        let opened = timeout(PATIENCE, async {
            let response = self.get(None).await.ok()?;
            if !is_stream(&response) {
                return None;
            }
            let mut stream = Stream::new(response);
            loop {
                let event = stream.next().await.ok()??;
                if event.name == "endpoint" {
                    return Some((stream, event.data));
                }
            }
        });
        let Ok(Some((stream, path))) = opened.await else {
            return Ok(None);
        };
        let path = String::from_utf8_lossy(&path);
        let Some(uri) = resolve(&self.endpoint.uri, &path) else {
            return Err(transport(
                "not_mcp",
                "the server's event stream does not name an HTTP URL",
            ));
        };
        if !is_same_server(&self.endpoint.uri, &uri) {
            return Err(transport(
                "redirected",
                format!(
                    "the server asks to send messages to {}, which is another server; none were sent",
                    shown(&uri)
                ),
            ));
        }
        let beside = self.endpoint.at(uri);
        self.go_beside(beside.clone());
        tokio::spawn(Arc::clone(self).hear(stream));
        Ok(Some(beside))
    }

    /// Sends a message whose answer, if any, comes on the stream.
    pub(super) async fn send_beside(
        &self,
        to: &Endpoint,
        message: &Outgoing,
    ) -> Result<(), Failure> {
        let response = self.post(to, message).await?;
        self.accepted(response).await
    }

    /// Passes on what comes on the stream. The session ends with it.
    async fn hear(self: Arc<Self>, mut stream: Stream) {
        while let Ok(Some(event)) = stream.next().await {
            if event.name == "message" {
                self.pass(event.data, None).await;
            }
        }
        let _ = self.inbox.send(Received::Closed).await;
    }
}
