//! What watching costs a web server that has nothing to do with MCP.
//!
//! nginx serves pages with one worker, and `wrk` requests them with 16 connections on the same machine, so that
//! both ends pay. A constant page takes so little work that next to nothing but the system calls is left; a page
//! that is read and compressed for each request takes as long as a plain web server usually does.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mcpinspect_tests::places;

use super::stats::{Samples, grouped, head, row};
use super::{Ended, Watching};

/// How long each load lasts. The daemon leaves a busy TLS server alone after a second.
const LOAD: &str = "5s";
/// Longest that the server may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who watches meanwhile.
const OBSERVERS: [(&str, Option<&str>); 3] = [
    ("nobody", None),
    (
        "mcpinspectd, `http = false`",
        Some("[capture]\nhttp = false\ntls = false\n"),
    ),
    ("mcpinspectd", Some("")),
];

/// Bytes of the page that is compressed: with it, the server answers some 60,000 requests a second.
const TEXT: usize = 2500;

/// How pages are requested.
struct Load {
    name: &'static str,
    port: Port,
    page: &'static str,
    header: Option<&'static str>,
}

/// A load of the constant page.
const fn constant(name: &'static str, port: Port) -> Load {
    Load {
        name,
        port,
        page: "",
        header: None,
    }
}

/// A load of the page that is compressed.
const fn compressed(name: &'static str, port: Port) -> Load {
    Load {
        name,
        port,
        page: "text/page.html",
        header: Some("Accept-Encoding: gzip"),
    }
}

const LOADS: [Load; 6] = [
    constant("connections that stay open", Port::Plain),
    Load {
        header: Some("Connection: close"),
        ..constant("a connection for each request", Port::Plain)
    },
    constant("through a server behind a Unix socket", Port::Proxy),
    constant("over TLS, connections that stay open", Port::Tls),
    compressed("a compressed page", Port::Plain),
    compressed("a compressed page over TLS", Port::Tls),
];

#[derive(Clone, Copy)]
enum Port {
    Plain,
    /// Hands requests on to another server, over a Unix socket.
    Proxy,
    Tls,
}

/// nginx, while it runs.
struct Server {
    _process: Ended,
    files: tempfile::TempDir,
    plain: u16,
    proxy: u16,
    tls: u16,
}

