//! One HTTP request: connections, TLS, redirects, and why none of it worked.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::failure::Failure;
use anyhow::Context as _;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderValue, LOCATION, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;

use super::endpoint::{Endpoint, is_same_server, resolve, shown};
use super::failure::transport;

/// Most redirects of one request.
const REDIRECTS: usize = 5;

/// The user agent.
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("mcpinspect/", env!("CARGO_PKG_VERSION")));

/// Sends requests, over connections that it keeps.
pub struct Client {
    inner: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Client {
    /// A client that trusts whom this machine trusts. Connecting may take `connect`.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(connect: Duration) -> anyhow::Result<Self> {
        let inner = legacy::Client::builder(TokioExecutor::new()).build(connector(connect)?);
        Ok(Self { inner })
    }

    /// Sends a request. The person's own headers replace those in `headers`. Redirects
    /// are followed on the same server, and only if the request stays the same.
    ///
    /// # Errors
    /// There is no response, or it leads away.
    pub async fn send(
        &self,
        method: &Method,
        to: &Endpoint,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        headers.insert(USER_AGENT, AGENT);
        for name in to.headers.keys() {
            headers.remove(name);
        }
        headers.extend(to.headers.clone());
        let mut uri = to.uri.clone();
        for _ in 0..=REDIRECTS {
            let mut request = Request::new(Full::new(body.clone()));
            *request.method_mut() = method.clone();
            *request.uri_mut() = uri.clone();
            *request.headers_mut() = headers.clone();
            let response = self.inner.request(request).await;
            let response = response.map_err(|error| unreached(&uri, &error))?;
            let Some(location) = location(&response) else {
                return Ok(response);
            };
            uri = redirected(method, response.status(), &uri, &location)?;
        }
        Err(transport(
            "redirected",
            format!("{} redirects too many times", shown(&to.uri)),
        ))
    }
}

/// Makes connections to whom this machine trusts, each in at most `connect`.
///
/// # Errors
/// TLS cannot be set up.
pub fn connector(connect: Duration) -> anyhow::Result<HttpsConnector<HttpConnector>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("cannot set up TLS")?;
    // Without any authority, plain HTTP still works.
    let tls = match tls.clone().with_native_roots() {
        Ok(trusting) => trusting,
        Err(_) => tls.with_root_certificates(RootCertStore::empty()),
    };
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(connect));
    tcp.set_nodelay(true);
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(tls.with_no_client_auth())
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp))
}

fn location(response: &Response<Incoming>) -> Option<String> {
    if !response.status().is_redirection() {
        return None;
    }
    let location = response.headers().get(LOCATION)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

fn redirected(
    method: &Method,
    status: StatusCode,
    from: &Uri,
    location: &str,
) -> Result<Uri, Failure> {
    let keeps = method == Method::GET
        || matches!(
            status,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
        );
    let to = resolve(from, location);
    let why = match &to {
        None => "which is not an HTTP URL",
        Some(to) if !is_same_server(from, to) => {
            "which is another server; the message and headers were not sent there"
        }
        Some(_) if !keeps => "with a status that turns the message into a GET",
        Some(to) => return Ok(to.clone()),
    };
    let there = to.as_ref().map_or_else(|| location.to_owned(), shown);
    let failure = transport(
        "redirected",
        format!("{} redirects to {there}, {why}", shown(from)),
    );
    Err(failure.with(json!({ "status": status.as_u16(), "location": there })))
}

/// Why there is no response.
pub fn unreached(uri: &Uri, error: &legacy::Error) -> Failure {
    let mut code = match error.is_connect() {
        true => "unreachable",
        false => "closed",
    };
    let mut reason = String::new();
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        reason = error.to_string();
        if reason == "dns error" {
            code = "unknown_host";
        }
        let io = error.downcast_ref::<io::Error>();
        if let Some(io) = io {
            code = match io.kind() {
                io::ErrorKind::ConnectionRefused => "refused",
                io::ErrorKind::TimedOut => "timeout",
                _ => code,
            };
        }
        if error.is::<rustls::Error>() {
            code = "tls";
        }
        let parser = error.downcast_ref::<hyper::Error>();
        if parser.is_some_and(hyper::Error::is_parse) {
            code = "not_http";
        }
        // The source of an I/O error is not what it wraps, but the source of that.
        let wrapped = io.and_then(io::Error::get_ref);
        cause = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    let uri = shown(uri);
    let message = match code {
        "refused" => format!("{uri} refused the connection"),
        "timeout" => format!("{uri} did not accept the connection in time"),
        "unknown_host" => format!("cannot resolve the host of {uri}: {reason}"),
        "tls" => format!("TLS with {uri} failed: {reason}"),
        "not_http" => format!("{uri} did not answer with HTTP: {reason}"),
        "closed" => format!("the connection to {uri} was lost: {reason}"),
        _ => format!("cannot reach {uri}: {reason}"),
    };
    transport(code, message).with(json!({ "url": uri, "reason": reason }))
}
