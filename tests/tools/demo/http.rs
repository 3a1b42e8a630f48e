//! A server that listens on this machine, and its client: MCP over HTTP, as plain as it gets.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// The id of the one session.
const SESSION: &str = "4f1c";

/// A head's first line and the body behind it.
fn read(stream: &mut impl BufRead) -> Result<Option<(String, String)>> {
    let mut first = String::new();
    if stream.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", value)) => length = value.parse()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Some((
        first.trim_end().to_owned(),
        String::from_utf8(body)?,
    )))
}

/// The server: it prints its port, and answers whoever connects.
pub fn listen() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    for stream in listener.incoming() {
        let mut stream = stream?;
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some((_, body)) = read(&mut reader)? {
            let message: Value = serde_json::from_str(&body).unwrap_or_default();
            let (status, body) = match message.get("id").zip(answer(&message)) {
                Some((id, result)) => (
                    "200 OK",
                    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
                ),
                None => ("202 Accepted", String::new()),
            };
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nMcp-Session-Id: {SESSION}\r\nContent-Length: {length}\r\n\r\n{body}"
            )?;
        }
    }
    Ok(())
}

fn answer(message: &Value) -> Option<Value> {
    Some(match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "weather", "version": "2.1.0"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "forecast",
            "description": "Returns the weather of the next days.",
            "inputSchema": {"type": "object", "properties": {"place": {"type": "string"}}},
        }]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "Sunny."}], "isError": false}),
        _ => return None,
    })
}

/// A running server, and the agent's connection to it.
pub struct Client {
    server: Child,
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    url: String,
    last_id: u64,
}

impl Client {
    /// Starts the server and connects to it.
    pub fn start(directory: &Path) -> Result<Self> {
        let program = directory.join("weather-server");
        std::fs::copy(std::env::current_exe()?, &program)?;
        let mut server = Command::new(program)
            .arg("listen")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = server.stdout.take().context("the server's output")?;
        let mut port = String::new();
        BufReader::new(output).read_line(&mut port)?;
        let address = format!("127.0.0.1:{}", port.trim());
        let stream = TcpStream::connect(&address)?;
        Ok(Self {
            reader: BufReader::new(stream.try_clone()?),
            stream,
            server,
            url: format!("http://{address}/mcp"),
            last_id: 0,
        })
    }

    /// Where the server is.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn send(&mut self, method: &str, body: &str) -> Result<()> {
        let length = body.len();
        write!(
            self.stream,
            "{method} /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Session-Id: {SESSION}\r\nContent-Length: {length}\r\n\r\n{body}",
            self.url
                .trim_start_matches("http://")
                .trim_end_matches("/mcp")
        )?;
        let (status, _) = read(&mut self.reader)?.context("the server hung up")?;
        ensure!(status.starts_with("HTTP/1.1 20"), "{status}");
        Ok(())
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<()> {
        self.last_id += 1;
        let message =
            json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        self.send("POST", &message.to_string())
    }

    /// Introduces itself, asks for the tools, and uses one.
    pub fn talk(&mut self) -> Result<()> {
        let me = json!({"name": "demo-agent", "version": "1.0.0"});
        self.request(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": me}),
        )?;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.send("POST", &initialized.to_string())?;
        self.request("tools/list", &json!({}))?;
        let call = json!({"name": "forecast", "arguments": {"place": "Oslo"}});
        self.request("tools/call", &call)
    }

    /// Ends the session.
    pub fn end(mut self) -> Result<()> {
        self.send("DELETE", "")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
