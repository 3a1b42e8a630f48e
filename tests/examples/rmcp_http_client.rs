//! A client on the Rust SDK over HTTP: `rmcp_http_client URL SIZES`. It calls `echo` with as many letters as each
//! size says, one call after the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use mcpinspect_tests::wirelog::WireLog;
use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, ClientJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use serde_json::{Map, Value};
use sse_stream::Sse;

type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type Failure = StreamableHttpError<reqwest::Error>;

/// The SDK's own client, which logs the bodies of requests and the data of events.
#[derive(Clone)]
struct Logged {
    inner: reqwest::Client,
    log: Arc<Mutex<WireLog>>,
}

impl Logged {
    fn sent(&self, message: &ClientJsonRpcMessage) -> Result<(), Failure> {
        // The same text as in the body.
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(log.sent(&line)?)
    }

    fn received(&self, events: Events) -> Events {
        let log = Arc::clone(&self.log);
        let note = move |event: Result<Sse, SseError>| {
            if let Ok(Sse {
                data: Some(data), ..
            }) = &event
                && !data.is_empty()
            {
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                log.received(format!("{data}\n").as_bytes())
                    .map_err(|error| SseError::Body(error.into()))?;
            }
            event
        };
        events.map(note).boxed()
    }
}

impl StreamableHttpClient for Logged {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.sent(&message)?;
        let response = self
            .inner
            .post_message(uri, message, session, auth, headers)
            .await?;
        Ok(match response {
            StreamableHttpPostResponse::Sse(events, session) => {
                StreamableHttpPostResponse::Sse(self.received(events), session)
            }
            other => other,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        self.inner.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure> {
        let events = self
            .inner
            .get_stream(uri, session, last_event, auth, headers)
            .await?;
        Ok(self.received(events))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().context("no URL given")?;
    let sizes = arguments.next().context("no sizes given")?;
    let client = Logged {
        inner: reqwest::Client::new(),
        log: Arc::new(Mutex::new(WireLog::open("client")?)),
    };
    let configuration = StreamableHttpClientTransportConfig::with_uri(url);
    let transport = StreamableHttpClientTransport::with_client(client, configuration);
    let client = ().serve(transport).await?;
    client.list_all_tools().await?;
    for size in sizes.split(',') {
        let message = Value::String("r".repeat(size.parse()?));
        let arguments = Map::from_iter([("message".to_owned(), message)]);
        let call = CallToolRequestParams::new("echo").with_arguments(arguments);
        client.call_tool(call).await?;
    }
    client.cancel().await?;
    Ok(())
}
