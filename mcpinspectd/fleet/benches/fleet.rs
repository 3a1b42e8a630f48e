//! How fast journals of a fleet are read and compared, and how much memory that takes.
//!
//! `cargo bench -p mcpinspectd --bench fleet`. Each of `HOSTS` (500) lists `TOOLS` (50) tools of each of
//! `SERVERS` (20) servers, one entry a tool, as the daemon writes it. With `PACKED`, the collection is
//! compressed, for more entries than the disk has room for. `FLEET_DIRECTORY` is where it is made.
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run has nothing to measure"
)]

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use mcpinspect_fleet::collect::{Input, Options, Progress, collect};
use mcpinspect_fleet::report::{
    AlertReport, DecisionReport, HostReport, Output, ServerReport, Settings, ToolReport, report,
};

/// What the daemon's own JSON of an event about a tool looks like, as a field of an entry.
const JSON: &str = r#"{\"type\":\"mcp_tool_seen\",\"timestamp\":\"2026-11-22T05:08:11.000000Z\",\"session_id\":\"199c82cc000-7\",\"server_id\":\"notes\",\"server_type\":\"stdio\",\"tool_name\":\"read\",\"description\":\"Reads a note and returns its text. Notes are found by their title or by a word in them.\",\"status\":\"new\",\"detections\":[],\"max_severity\":null,\"pinned\":true}"#;

/// Counts what is reported.
#[derive(Default)]
struct Count {
    hosts: u64,
    tools: u64,
    differences: u64,
}

impl Output for Count {
    fn host(&mut self, _: HostReport) -> io::Result<()> {
        self.hosts += 1;
        Ok(())
    }

    fn server(&mut self, _: ServerReport) -> io::Result<()> {
        Ok(())
    }

    fn tool(&mut self, tool: ToolReport) -> io::Result<()> {
        self.tools += 1;
        self.differences += u64::from(!tool.agreed);
        Ok(())
    }

    fn server_end(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn decision(&mut self, _: DecisionReport) -> io::Result<()> {
        Ok(())
    }

    fn alert(&mut self, _: AlertReport) -> io::Result<()> {
        Ok(())
    }
}

fn main() {
    let (hosts, servers, tools) = (
        number("HOSTS", 500),
        number("SERVERS", 20),
        number("TOOLS", 50),
    );
    let entries = hosts * servers * tools;
    let place = std::env::var_os("FLEET_DIRECTORY").unwrap_or_else(|| "/var/tmp".into());
    let folder = tempfile::tempdir_in(place).unwrap();
    let path = folder.path().join("journal");
    let file = BufWriter::new(File::create(&path).unwrap());
    if std::env::var_os("PACKED").is_some() {
        let mut packed = zstd::stream::write::Encoder::new(file, 1).unwrap();
        make(&mut packed, hosts, servers, tools).unwrap();
        packed.finish().unwrap().flush().unwrap();
    } else {
        let mut file = file;
        make(&mut file, hosts, servers, tools).unwrap();
        file.flush().unwrap();
    }
    println!("{hosts} hosts × {servers} servers × {tools} tools = {entries} entries");
    read(&path, folder.path(), entries);
}

fn read(path: &Path, temporary: &Path, entries: u64) {
    let options = Options {
        temporary: temporary.to_owned(),
        ..Options::default()
    };
    let start = Instant::now();
    let inputs = vec![Input::File(path.to_owned())];
    let collected = collect(inputs, None, &options, &Progress::default()).unwrap();
    let read = start.elapsed();
    let settings = Settings {
        now: None,
        patience: u64::MAX,
        new_within: 0,
        list_max: 1_000,
    };
    let mut count = Count::default();
    let begin = Instant::now();
    report(|| Ok(collected.rows.rows()), &settings, &mut count).unwrap();
    println!(
        "read in {:.1} s, {:.0} entries a second; reported in {:.1} s: {} hosts, {} tools, {} of them different",
        read.as_secs_f64(),
        entries as f64 / read.as_secs_f64(),
        begin.elapsed().as_secs_f64(),
        count.hosts,
        count.tools,
        count.differences,
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    println!(
        "memory at its peak: {}",
        peak.trim_start_matches("VmHWM:").trim()
    );
}

/// Writes a collection in the order in which hosts send it: host by host.
fn make(out: &mut impl Write, hosts: u64, servers: u64, tools: u64) -> io::Result<()> {
    for host in 0..hosts {
        for server in 0..servers {
            for tool in 0..tools {
                // One host in a hundred sees something else.
                let other = u64::from(host % 100 == 7 && tool == 3);
                let hash = (server * tools + tool) * 2 + other;
                let time = 1_760_000_000_000_000 + host * 1_000 + tool;
                writeln!(
                    out,
                    "{{\"__CURSOR\":\"s=0;i={host:x};b=0;m=0;t=0;x=0\",\"__REALTIME_TIMESTAMP\":\"{time}\",\
                     \"__MONOTONIC_TIMESTAMP\":\"77\",\"_BOOT_ID\":\"b0\",\"_TRANSPORT\":\"journal\",\
                     \"_HOSTNAME\":\"host{host}\",\"_MACHINE_ID\":\"{host:032x}\",\"_UID\":\"0\",\"_PID\":\"812\",\
                     \"_COMM\":\"mcpinspectd\",\"SYSLOG_IDENTIFIER\":\"mcpinspectd\",\"PRIORITY\":\"6\",\
                     \"MESSAGE_ID\":\"872b669e62594390ba02ae62562675de\",\"MCPINSPECT_EVENT\":\"mcp_tool_seen\",\
                     \"MCPINSPECT_SERVER\":\"server{server}\",\"MCPINSPECT_TOOL\":\"tool{tool}\",\
                     \"MCPINSPECT_HASH\":\"{hash:064x}\",\"MCPINSPECT_STATUS\":\"new\",\"MCPINSPECT_JSON\":\"{JSON}\"}}"
                )?;
            }
        }
    }
    Ok(())
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}