impl Server {
    fn start() -> Result<Self> {
        let files = tempfile::tempdir()?;
        let (certificate, key) = certificate(files.path())?;
        let [plain, proxy, tls] = free_ports()?;
        let place = files.path().display();
        let pages =
            format!("location / {{ return 200 'a page'; }} location /text/ {{ root {place}; }}");
        std::fs::create_dir(files.path().join("text"))?;
        std::fs::write(files.path().join("text/page.html"), text())?;
        let configuration = format!(
            "daemon off; master_process off; worker_processes 1; pid {place}/pid; error_log {place}/log;
            events {{ worker_connections 512; }}
            http {{
                access_log off;
                keepalive_requests 100000000;
                default_type text/html; gzip on;
                client_body_temp_path {place}/body; proxy_temp_path {place}/proxy;
                fastcgi_temp_path {place}/fastcgi; uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;
                upstream behind {{ server unix:{place}/behind; keepalive 32; keepalive_requests 100000000; }}
                server {{ listen 127.0.0.1:{plain}; listen unix:{place}/behind; {pages} }}
                server {{
                    listen 127.0.0.1:{proxy};
                    location / {{ proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ''; }}
                }}
                server {{
                    listen 127.0.0.1:{tls} ssl;
                    ssl_certificate {certificate}; ssl_certificate_key {key};
                    {pages}
                }}
            }}"
        );
        let file = files.path().join("nginx.conf");
        std::fs::write(&file, configuration)?;
        let program = places::built()?.join("bench/nginx/usr/sbin/nginx");
        let process = Command::new(&program)
            .arg("-p")
            .arg(files.path())
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let server = Self {
            _process: Ended(process),
            files,
            plain,
            proxy,
            tls,
        };
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", tls)).is_err() {
            if begun.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(server.files.path().join("log"));
                bail!("nginx does not listen: {}", log.unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Requests per second.
    fn load(&self, load: &Load) -> Result<f64> {
        let place = match load.port {
            Port::Plain => format!("http://127.0.0.1:{}/", self.plain),
            Port::Proxy => format!("http://127.0.0.1:{}/", self.proxy),
            Port::Tls => format!("https://127.0.0.1:{}/", self.tls),
        };
        let said = Command::new("wrk")
            .args(["--threads", "1", "--connections", "16", "--duration", LOAD])
            .args(load.header.iter().flat_map(|header| ["--header", *header]))
            .arg(place + load.page)
            .output()
            .context("starting wrk")?;
        let text = String::from_utf8_lossy(&said.stdout);
        ensure!(said.status.success(), "wrk ended with {}", said.status);
        ensure!(
            !text.contains("Non-2xx"),
            "not all requests were answered:\n{text}"
        );
        let rate = text
            .lines()
            .find_map(|line| line.strip_prefix("Requests/sec:"))
            .with_context(|| format!("wrk said no rate:\n{text}"))?;
        Ok(rate.trim().parse()?)
    }
}

/// Some text for a page.
fn text() -> String {
    let lines = (0_u32..).map(|number| {
        let mixed = number.wrapping_mul(0x9e37_79b1);
        format!(
            "<li>Order {mixed:08x} of {} items has been sent.</li>\n",
            mixed % 97
        )
    });
    let mut text: String = lines.take(TEXT / 40).collect();
    text.truncate(TEXT);
    text
}

/// A certificate for this machine, and its key.
fn certificate(place: &Path) -> Result<(String, String)> {
    let path = |name: &str| place.join(name).display().to_string();
    let (certificate, key) = (path("certificate.pem"), path("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes"])
        .args(["-subj", "/CN=localhost", "-days", "2"])
        .args(["-out", &certificate, "-keyout", &key])
        .stderr(Stdio::null())
        .status()
        .context("starting openssl")?;
    ensure!(made.success(), "openssl ended with {made}");
    Ok((certificate, key))
}

/// Ports that are free.
fn free_ports() -> Result<[u16; 3]> {
    let free = || std::net::TcpListener::bind(("127.0.0.1", 0));
    // All at once, so that they differ.
    let listeners = [free()?, free()?, free()?];
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

/// Measures all loads under all observers in turn, and prints the table.
pub fn measure(rounds: usize) -> Result<()> {
    let mut samples = vec![vec![Samples::default(); OBSERVERS.len()]; LOADS.len()];
    for _ in 0..rounds {
        for (observer, (_, configuration)) in OBSERVERS.iter().enumerate() {
            let _daemon = configuration.map(Watching::configured).transpose()?;
            let server = Server::start()?;
            for (load, samples) in LOADS.iter().zip(&mut samples) {
                samples[observer].push(server.load(load)?);
            }
        }
    }
    println!(
        "Requests a second that a web server answers, lowest / median / highest, and the median's loss\n"
    );
    let names = OBSERVERS.map(|(name, _)| name);
    head(&[&["how pages are requested"], &names[..]].concat());
    for (load, samples) in LOADS.iter().zip(&samples) {
        let alone = samples[0].median();
        let cells = samples.iter().map(|samples| {
            let share = (samples.median() / alone - 1.0) * 100.0;
            format!(
                "{} / {} / {}, {share:+.1} %",
                grouped(samples.minimum()),
                grouped(samples.median()),
                grouped(samples.quantile(1.0)),
            )
        });
        row(&std::iter::once(load.name.to_owned())
            .chain(cells)
            .collect::<Vec<_>>());
    }
    println!();
    Ok(())
}
