//! A fleet in ClickHouse: the same answers as from the files, and every entry once, whatever happens to the
//! loader and to the connection. With the oldest engine that is said to do, Debian's, and with a current one.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mcpinspect_tests::places::repository;
use serde_json::{Value, json};

mod entries;

use crate::support::{self, built};
use entries::{Numbers, collection};

const START: u64 = 1_760_000_000_000_000;
const NOW: &str = "2025-10-09T10:00:00Z";

fn fleet(arguments: &[&str]) -> Output {
    let mut command = Command::new(built("mcpinspect"));
    command.arg("fleet").args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

/// The report as JSON.
fn report(from: &[&str]) -> Value {
    let mut arguments = vec![
        "--json",
        "--now",
        NOW,
        "--silent-after=1h",
        "--new-within=1h",
    ];
    arguments.extend(from);
    let output = fleet(&arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(2), "{error}");
    serde_json::from_slice(&output.stdout).expect(&error)
}

/// A server of its own.
struct ClickHouse {
    child: Child,
    directory: tempfile::TempDir,
    port: u16,
}

impl ClickHouse {
    fn start() -> Self {
        support::require(&["/usr/sbin/clickhouse-server"]);
        let directory = tempfile::tempdir().unwrap();
        let ports: Vec<u16> = (0..2)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect::<Vec<_>>()
            .iter()
            .map(|listener| listener.local_addr().unwrap().port())
            .collect();
        let path = directory.path().display();
        let configuration = format!(
            "<yandex><logger><level>error</level><console>1</console></logger>\
             <http_port>{}</http_port><tcp_port>{}</tcp_port><listen_host>127.0.0.1</listen_host>\
             <path>{path}/data/</path><tmp_path>{path}/tmp/</tmp_path>\
             <mark_cache_size>16777216</mark_cache_size><users_config>users.xml</users_config>\
             <default_profile>default</default_profile><default_database>default</default_database></yandex>",
            ports[0], ports[1]
        );
        let users = "<yandex><profiles><default></default></profiles><users><default><password></password>\
             <networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota>\
             </default></users><quotas><default></default></quotas></yandex>";
        std::fs::write(directory.path().join("config.xml"), configuration).unwrap();
        std::fs::write(directory.path().join("users.xml"), users).unwrap();
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let child = Command::new("/usr/sbin/clickhouse-server")
            .arg("--config-file=config.xml")
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self {
            child,
            directory,
            port: ports[0],
        };
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", server.port)).is_err() {
            let log = || std::fs::read_to_string(server.directory.path().join("log"));
            assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// A current one.
    fn current() -> Self {
        let root = repository();
        let python = root.join("target/peers/clickhouse/bin/python");
        assert!(
            python.is_file(),
            "the Python package chdb-core-lite is missing: run `cargo xtask test`, which installs what tests need"
        );
        let directory = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let mut child = Command::new(python)
            .arg(root.join("tests/peers/clickhouse/server.py"))
            .arg(directory.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let log = std::fs::read_to_string(directory.path().join("log"));
        let port = line.trim().parse().unwrap_or_else(|_| panic!("{log:?}"));
        Self {
            child,
            directory,
            port,
        }
    }

    /// What it answers.
    fn ask(&self, question: &str) -> String {
        self.say(&format!("{question} FORMAT TabSeparated"))
    }

    /// Sends rows, as a shipper does.
    fn insert(&self, statement: &str, rows: &str) {
        let statement = statement.replace(' ', "%20");
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(
            stream,
            "POST /?query={statement} HTTP/1.1\r\nHost: clickhouse\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{rows}",
            rows.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// Carries out a statement.
    fn say(&self, question: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = "POST / HTTP/1.1\r\nHost: clickhouse\r\nConnection: close\r\nContent-Length:";
        write!(stream, "{head} {}\r\n\r\n{question}", question.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        // An old server sends its answers in chunks.
        let is_chunked = head.to_lowercase().contains("chunked");
        let mut lines = body.split("\r\n");
        match is_chunked {
            false => body.trim().to_owned(),
            true => {
                let mut whole = String::new();
                while lines.next().is_some_and(|size| size != "0") {
                    whole.push_str(lines.next().unwrap());
                }
                whole.trim().to_owned()
            }
        }
    }

    fn url(&self, database: &str) -> String {
        format!("http://127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for ClickHouse {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One fleet: files, a database, and a loader's state.
struct Workspace {
    directory: tempfile::TempDir,
    url: String,
}

impl Workspace {
    fn new(server: &ClickHouse, database: &str) -> Self {
        let workspace = Self {
            directory: tempfile::tempdir().unwrap(),
            url: server.url(database),
        };
        let made = fleet(&["schema", "--clickhouse", &workspace.url]);
        assert!(made.status.success(), "{made:?}");
        workspace
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The loader of these files.
    fn loader(&self, url: &str, files: &[PathBuf]) -> Command {
        self.loader_of("state", url, files)
    }

    /// One with a state of this name.
    fn loader_of(&self, state: &str, url: &str, files: &[PathBuf]) -> Command {
        let mut command = Command::new(built("mcpinspect"));
        command.args([
            "fleet",
            "load",
            "--clickhouse",
            url,
            "--memory=1",
            "--state",
        ]);
        command
            .arg(self.path(state))
            .arg("--temporary")
            .arg(self.directory.path());
        command
            .args(files)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    fn load(&self, files: &[PathBuf]) {
        let output = self.loader(&self.url, files).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    fn is_equal(&self, files: &[PathBuf]) {
        let names: Vec<&str> = files.iter().map(|path| path.to_str().unwrap()).collect();
        let (expected, loaded) = (report(&names), report(&["--clickhouse", &self.url]));
        assert_eq!(loaded, expected);
        // Neither is empty.
        assert!(!expected["servers"].as_array().unwrap().is_empty());
    }
}

#[test]
fn the_engine_gives_the_same_report_as_the_files() {
    equality(&ClickHouse::start(), 20);
}

#[test]
fn a_current_engine_gives_the_same_report_as_the_files() {
    equality(&ClickHouse::current(), 5);
}

fn equality(server: &ClickHouse, collections: u64) {
    for seed in 0..collections {
        let workspace = Workspace::new(server, &format!("fleet{seed}"));
        let files = [workspace.path("one"), workspace.path("other")];
        collection(&files[0], 2 * seed, 40 + seed * 20);
        collection(&files[1], 2 * seed + 1, 60);
        workspace.load(&files);
        workspace.is_equal(&files);
        // What is new since then, and then nothing.
        collection(&files[1], seed + 100, 50);
        workspace.load(&files);
        workspace.load(&files);
        workspace.is_equal(&files);
    }
}

/// A server and a tool that do not fit in memory at once are asked for in parts, and line by line.
fn large(server: &ClickHouse) {
    let workspace = Workspace::new(server, "large");
    let file = [workspace.path("journal")];
    let mut text = String::new();
    let mut line = |host: u64, event: &str, server: &str, tool: &str, number: u64| {
        let hash = match number % 7 {
            0 => format!("v{number}"),
            _ => format!("{number:064x}"),
        };
        let entry = json!({"_HOSTNAME": format!("host{host}"), "_MACHINE_ID": format!("{host:032x}"), "_UID": "0",
            "__REALTIME_TIMESTAMP": (START + (number * 31 + host * 7) % 9_000 * 1_000_000).to_string(),
            "MCPINSPECT_EVENT": event, "MCPINSPECT_SERVER": server, "MCPINSPECT_TOOL": tool, "MCPINSPECT_HASH": hash,
            "MCPINSPECT_FINGERPRINT": "f", "MCPINSPECT_DECISION": "approve",
            "MCPINSPECT_JSON": json!({"server_info": {"version": format!("{number}")}}).to_string()});
        text.push_str(&format!("{entry}\n"));
    };
    for host in 0..300 {
        for number in 0..30 {
            line(host, "mcp_tool_seen", "many", "definitions", number);
            line(host, "mcp_session_identified", "many", "", number);
            line(host, "mcp_tool_seen", "tools", &format!("tool{number}"), 5);
        }
        line(host, "mcp_tool_seen", "a", "read", 1);
        line(host, "mcp_tool_seen", "z", "read", 1);
        line(host, "mcp_session_started", "many", "", 1);
        if host % 3 == 0 {
            line(host, "mcp_policy", "many", "definitions", host % 30);
        }
    }
    std::fs::write(&file[0], text).unwrap();
    workspace.load(&file);
    let expected = report(&[file[0].to_str().unwrap()]);
    let servers = expected["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 4);
    assert!(servers.iter().all(|server| server["host_count"] == 300));
    for memory in ["--memory=1", "--memory=144"] {
        let loaded = report(&["--clickhouse", &workspace.url, memory]);
        assert!(loaded == expected, "{memory}");
    }
}

#[test]
fn what_does_not_fit_in_memory_is_asked_for_in_parts() {
    large(&ClickHouse::start());
}

#[test]
fn a_current_engine_is_asked_in_parts() {
    large(&ClickHouse::current());
}

/// Each event is one line, however often it was sent, and months go when they are old.
fn events(server: &ClickHouse) {
    let workspace = Workspace::new(server, "events");
    let file = workspace.path("journal");
    let entry = |month: u64, tool: &str, uid: &str| {
        let micros = START + month * 30 * 86_400_000_000;
        let entry = json!({"_HOSTNAME": "oslo", "_MACHINE_ID": "ab".repeat(16), "_UID": uid,
            "__REALTIME_TIMESTAMP": micros.to_string(), "MCPINSPECT_EVENT": "mcp_detection",
            "MCPINSPECT_SERVER": "notes", "MCPINSPECT_TOOL": tool, "MCPINSPECT_SEVERITY": "high"});
        format!("{entry}\n")
    };
    // More months than one part of an answer may have, one entry twice, and one that is forged.
    let mut text: String = (0..150).map(|month| entry(month, "read", "0")).collect();
    text.push_str(&entry(0, "read", "0"));
    text.push_str(&entry(0, "read", "1000"));
    text.push_str(&entry(149, "it's", "0"));
    std::fs::write(&file, text).unwrap();
    let load = |state: &str, more: &[&str]| {
        let mut loader = workspace.loader_of(state, &workspace.url, std::slice::from_ref(&file));
        let output = loader.args(more).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    load("one", &["--events"]);
    // Another loader sends the same once more.
    load("two", &["--events"]);
    let count = || server.ask("SELECT count(), uniqExact(toYYYYMM(time)) FROM events.events FINAL");
    assert_eq!(count(), "151\t147");
    let row = server.ask(
        "SELECT toUInt32(time), micros, machine, host, event, severity, server, tool = 'it\\'s' FROM events.events FINAL \
         ORDER BY micros DESC, tool LIMIT 1",
    );
    let micros = START + 149 * 30 * 86_400_000_000;
    let (second, machine) = (micros / 1_000_000, "ab".repeat(16));
    assert_eq!(
        row,
        format!("{second}\t{micros}\t{machine}\toslo\tmcp_detection\thigh\tnotes\t1")
    );
    // Most entries are of the future, and stay.
    let removed = load("one", &["--events", "--keep=0d"]);
    assert!(
        removed.contains("removed the events of 202510"),
        "{removed}"
    );
    let left = server.ask("SELECT toYYYYMM(min(time)) >= toYYYYMM(now()) FROM events.events FINAL");
    assert_eq!(left, "1");
}

#[test]
fn events_are_kept_once_and_removed_in_time() {
    events(&ClickHouse::start());
}

#[test]
fn a_current_engine_keeps_events_once_and_removes_them_in_time() {
    events(&ClickHouse::current());
}

/// What a shipper of whole entries put into the table is the collection, once.
fn shipped(server: &ClickHouse, formats: &[&str]) {
    let workspace = Workspace::new(server, "shipped");
    let file = workspace.path("journal");
    collection(&file, 7, 300);
    let text = std::fs::read_to_string(&file).unwrap();
    // A shipper reads entries that are whole.
    let mut lines: Vec<&str> = text
        .lines()
        .filter(|line| serde_json::from_str::<Value>(line).is_ok())
        .collect();
    lines.sort_unstable();
    lines.dedup();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let expected = report(&[file.to_str().unwrap()]);
    assert!(!expected["servers"].as_array().unwrap().is_empty());
    for format in formats {
        let rows: Vec<String> = lines
            .iter()
            .map(|line| match *format {
                "JSONEachRow" => json!({ "entry": line }).to_string(),
                _ => (*line).to_owned(),
            })
            .collect();
        server.insert(
            &format!("INSERT INTO shipped.journal (entry) FORMAT {format}"),
            &rows.join("\n"),
        );
        let entries =
            server.say("SELECT DISTINCT entry FROM shipped.journal FORMAT TabSeparatedRaw");
        let back = workspace.path("back");
        std::fs::write(&back, entries).unwrap();
        assert_eq!(report(&[back.to_str().unwrap()]), expected, "{format}");
    }
}

#[test]
fn entries_that_shippers_send_are_the_collection() {
    shipped(&ClickHouse::start(), &["JSONEachRow"]);
}

#[test]
fn a_current_engine_takes_entries_from_shippers() {
    // The second way sends everything once more.
    shipped(&ClickHouse::current(), &["JSONEachRow", "JSONAsString"]);
}

/// Tables of version 1 become those of this version, also if that is broken off and done again.
fn migration(server: &ClickHouse) {
    let columns =
        "key String, part String, server String, tool String, detail String, machine String";
    server.say("CREATE DATABASE old");
    server.say(&format!(
        "CREATE TABLE old.sights ({columns}, first AggregateFunction(min, UInt64), \
         last AggregateFunction(max, UInt64), said AggregateFunction(min, String), \
         newest AggregateFunction(max, String), service AggregateFunction(max, String), \
         event AggregateFunction(max, UInt64)) ENGINE = AggregatingMergeTree PARTITION BY tuple() \
         PRIMARY KEY key ORDER BY (key, part, server, tool, detail, machine)"
    ));
    server.say("CREATE TABLE old.schema (version UInt64) ENGINE = ReplacingMergeTree PARTITION BY tuple() ORDER BY version");
    let machine = "ab".repeat(16);
    let hash = "01".repeat(32);
    let seconds = START / 1_000_000;
    let host = format!("01{machine}00");
    for (key, part, tool, detail) in [
        (host.as_str(), "host", "", ""),
        ("02", "server", "", ""),
        ("03", "tool", "read", hash.as_str()),
        ("04", "tool", "write", ""),
        ("05", "version", "", "1.0"),
        ("06", "host_server", "", ""),
    ] {
        server.say(&format!(
            "INSERT INTO old.sights SELECT unhex('{key}'), '{part}', 'notes', '{tool}', '{detail}', '{machine}', \
             minState(toUInt64({START})), maxState(toUInt64({START})), minState(''), \
             maxState(concat(unhex('{START:016x}'), 'oslo')), maxState(''), maxState(toUInt64(0))"
        ));
    }
    server.say("INSERT INTO old.schema SELECT toUInt64(1)");
    let url = server.url("old");
    let output = fleet(&["--clickhouse", &url]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("mcpinspect fleet schema"), "{error}");
    for _ in 0..2 {
        let made = fleet(&["schema", "--clickhouse", &url]);
        assert!(made.status.success(), "{made:?}");
    }
    let rows = server.ask("SELECT tool, hash, host_id, toUInt32(first_seen), toUInt32(last_seen) FROM old.definitions ORDER BY tool");
    assert_eq!(
        rows,
        format!(
            "read\t{hash}\t{machine}\t{seconds}\t{seconds}\nwrite\t\t{machine}\t{seconds}\t{seconds}"
        )
    );
    assert_eq!(server.ask("SELECT host FROM old.hosts"), "oslo");
    assert_eq!(server.ask("SELECT version FROM old.versions"), "1.0");
    let left = "SELECT count() FROM system.tables WHERE database = 'old' AND name = 'sights'";
    assert_eq!(server.ask(left), "0");
    let report = report(&["--clickhouse", &url]);
    let server = &report["servers"][0];
    assert_eq!(server["server"], "notes");
    assert_eq!(server["versions"][0]["hosts"][0], "oslo");
    assert_eq!(server["tools"].as_array().unwrap().len(), 2, "{report:#}");
    assert_eq!(report["hosts"][0]["servers"], 1);
}

#[test]
fn tables_of_an_earlier_version_are_brought_up_to_date() {
    migration(&ClickHouse::start());
}

#[test]
fn a_current_engine_brings_tables_up_to_date() {
    migration(&ClickHouse::current());
}

/// Passes bytes on to a server, and cuts every connection after some of them.
fn cutting(port: u16, budget: &Arc<AtomicU64>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    let budget = Arc::clone(budget);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                continue;
            };
            let left = Arc::new(AtomicU64::new(budget.load(Ordering::Relaxed)));
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let left = Arc::clone(&left);
                std::thread::spawn(move || {
                    let mut bytes = [0; 512];
                    while let Ok(read @ 1..) = from.read(&mut bytes) {
                        let before = left.fetch_sub(read as u64, Ordering::Relaxed);
                        if before < read as u64 || to.write_all(&bytes[..read]).is_err() {
                            break;
                        }
                    }
                    let _ = from.shutdown(std::net::Shutdown::Both);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    own
}

#[test]
fn kills_and_cuts_lose_nothing_and_count_nothing_twice() {
    let server = ClickHouse::start();
    let workspace = Workspace::new(&server, "cut");
    let file = [workspace.path("journal")];
    let budget = Arc::new(AtomicU64::new(0));
    let cut = format!("http://127.0.0.1:{}/cut", cutting(server.port, &budget));
    let mut n = Numbers(77);
    let (mut killed, mut failed) = (0, 0);
    for round in 0..50 {
        collection(&file[0], 1_000 + round, 60);
        let mut loader = match round % 2 {
            0 => workspace.loader(&workspace.url, &file),
            _ => {
                budget.store(300 + n.below(60_000), Ordering::Relaxed);
                workspace.loader(&cut, &file)
            }
        };
        let mut child = loader
            .arg("--tries=1")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_millis(n.below(60)));
            let _ = child.kill();
        }
        let status = child.wait().unwrap();
        killed += u32::from(status.code().is_none());
        failed += u32::from(status.code() == Some(2));
    }
    assert!(killed > 2 && failed > 2, "{killed} kills, {failed} cuts");
    workspace.load(&file);
    workspace.is_equal(&file);
}

#[test]
fn a_database_without_tables_says_what_to_do() {
    let server = ClickHouse::start();
    let url = server.url("nothing");
    let output = fleet(&["--clickhouse", &url]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("mcpinspect fleet schema"), "{error}");
    let printed = fleet(&["schema", "--database=other"]);
    let printed = String::from_utf8_lossy(&printed.stdout);
    assert!(
        printed.contains("CREATE TABLE IF NOT EXISTS other.seen"),
        "{printed}"
    );
}
