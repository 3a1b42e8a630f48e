//! smoke
use mcpinspectd::capture::*;
fn main() {
    let (mut probes, ring) = Probes::load(&Options { ring_size: 16 << 20, sniff_budget: 1 << 20, btf: std::env::var_os("BTF").map(Into::into), diagnostics: false }).unwrap_or_else(|e| panic!("{e}: {:#?}", e));
    let (drain, rx) = start(ring).unwrap();
    eprintln!("ready {:?}", probes.hook());
    let secs: u64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(3);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(secs);
    while std::time::Instant::now() < end {
        if let Ok(batch) = rx.recv_timeout(std::time::Duration::from_millis(100)) {
            for r in batch.records() {
                let (a, r) = decode(r).unwrap();
                let s = format!("{r:?}");
                println!("{} {}", a.tgid, &s[..s.len().min(260)]);
            }
        }
    }
    for s in mcpinspect_common::Stat::ALL { println!("{s:?} {}", probes.stat(s)); }
    probes.detach(); drain.stop(); drop(rx); drain.join();
}
