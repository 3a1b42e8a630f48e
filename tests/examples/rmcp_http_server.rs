//! A server on the Rust SDK over HTTP/1.1 and HTTP/2: `rmcp_http_server PORT WORD…`. It answers with events, with
//! JSON if a word is `json`, and keeps no sessions if one is `stateless`.

#[path = "shared/echo.rs"]
mod echo;

use std::sync::Arc;

use anyhow::{Context, Result};
use echo::Echo;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().context("no port given")?.parse()?;
    let words: Vec<String> = arguments.collect();
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let configuration = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(!has("stateless"))
        .with_json_response(has("json"));
    let service = StreamableHttpService::new(
        || Ok(Echo::described(None)),
        Arc::<LocalSessionManager>::default(),
        configuration,
    );
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let connection = auto::Builder::new(TokioExecutor::new());
            // A client may leave in the middle.
            let _ = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
