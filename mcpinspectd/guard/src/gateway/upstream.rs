//! The server behind the gateway.

use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderMap;
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use mcpinspect_client::failure::Failure;
use mcpinspect_client::http_server::{Endpoint, client, failure, is_same_server, resolve, shown};
use tokio::time::timeout;

/// How long the answer to the gateway's own messages may take.
const GLANCE: Duration = Duration::from_secs(10);

/// The server.
pub struct Upstream {
    endpoint: Uri,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    wait: Duration,
}

impl Upstream {
    /// The server at a URL. Connecting may take `connect`, and an answer may take `wait` to begin.
    ///
    /// # Errors
    /// It is not an HTTP URL, or TLS cannot be set up.
    pub fn new(url: &str, connect: Duration, wait: Duration) -> anyhow::Result<Self> {
        let endpoint = Endpoint::new(url, &[])?.uri().clone();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(client::connector(connect)?);
        Ok(Self {
            endpoint,
            client,
            wait,
        })
    }

    /// The server at another URL, reached in the same way.
    ///
    /// # Errors
    /// It is not an HTTP URL.
    pub fn to(&self, url: &str) -> anyhow::Result<Self> {
        Ok(Self {
            endpoint: Endpoint::new(url, &[])?.uri().clone(),
            client: self.client.clone(),
            wait: self.wait,
        })
    }

    /// The URL that was given.
    pub fn endpoint(&self) -> &Uri {
        &self.endpoint
    }

    /// How long it may take to continue.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// The URL of the same server with this path and query.
    pub fn at(&self, path: &str) -> Option<Uri> {
        let scheme = self.endpoint.scheme_str()?;
        let authority = self.endpoint.authority()?;
        format!("{scheme}://{authority}{path}").parse().ok()
    }

    /// The path and query that `reference` means when the server names it in an answer from `base`; `None`
    /// if it leads to another server.
    pub fn own(&self, base: &Uri, reference: &str) -> Option<String> {
        let uri = resolve(base, reference)?;
        let is_own = is_same_server(&self.endpoint, &uri) && uri.scheme() == self.endpoint.scheme();
        is_own.then(|| {
            uri.path_and_query()
                .map_or("/", |all| all.as_str())
                .to_owned()
        })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// There is no response, or none in time.
    pub async fn ask(
        &self,
        method: Method,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        match timeout(self.wait, self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(client::unreached(&uri, &error)),
            Err(_) => Err(failure::transport(
                "timeout",
                format!("{} did not answer in time", shown(&uri)),
            )),
        }
    }

    /// Sends a message of the gateway's own. It does not matter whether it arrives.
    pub async fn tell(&self, uri: Uri, headers: HeaderMap, message: String) {
        let told = self.ask(Method::POST, uri, headers, message.into());
        let _ = timeout(GLANCE, told).await;
    }
}
