//! Statements to ClickHouse over HTTP.

use std::error::Error as _;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Buf as _, Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use mcpinspect_client::http_server::client::connector;
use mcpinspect_core::text::escape::printable;
use mcpinspect_fleet::engine::schema::Database;
use mcpinspect_fleet::engine::{Engine, EngineError};
use tokio::runtime::Runtime;

/// How long making a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest error to read and show.
const ERROR_MAX: usize = 4 << 10;
/// The variable with the password.
const PASSWORD: &str = "CLICKHOUSE_PASSWORD";

/// A database of ClickHouse.
#[derive(clap::Args)]
pub struct Location {
    /// ClickHouse, as http://USER@HOST:8123/DATABASE. The user is `default` and the database `mcpinspect`
    /// unless named; the password is read from $CLICKHOUSE_PASSWORD.
    #[arg(long, value_name = "URL")]
    pub clickhouse: String,
}

impl Location {
    pub fn open(&self) -> anyhow::Result<(ClickHouse, Database)> {
        open(&self.clickhouse)
    }
}

/// A server named by its URL, and the database there.
pub fn open(url: &str) -> anyhow::Result<(ClickHouse, Database)> {
    let form = || format!("invalid URL {url:?}: expected http://USER@HOST:8123/DATABASE");
    let uri: Uri = url.parse().with_context(form)?;
    ensure!(
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.query().is_none(),
        form()
    );
    let authority = uri.authority().with_context(form)?.as_str();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("default", authority));
    ensure!(
        !user.contains(':'),
        "every user of this machine can see a password in a URL; set ${PASSWORD} instead"
    );
    let name = match uri.path().trim_matches('/') {
        "" => "mcpinspect",
        name => name,
    };
    let database = Database::new(name).with_context(|| {
        format!("invalid database name {name:?}: use letters, digits and underscores")
    })?;
    let base = format!("{}://{host}/", uri.scheme_str().unwrap_or("http"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let password = std::env::var(PASSWORD).unwrap_or_default();
    let header = |text: &str| {
        let mut value = HeaderValue::from_str(text).context(
            "the user name or password contains characters that are not allowed in a header",
        )?;
        value.set_sensitive(true);
        anyhow::Ok(value)
    };
    let clickhouse = ClickHouse {
        runtime: Rc::new(runtime),
        // A part takes longer to build than servers keep an idle connection.
        client: legacy::Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(connector(CONNECT)?),
        base,
        user: header(user)?,
        password: header(&password)?,
    };
    Ok((clickhouse, database))
}

/// A server.
pub struct ClickHouse {
    runtime: Rc<Runtime>,
    client: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    user: HeaderValue,
    password: HeaderValue,
}

impl ClickHouse {
    fn request(&self, settings: &str, body: Vec<u8>) -> Result<Response<Incoming>, EngineError> {
        let uri: Uri = format!("{}?{settings}", self.base)
            .parse()
            .map_err(|error| EngineError::Unreachable(format!("{error}")))?;
        let length = body.len();
        let mut request = Request::post(uri).body(Full::new(Bytes::from(body)));
        if let Ok(request) = &mut request {
            let headers = request.headers_mut();
            // Even for an empty body: old servers ask for it.
            headers.insert(CONTENT_LENGTH, length.into());
            headers.insert("X-ClickHouse-User", self.user.clone());
            headers.insert("X-ClickHouse-Key", self.password.clone());
        }
        let request = request.map_err(|error| EngineError::Unreachable(error.to_string()))?;
        let response = self.runtime.block_on(self.client.request(request));
        let response = response.map_err(|error| {
            let cause = error.source().map(|cause| format!(": {cause}"));
            EngineError::Unreachable(format!("{error}{}", cause.unwrap_or_default()))
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let mut text = String::new();
        let answer = Answer::new(&self.runtime, response);
        let _ = answer.take(ERROR_MAX as u64).read_to_string(&mut text);
        Err(refused(status.as_u16(), &text))
    }
}

impl Engine for ClickHouse {
    type Answer = Answer;

    fn send(&self, statement: &str, data: Vec<u8>) -> Result<(), EngineError> {
        let response = self.request(&format!("query={}", encoded(statement)), data)?;
        // The status comes with the first byte; a failure after it ends the connection.
        let mut answer = Answer::new(&self.runtime, response);
        io::copy(&mut answer, &mut io::sink())
            .map_err(|error| EngineError::Unreachable(error.to_string()))?;
        Ok(())
    }

    fn query(&self, question: &str) -> Result<Answer, EngineError> {
        // What does not fit in memory goes to the engine's disk.
        let settings = "max_bytes_before_external_group_by=1000000000&max_bytes_before_external_sort=1000000000";
        let response = self.request(settings, question.as_bytes().to_vec())?;
        Ok(Answer::new(&self.runtime, response))
    }
}

/// An answer that is read as it comes.
#[derive(Debug)]
pub struct Answer {
    runtime: Rc<Runtime>,
    body: Incoming,
    left: Bytes,
}

impl Answer {
    fn new(runtime: &Rc<Runtime>, response: Response<Incoming>) -> Self {
        Self {
            runtime: Rc::clone(runtime),
            body: response.into_body(),
            left: Bytes::new(),
        }
    }
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left.is_empty() {
            match self.runtime.block_on(self.body.frame()) {
                None => return Ok(0),
                Some(Ok(frame)) => self.left = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Err(io::Error::other(error)),
            }
        }
        let length = buffer.len().min(self.left.len());
        let (to, from) = (buffer.get_mut(..length), self.left.get(..length));
        if let (Some(to), Some(from)) = (to, from) {
            to.copy_from_slice(from);
        }
        self.left.advance(length);
        Ok(length)
    }
}

/// The text of an error, such as `Code: 60, e.displayText() = …`.
fn refused(status: u16, text: &str) -> EngineError {
    let code = text.split_once("Code: ").map(|(_, rest)| rest);
    let digits = code.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let code = digits.and_then(|digits| digits.parse().ok());
    // A proxy in front of a server that is down.
    if code.is_none() && matches!(status, 502..=504) {
        return EngineError::Unreachable(format!("status {status}"));
    }
    let text = match text.trim() {
        "" => format!("status {status}"),
        text => printable(text, 1_000),
    };
    EngineError::Refused { code, text }
}

/// A statement as part of a URL.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let (server, database) = open("http://ops@db.example:8123/fleet").unwrap();
        assert_eq!(server.base, "http://db.example:8123/");
        assert_eq!(
            (server.user.to_str().unwrap(), database.name()),
            ("ops", "fleet")
        );
        let (server, database) = open("https://db.example").unwrap();
        assert_eq!(
            (&*server.base, database.name()),
            ("https://db.example/", "mcpinspect")
        );
        for wrong in [
            "db.example",
            "ftp://x/",
            "http://x/a;b",
            "http://u:secret@x/",
            "http://x/a?b=c",
        ] {
            assert!(open(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn errors_pass_or_do_not() {
        assert!(refused(500, "Code: 252, e.displayText() = Too many parts").passes());
        assert!(refused(503, "upstream is down").passes());
        assert!(!refused(500, "Code: 60, e.displayText() = no such table").passes());
        assert!(!refused(403, "").passes());
    }
}
