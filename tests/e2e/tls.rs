//! MCP over HTTPS: real servers and clients on this machine, found without any configuration.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::busy::Busy;
use mcpinspect_tests::places;
use mcpinspect_tests::talk::Talk;
use mcpinspect_tests::tap::Tap;
use tempfile::TempDir;

use crate::http::{
    Server, all_at_once, await_all, calls_of_a_crowd, client, in_order, one_after_another,
};
use crate::{BEHIND, SESSION};

/// A certificate for this machine, which signs itself.
pub struct Certificate {
    folder: TempDir,
}

impl Certificate {
    pub fn new() -> Result<Self> {
        let certificate = Self {
            folder: tempfile::tempdir()?,
        };
        let made = Command::new("openssl")
            .args("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1".split(' '))
            .args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"])
            // Some clients refuse an authority as a server.
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
            .arg(certificate.key())
            .arg("-out")
            .arg(certificate.path())
            .stderr(Stdio::null())
            .status()
            .context("openssl makes the certificates: install the package `openssl`")?;
        ensure!(made.success(), "openssl makes no certificate: {made}");
        Ok(certificate)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    /// Lets a peer serve with it, or trust it.
    pub fn give(&self, command: &mut Command) {
        command
            .env("TLS_CERTIFICATE", self.path())
            .env("TLS_KEY", self.key())
            .env("SSL_CERT_FILE", self.path())
            .env("NODE_EXTRA_CA_CERTS", self.path());
    }

    /// The Python SDK's server (uvicorn, asyncio: the cipher text is in memory).
    pub fn python(&self, words: &[&str]) -> Result<Server> {
        Server::prepared_python(words, |command| self.give(command))
    }

    /// The official one that has everything, on the TypeScript SDK (Node, whose binary has OpenSSL inside).
    fn everything(&self) -> Result<Server> {
        let preload = places::node_directory()?.join("https.cjs");
        Server::everything("streamableHttp", |command| {
            command.env("NODE_OPTIONS", format!("--require {}", preload.display()));
            self.give(command);
        })
    }

    /// The Python SDK's client (httpx, anyio).
    pub fn client(&self, server: &Server, sizes: &[usize], words: &[&str]) -> Result<Command> {
        let mut command = client(&server.secure_url("/mcp"), sizes, words)?;
        self.give(&mut command);
        Ok(command)
    }

    /// A client on Node's own `fetch`.
    fn node_client(&self, server: &Server, sizes: &[usize]) -> Result<Command> {
        self.script_client("node", server, sizes)
    }

    /// A client on the TypeScript SDK and the `fetch` of `runtime`.
    pub fn script_client(
        &self,
        runtime: impl AsRef<OsStr>,
        server: &Server,
        sizes: &[usize],
    ) -> Result<Command> {
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let mut command = Command::new(runtime);
        command
            .arg(places::node_directory()?.join("http_client.mjs"))
            .arg(server.secure_url("/mcp"))
            .arg(sizes.join(","));
        self.give(&mut command);
        Ok(command)
    }

    /// A client on OpenSSL's blocking calls, on the socket itself.
    fn blocking_client(&self, server: &Server, sizes: &[usize]) -> Result<Command> {
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let mut command = Command::new(places::python()?);
        command
            .arg(places::script("python/https_blocking.py")?)
            .arg(server.secure_url("/mcp"))
            .arg(sizes.join(","));
        self.give(&mut command);
        Ok(command)
    }
}

/// A tap with `tls` set so.
fn watching(tls: &str) -> Result<Tap> {
    Tap::configured(&format!("[capture]\ntls = {tls}\n"))
}

/// One that looks into processes one by one.
pub fn by_process() -> Result<Tap> {
    watching("true")
}

/// One that looks into every process.
pub fn machine_wide() -> Result<Tap> {
    watching("\"machine\"")
}

/// The sessions of these clients, one after another, each in order.
fn one_by_one(server: &Server, clients: Vec<Command>) -> Result<()> {
    one_after_another(by_process()?, server, clients)
}

#[test]
fn python_on_both_sides() -> Result<()> {
    let certificate = Certificate::new()?;
    let server = certificate.python(&[])?;
    let clients = [&[5][..], &[5, 300_000, 5], &[400_000, 5, 400_000]]
        .into_iter()
        .map(|sizes| certificate.client(&server, sizes, &[]))
        .collect::<Result<_>>()?;
    one_by_one(&server, clients)
}

#[test]
fn large_messages() -> Result<()> {
    let certificate = Certificate::new()?;
    let server = certificate.python(&["json"])?;
    let client = certificate.client(&server, &[5, 3 << 20], &[])?;
    one_by_one(&server, vec![client])
}

#[test]
fn node_on_both_sides() -> Result<()> {
    let certificate = Certificate::new()?;
    let server = certificate.everything()?;
    let clients = vec![
        certificate.client(&server, &[5, 200_000], &[])?,
        certificate.node_client(&server, &[5, 200_000, 5])?,
    ];
    one_by_one(&server, clients)?;
    let server = certificate.python(&["json"])?;
    let client = certificate.node_client(&server, &[5, 3 << 20, 5])?;
    one_by_one(&server, vec![client])
}

/// A client that connects a moment after it has mapped its library.
#[test]
fn blocking_calls() -> Result<()> {
    let certificate = Certificate::new()?;
    let server = certificate.python(&["json", "stateless"])?;
    let client = certificate.blocking_client(&server, &[5, 300_000, 2 << 20, 5])?;
    one_after_another(machine_wide()?, &server, vec![client])
}

/// The same, where it may be faster than the probes: then the server's end has all of it, and the socket's owner
/// is the client.
#[test]
fn blocking_calls_of_a_client_that_is_in_a_hurry() -> Result<()> {
    let certificate = Certificate::new()?;
    let server = certificate.python(&["json", "stateless"])?;
    let mut tap = by_process()?;
    let client = certificate.blocking_client(&server, &[5, 300_000, 2 << 20, 5])?;
    let mut truth = Talk::start(client)?.finish(SESSION)?;
    // There is one session of this server, so it can be told by that.
    let client = truth.client_pid;
    truth.server_pid = Some(server.pid());
    await_all(&mut tap, std::slice::from_ref(&truth));
    let capture = tap.finish()?.capture;
    in_order(&truth, &server, &capture)?;
    let mut messages = capture.messages.iter();
    let nameless = messages
        .find(|message| message.server_pid == Some(server.pid()) && message.client_pid != client);
    ensure!(nameless.is_none(), "without its client: {nameless:?}");
    Ok(())
}

/// A client on NSS. The server's end is of no help: Bun's library is not looked into.
fn nss(tap: Tap, words: &[&str]) -> Result<()> {
    let certificate = Certificate::new()?;
    let server = Server::start(|port| {
        let mut command = Command::new(places::bun()?);
        let script = places::node_directory()?.join("bun_server.mjs");
        command.arg(script).arg(port.to_string());
        certificate.give(&mut command);
        Ok(command)
    })?;
    let mut client = certificate.blocking_client(&server, &[5, 300_000, 2 << 20, 5])?;
    client.arg("nss").args(words);
    one_after_another(tap, &server, vec![client])
}

#[test]
fn nss_in_every_process() -> Result<()> {
    nss(machine_wide()?, &[])
}

#[test]
fn nss_in_one_process() -> Result<()> {
    // It takes a moment until the probes are there.
    nss(by_process()?, &["later"])
}

/// So many clients at once, each with calls at once, beside so many programs that only compute.
fn crowd(clients: usize, busy: usize) -> Result<()> {
    let certificate = Certificate::new()?;
    let server = certificate.python(&[])?;
    let tap = by_process()?;
    let _busy: Vec<Busy> = (0..busy).map(|_| Busy::start()).collect::<Result<_>>()?;
    let sizes = calls_of_a_crowd();
    let clients = (0..clients)
        .map(|_| certificate.client(&server, &sizes, &["together"]))
        .collect::<Result<_>>()?;
    all_at_once(tap, &server, clients)
}

#[test]
fn many_clients_over_many_connections() -> Result<()> {
    crowd(8, 0)
}

#[test]
fn on_a_busy_machine() -> Result<()> {
    crowd(3, 6)
}

#[test]
fn other_servers_are_not_reported() -> Result<()> {
    let certificate = Certificate::new()?;
    let files = tempfile::tempdir()?;
    std::fs::write(files.path().join("page.html"), "x".repeat(100_000))?;
    let web = Server::start(|port| {
        let mut command = Command::new(places::python()?);
        command
            .arg(places::script("python/https_pages.py")?)
            .arg(port.to_string())
            .current_dir(files.path());
        certificate.give(&mut command);
        Ok(command)
    })?;
    let server = certificate.python(&[])?;
    let mut tap = by_process()?;
    for _ in 0..20 {
        for words in [
            &[][..],
            &["--data", r#"{"jsonrpc":"2.0","id":1,"method":"eth_call"}"#],
        ] {
            let output = Command::new("curl")
                .args(["--silent", "--cacert"])
                .arg(certificate.path())
                .args(words)
                .arg(web.secure_url("/page.html"))
                .output()
                .context("curl loads the pages: install the package `curl`")?;
            ensure!(output.status.success(), "{output:?}");
        }
    }
    let talk = Talk::start(certificate.client(&server, &[5], &[])?)?;
    let truth = talk.finish(SESSION)?;
    await_all(&mut tap, std::slice::from_ref(&truth));
    let capture = tap.finish()?.capture;
    in_order(&truth, &server, &capture)?;
    let others = capture.messages.iter();
    let others: Vec<_> = others
        .filter(|message| message.server_pid == Some(web.pid()))
        .collect();
    ensure!(others.is_empty(), "{others:?}");
    Ok(())
}

#[test]
fn every_process_that_has_a_library() -> Result<()> {
    let certificate = Certificate::new()?;
    let server = certificate.python(&[])?;
    let client = certificate.client(&server, &[5, 300_000], &[])?;
    one_after_another(machine_wide()?, &server, vec![client])
}

/// How many links the tap has to a library of this process, by what the kernel says of them.
pub fn links(tap: &Tap, pid: u32) -> Result<usize> {
    let folder = format!("/proc/{}/fdinfo", tap.pid());
    let line = format!("pid:\t{pid}");
    let mut links = 0;
    for entry in std::fs::read_dir(folder)? {
        // It may be closed by now.
        let text = std::fs::read_to_string(entry?.path()).unwrap_or_default();
        if text.contains("uprobe_multi") && text.lines().any(|known| known == line) {
            links += 1;
        }
    }
    Ok(links)
}

fn is_attached(tap: &Tap, pid: u32) -> Result<bool> {
    Ok(links(tap, pid)? > 0)
}

/// Waits for probes in a process's library to come or go.
fn await_attached(tap: &Tap, pid: u32, attached: bool) -> Result<()> {
    let until = Instant::now() + BEHIND;
    while is_attached(tap, pid)? != attached {
        ensure!(Instant::now() < until, "attached: {}", !attached);
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Where more processes have a library than there is room for, probes come to those that need them; and the end does not
/// take long for all that.
#[test]
fn more_processes_than_there_is_room_for() -> Result<()> {
    const IDLE: &str = "import socket, ssl, sys\nheld = socket.socket()\nsys.stdin.read()";
    /// A process keeps its probes for so long at least.
    const GRACE: Duration = Duration::from_secs(10);
    let certificate = Certificate::new()?;
    let server = certificate.python(&[])?;
    let mut tap = by_process()?;
    let mut others = Vec::new();
    for _ in 0..80 {
        let mut other = Command::new(places::python()?);
        let other = other.args(["-I", "-S", "-c", IDLE]).stdin(Stdio::piped());
        others.push(other.spawn()?);
    }
    let attached = || {
        let mut others = others.iter();
        others.try_fold(0, |sum, other| {
            Ok::<_, anyhow::Error>(sum + usize::from(is_attached(&tap, other.id())?))
        })
    };
    let until = Instant::now() + BEHIND;
    while attached()? < 60 {
        ensure!(Instant::now() < until, "attached to {}", attached()?);
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(GRACE);
    let talk = Talk::start(certificate.client(&server, &[5, 300_000, 5], &[])?)?;
    let truth = talk.finish(SESSION)?;
    await_all(&mut tap, std::slice::from_ref(&truth));
    let capture = tap.finish()?.capture;
    for other in &mut others {
        drop(other.stdin.take());
        other.wait()?;
    }
    in_order(&truth, &server, &capture)
}

#[test]
fn a_process_that_calls_its_library_too_often_is_left_alone() -> Result<()> {
    let certificate = Certificate::new()?;
    let server = certificate.python(&[])?;
    let tap = by_process()?;
    await_attached(&tap, server.pid(), true)?;
    let mut command = Command::new(places::python()?);
    command
        .arg(places::script("python/https_busy.py")?)
        .stdin(Stdio::piped());
    certificate.give(&mut command);
    let mut busy = command.spawn()?;
    let verdict = await_attached(&tap, busy.id(), true)
        .context("in the beginning")
        .and_then(|()| await_attached(&tap, busy.id(), false));
    drop(busy.stdin.take());
    let ended = busy.wait()?;
    verdict?;
    ensure!(ended.success(), "{ended}");
    ensure!(is_attached(&tap, server.pid())?, "the quiet one as well");
    drop(server);
    tap.finish()?;
    Ok(())
}

/// What the manual says of capabilities, bits by `linux/capability.h`.
#[test]
fn no_thread_keeps_more_than_the_manual_says() -> Result<()> {
    const DAC_READ_SEARCH: u64 = 1 << 2;
    const KILL: u64 = 1 << 5;
    const SYS_PTRACE: u64 = 1 << 19;
    const BPF: u64 = 1 << 39;
    const LOOKING: u64 = SYS_PTRACE | DAC_READ_SEARCH;

    let tap = by_process()?;
    let mut threads = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{}/task", tap.pid()))? {
        let status = std::fs::read_to_string(entry?.path().join("status"))?;
        let value = |name: &str| -> Result<&str> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            Ok(line.with_context(|| format!("no {name}"))?.trim())
        };
        let name = value("Name:")?.to_owned();
        let kept = match name.as_str() {
            "libraries" => LOOKING,
            _ => LOOKING | KILL | BPF,
        };
        for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
            let bits = u64::from_str_radix(value(set)?, 16)?;
            ensure!(bits & !kept == 0, "{name}: {set} {bits:x}");
        }
        ensure!(value("CapInh:")? == "0000000000000000", "{status}");
        ensure!(value("NoNewPrivs:")? == "1", "{status}");
        threads.push(name);
    }
    ensure!(
        threads.iter().any(|name| name == "libraries"),
        "{threads:?}"
    );
    tap.finish()?;
    Ok(())
}

#[test]
fn it_can_be_turned_off() -> Result<()> {
    let certificate = Certificate::new()?;
    let server = certificate.python(&[])?;
    let tap = watching("false")?;
    Talk::start(certificate.client(&server, &[5], &[])?)?.finish(SESSION)?;
    // Nothing can show that nothing comes.
    std::thread::sleep(Duration::from_secs(1));
    let capture = tap.finish()?.capture;
    let reported = capture.messages.iter();
    let reported = reported.filter(|message| message.server_pid == Some(server.pid()));
    ensure!(reported.count() == 0, "reported all the same");
    Ok(())
}
