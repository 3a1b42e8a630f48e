//! smoke
use mcpinspectd::capture::*;
<<<<<<< HEAD
use mcpinspectd::discover::*;
use mcpinspectd::engine::Input;
use mcpinspectd::model::*;
use mcpinspectd::monitor::*;
use mcpinspectd::process::ServerIdentity;
use mcpinspectd::wire::framing::*;
use std::collections::HashMap;
#[derive(Default)]
struct F(HashMap<(SessionId, Direction), Framer>, bool);
impl Feed for F {
    fn input(&mut self, i: Input<'_>) {
        match i {
            Input::Bytes {
                session,
                direction,
                position,
                bytes,
                time,
            } => {
                let q = self.1;
                self.0
                    .entry((session.clone(), direction))
                    .or_insert_with(|| Framer::new(64 << 20))
                    .push(position, bytes, |f| match f {
                        Framed::Frame(f) => {
                            if !q {
                                println!(
                                    "{time} {session} {} {:5} gap={} {}",
                                    if direction == Direction::ClientToServer {
                                        "->"
                                    } else {
                                        "<-"
                                    },
                                    f.bytes.len(),
                                    f.gap_before,
                                    String::from_utf8_lossy(&f.bytes[..f.bytes.len().min(150)])
                                )
                            }
                        }
                        other => println!("{session} {other:?}"),
                    });
=======
fn main() {
    let (mut probes, ring) = Probes::load(&Options {
        ring_size: 16 << 20,
        sniff_budget: 1 << 20,
        btf: std::env::var_os("BTF").map(Into::into),
        diagnostics: false,
    })
    .unwrap_or_else(|e| panic!("{e}: {:#?}", e));
    let (drain, rx) = start(ring).unwrap();
    eprintln!("ready {:?}", probes.hook());
    let secs: u64 = std::env::args()
        .nth(1)
        .and_then(|s| s.parse().ok())
        .unwrap_or(3);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(secs);
    while std::time::Instant::now() < end {
        if let Ok(batch) = rx.recv_timeout(std::time::Duration::from_millis(100)) {
            for r in batch.records() {
                let (a, r) = decode(r).unwrap();
                let s = format!("{r:?}");
                println!("{} {}", a.tgid, &s[..s.len().min(260)]);
>>>>>>> h/core
            }
            other => println!("{other:?}"),
        }
    }
<<<<<<< HEAD
}
fn main() {
    let t = std::time::Instant::now();
    let mut m = Monitor::start(
        &MonitorOptions {
            probes: Options {
                ring_size: 16 << 20,
                sniff_budget: 256 << 10,
                btf: std::env::var_os("BTF").map(Into::into),
                diagnostics: false,
            },
            max_message: 64 << 20,
        },
        |p| {
            Machine::new(
                p,
                Box::new(|_| Policy::Sniff),
                Box::new(|s, _| ServerIdentity {
                    server_id: ServerId(s.map(|s| s.chain()).unwrap_or_default().into()),
                    fingerprint: String::new(),
                    name_source: String::new(),
                }),
            )
        },
    )
    .unwrap();
    eprintln!("ready {:?} {:?}", m.hook(), t.elapsed());
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let secs: u64 = std::env::args()
        .nth(1)
        .and_then(|s| s.parse().ok())
        .unwrap_or(3);
    let s2 = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_secs(secs));
        s2.store(true, std::sync::atomic::Ordering::SeqCst)
    });
    let mut f = F(HashMap::new(), std::env::var_os("QUIET").is_some());
    m.run(&stop, &mut f, |_| ());
    for l in m.ledger() {
        println!("{l:?}");
    }
    println!("{:?}", m.totals());
=======
    for s in mcpinspect_common::Stat::ALL {
        println!("{s:?} {}", probes.stat(s));
    }
    probes.detach();
    drain.stop();
    drop(rx);
    drain.join();
>>>>>>> h/core
}
