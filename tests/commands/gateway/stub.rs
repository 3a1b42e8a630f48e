//! A server and a client of HTTP that write what they are told, byte by byte.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request that the stub got.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// Its head, with names of fields in lower case.
    pub head: String,
    pub body: String,
}

impl ReceivedRequest {
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The id of its message, as JSON.
    pub fn id(&self) -> String {
        let message: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        message["id"].to_string()
    }
}

/// Where the stub answers.
pub struct ResponseWriter(TcpStream);

impl ResponseWriter {
    pub fn write(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    /// A whole response.
    pub fn respond(&mut self, status: &str, fields: &str, body: &[u8]) {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\n{fields}content-length: {length}\r\n\r\n");
        self.write(&[head.as_bytes(), body].concat());
    }

    pub fn json(&mut self, body: &str) {
        self.respond(
            "200 OK",
            "content-type: application/json\r\n",
            body.as_bytes(),
        );
    }

    /// The head of a response in chunks.
    pub fn chunked(&mut self, fields: &str) {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}transfer-encoding: chunked\r\n\r\n");
        self.write(head.as_bytes());
    }

    pub fn chunk(&mut self, bytes: &[u8]) {
        let head = format!("{:x}\r\n", bytes.len());
        self.write(&[head.as_bytes(), bytes, b"\r\n"].concat());
    }

    pub fn end(&mut self) {
        self.write(b"0\r\n\r\n");
    }

    /// Hangs up.
    pub fn die(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }

    /// Waits until the other side has hung up.
    pub fn wait(&mut self) {
        let _ = self.0.read(&mut [0; 64]);
    }
}

/// A server.
pub struct StubServer {
    address: String,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl StubServer {
    /// Answers each request in this way.
    pub fn start(
        answer: impl Fn(&ReceivedRequest, &mut ResponseWriter) + Send + Sync + 'static,
    ) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (all, answer) = (Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in socket.incoming().flatten() {
                let (all, answer) = (Arc::clone(&all), Arc::clone(&answer));
                std::thread::Builder::new()
                    .stack_size(128 << 10)
                    .spawn(move || {
                        stream.set_nodelay(true).unwrap();
                        let mut out = ResponseWriter(stream);
                        let mut buffer = Vec::new();
                        while let Some(request) = read(&mut out.0, &mut buffer) {
                            all.lock().unwrap().push(request.clone());
                            answer(&request, &mut out);
                        }
                    })
                    .unwrap();
            }
        });
        Self { address, requests }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }
}

/// Reads a request with a length.
fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<ReceivedRequest> {
    let mut piece = [0; 16 << 10];
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(length) => buffer.extend_from_slice(&piece[..length]),
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let mut requests = ReceivedRequest {
        head,
        body: String::new(),
    };
    let length = requests
        .field("content-length")
        .map_or(0, |text| text.parse().unwrap());
    while buffer.len() < end + length {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(length) => buffer.extend_from_slice(&piece[..length]),
        }
    }
    requests.body = String::from_utf8_lossy(&buffer[end..end + length]).into_owned();
    buffer.drain(..end + length);
    Some(requests)
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    /// Whether it came to its end.
    pub is_whole: bool,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    fn read(text: &[u8]) -> Self {
        let at = text.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(at) = at else {
            panic!("no response: {}", String::from_utf8_lossy(text))
        };
        let head = String::from_utf8_lossy(&text[..at]).to_lowercase();
        let rest = &text[at + 4..];
        let (body, is_whole) = match head.contains("transfer-encoding: chunked") {
            true => unchunked(rest),
            false => (rest.to_vec(), true),
        };
        Self {
            status: head[9..12].parse().unwrap(),
            head,
            body,
            is_whole,
        }
    }
}

fn unchunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(at) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap(), 16).unwrap();
        rest = &rest[at + 2..];
        if size == 0 {
            return (body, true);
        }
        let size = size.min(rest.len());
        body.extend_from_slice(&rest[..size]);
        rest = rest.get(size + 2..).unwrap_or_default();
    }
    (body, false)
}

/// Sends these bytes, and reads what comes until the end.
pub fn raw(address: &str, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream.write_all(bytes).unwrap();
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    Answer::read(&all)
}

/// Asks, and reads the whole answer.
pub fn ask(address: &str, method: &str, path: &str, fields: &str, body: &str) -> Answer {
    let length = body.len();
    let host = match fields.contains("host: ") {
        true => String::new(),
        false => format!("host: {address}\r\n"),
    };
    let head = format!(
        "{method} {path} HTTP/1.1\r\n{host}connection: close\r\ncontent-length: {length}\r\n{fields}\r\n"
    );
    raw(address, format!("{head}{body}").as_bytes())
}

/// A stream that stays open.
pub struct OpenStream {
    stream: TcpStream,
    text: String,
}

impl OpenStream {
    pub fn get(address: &str, path: &str, fields: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n{fields}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        Self {
            stream,
            text: String::new(),
        }
    }

    /// Reads until this has come; returns all of it.
    pub fn until(&mut self, wanted: &str) -> &str {
        let mut piece = [0; 4096];
        while !self.text.contains(wanted) {
            let length = self.stream.read(&mut piece).unwrap();
            assert!(length > 0, "no {wanted} in {}", self.text);
            self.text
                .push_str(&String::from_utf8_lossy(&piece[..length]));
        }
        &self.text
    }

    pub fn rest(mut self) -> String {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest);
        self.text + &String::from_utf8_lossy(&rest)
    }
}
