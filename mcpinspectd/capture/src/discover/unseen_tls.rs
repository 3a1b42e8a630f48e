//! Processes that use an unsupported TLS library.
//!
//! Most have nothing to do with MCP: browsers, package managers. One that does is reported, even if that shows
//! only later. It shows if the process is seen to speak MCP in another way, or if it is a client whose
//! configuration lists a server elsewhere, and it connects to that server's host.

use mcpinspect_core::model::BootTime;

use super::environment::UnseenLibrary;
use super::recent_processes::RecentProcesses;

/// Hosts to remember of a process, the latest ones.
const HOSTS_MAX: usize = 8;

/// The processes not reported yet.
#[derive(Debug, Default)]
pub struct UnseenTls {
    libraries: RecentProcesses<UnseenLibrary>,
    /// The hosts that processes have connected to over TLS; this is known before their library is.
    hosts: RecentProcesses<Vec<String>>,
}

impl UnseenTls {
    /// Notes a process that uses such a library.
    pub fn add(&mut self, unseen: UnseenLibrary, now: BootTime) {
        self.libraries.add(unseen.pid, unseen, now);
    }

    /// Notes that a process has connected to a host.
    pub fn connects(&mut self, pid: u32, host: String, now: BootTime) {
        match self.hosts.get_mut(pid) {
            Some(hosts) if hosts.contains(&host) => {}
            Some(hosts) => {
                if hosts.len() >= HOSTS_MAX {
                    hosts.remove(0);
                }
                hosts.push(host);
            }
            None => self.hosts.add(pid, vec![host], now),
        }
    }

    /// A process begins its first TLS connection: what was known about an earlier one with its number is void.
    pub fn begins(&mut self, pid: u32) {
        self.hosts.remove(pid);
    }

    /// Removes the processes that are to be reported. Returns each with the host of a server that it has connected
    /// to, if one is known. `is_party`: whether a process was seen to speak MCP.
    pub fn take_due(
        &mut self,
        mut is_party: impl FnMut(u32) -> bool,
    ) -> Vec<(UnseenLibrary, Option<String>)> {
        let mut due = Vec::new();
        for pid in self.libraries.pids() {
            let host = self.server_of(pid);
            if (host.is_some() || is_party(pid))
                && let Some(unseen) = self.libraries.remove(pid)
            {
                due.push((unseen, host));
            }
        }
        due
    }

    /// A server that a process's configuration lists and whose host it has connected to.
    fn server_of(&self, pid: u32) -> Option<String> {
        let unseen = self.libraries.get(pid)?;
        let mut hosts = self.hosts.get(pid)?.iter();
        hosts.find(|host| unseen.servers.contains(host)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unseen(pid: u32, servers: &[&str]) -> UnseenLibrary {
        UnseenLibrary {
            pid,
            started: 0,
            found: String::new(),
            servers: servers.iter().map(|&server| server.to_owned()).collect(),
        }
    }

    fn due(unseen: &mut UnseenTls, parties: &[u32]) -> Vec<(u32, Option<String>)> {
        let due = unseen.take_due(|pid| parties.contains(&pid)).into_iter();
        due.map(|(unseen, host)| (unseen.pid, host)).collect()
    }

    #[test]
    fn one_that_connects_to_a_configured_server_is_due_once() {
        let mut tls = UnseenTls::default();
        tls.connects(1, "mcp.example".to_owned(), BootTime(0));
        tls.connects(2, "other.example".to_owned(), BootTime(0));
        tls.add(unseen(1, &["mcp.example"]), BootTime(1));
        tls.add(unseen(2, &["mcp.example"]), BootTime(1));
        tls.add(unseen(3, &["mcp.example"]), BootTime(1));
        let expected = Some("mcp.example".to_owned());
        assert_eq!(due(&mut tls, &[]), [(1, expected.clone())]);
        tls.connects(2, "mcp.example".to_owned(), BootTime(2));
        assert_eq!(due(&mut tls, &[]), [(2, expected)]);
        assert_eq!(due(&mut tls, &[1, 2, 3]), [(3, None)]);
    }

    #[test]
    fn a_new_process_has_not_connected_to_what_an_earlier_one_did() {
        let mut tls = UnseenTls::default();
        tls.connects(1, "mcp.example".to_owned(), BootTime(0));
        tls.begins(1);
        tls.add(unseen(1, &["mcp.example"]), BootTime(1));
        assert_eq!(due(&mut tls, &[]), []);
    }

    #[test]
    fn the_latest_hosts_count() {
        let mut tls = UnseenTls::default();
        for number in 0..100 {
            tls.connects(1, format!("{number}.example"), BootTime(0));
        }
        tls.add(unseen(1, &["0.example"]), BootTime(1));
        assert_eq!(due(&mut tls, &[]), []);
        tls.add(unseen(1, &["99.example"]), BootTime(1));
        assert_eq!(due(&mut tls, &[]).len(), 1);
    }
}
