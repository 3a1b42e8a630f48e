//! Which processes are a server's own: decided on plain values, without touching any.
//!
//! A client can connect its end of a session to any process that accepts connections, so it proves
//! nothing that a process reads the session's stream and answers. A process is the server's own if it
//! was started with both of the session's streams, or descends from such a process or from the client,
//! and runs as the client's user.

use std::collections::{BTreeSet, HashMap, HashSet};

use mcpinspect_core::model::{Pid, Process, ServerSide};
use mcpinspect_process::ProcessRow;

/// Longest chain of parents to follow.
const GENERATIONS_MAX: usize = 64;

/// A server in one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The server's process.
    pub server: Process,
    /// The client's process, if known.
    pub client: Option<Process>,
    /// What was started as the server.
    pub side: ServerSide,
}

/// What to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The server's own processes, parents before children.
    pub processes: Vec<Process>,
    /// The server's control group, if everything in it is the server's own.
    pub cgroup: Option<String>,
    /// Processes among them that run as another user, and are left alone.
    pub of_others: Vec<Process>,
}

/// Why a server is left alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The process is gone; another one may have its number now.
    #[error("process {0} has ended")]
    Gone(Pid),
    /// Stopping it would stop something other than a server.
    #[error("process {0} is {1}; it is never stopped")]
    Never(Pid, &'static str),
    /// It may be any process that the client connected its streams to.
    #[error("process {0} answers in the session, but was not started as its server")]
    NotStarted(Pid),
}

/// Decides what belongs to `target`. `own` is the process that asks; it, what it runs under, and
/// the `clients` of any session are spared.
///
/// # Errors
/// The server is gone, or is one of those that are spared.
pub fn plan(
    rows: &[ProcessRow],
    target: &Target,
    clients: &[Process],
    own: Pid,
) -> Result<Plan, Refusal> {
    let by_pid: HashMap<Pid, &ProcessRow> = rows.iter().map(|row| (row.pid, row)).collect();
    let is_there = |process: Process| {
        by_pid
            .get(&process.pid)
            .is_some_and(|row| row.start_time == process.start_time)
    };
    if !is_there(target.server) {
        return Err(Refusal::Gone(target.server.pid));
    }
    let clients: HashSet<Pid> = clients
        .iter()
        .chain(&target.client)
        .filter(|client| is_there(**client))
        .map(|client| client.pid)
        .collect();
    let above_us: HashSet<Pid> = ancestors(&by_pid, own).into_iter().collect();
    let spared = |pid: Pid| match pid {
        Pid(0 | 1) => Some("the system's first process"),
        pid if pid == own => Some("this program itself"),
        pid if above_us.contains(&pid) => Some("what this program runs under"),
        pid if clients.contains(&pid) => Some("a client"),
        _ => None,
    };
    if let Some(what) = spared(target.server.pid) {
        return Err(Refusal::Never(target.server.pid, what));
    }

    let client = target.client.map(|client| client.pid);
    let client = client.filter(|pid| clients.contains(pid));
    let above = ancestors(&by_pid, target.server.pid);
    let was_started = |pid: Pid| {
        let launched = &target.side.launched;
        launched.iter().any(|one| one.pid == pid && is_there(*one))
    };
    let is_its_own = was_started(target.server.pid)
        || above
            .iter()
            .any(|pid| was_started(*pid) || Some(*pid) == client);
    if !is_its_own {
        return Err(Refusal::NotStarted(target.server.pid));
    }
    let top = top(&above, target.server.pid, client, &spared);
    let processes = below(rows, &by_pid, top, &spared);
    let uid = |pid: Pid| by_pid.get(&pid).map(|row| row.uid);
    let user = client.and_then(uid).or_else(|| uid(target.server.pid));
    // Root may start a server as any user.
    let is_of_user = |process: &Process| user == Some(0) || uid(process.pid) == user;
    let (processes, of_others): (Vec<_>, Vec<_>) = processes.into_iter().partition(is_of_user);
    let cgroup = own_cgroup(rows, &by_pid, target.server.pid, &processes);
    Ok(Plan {
        processes,
        cgroup,
        of_others,
    })
}

/// The ancestors of a process from the parent upwards. A parent that is younger than its child shares
/// only its number with the real one.
fn ancestors(by_pid: &HashMap<Pid, &ProcessRow>, pid: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut child = by_pid.get(&pid);
    while let Some(row) = child {
        child = by_pid
            .get(&row.parent)
            .filter(|parent| parent.start_time <= row.start_time);
        match child {
            Some(parent) if found.len() < GENERATIONS_MAX => found.push(parent.pid),
            _ => break,
        }
    }
    found
}

/// The outermost launcher of the server below its client, given the server's ancestors; the server itself
/// if the client is not among them, as it is then unknown where the launchers end.
fn top(
    chain: &[Pid],
    server: Pid,
    client: Option<Pid>,
    spared: &impl Fn(Pid) -> Option<&'static str>,
) -> Pid {
    let launchers = match chain.iter().position(|pid| Some(*pid) == client) {
        Some(at) => &chain[..at],
        None => &[],
    };
    match launchers.iter().position(|pid| spared(*pid).is_some()) {
        // Something in between is spared: what is above it does not belong to the server alone.
        Some(0) => server,
        Some(at) => launchers[at - 1],
        None => launchers.last().copied().unwrap_or(server),
    }
}

/// `top` and everything below it, parents first, without the spared ones and what is below them.
fn below(
    rows: &[ProcessRow],
    by_pid: &HashMap<Pid, &ProcessRow>,
    top: Pid,
    spared: &impl Fn(Pid) -> Option<&'static str>,
) -> Vec<Process> {
    let mut children: HashMap<Pid, Vec<&ProcessRow>> = HashMap::new();
    for row in rows {
        children.entry(row.parent).or_default().push(row);
    }
    let mut found = Vec::new();
    let mut seen = HashSet::from([top]);
    let mut next = vec![top];
    while let Some(pid) = next.pop() {
        let Some(row) = by_pid.get(&pid) else {
            continue;
        };
        if row.state != 'Z' {
            found.push(Process {
                pid,
                start_time: row.start_time,
            });
        }
        for child in children.get(&pid).into_iter().flatten() {
            let is_its_child = child.start_time >= row.start_time;
            if is_its_child && spared(child.pid).is_none() && seen.insert(child.pid) {
                next.push(child.pid);
            }
        }
    }
    found
}

/// The server's control group, if everything in it and below it is among `processes`.
fn own_cgroup(
    rows: &[ProcessRow],
    by_pid: &HashMap<Pid, &ProcessRow>,
    server: Pid,
    processes: &[Process],
) -> Option<String> {
    let cgroup = by_pid.get(&server)?.cgroup.as_deref()?;
    // The root cannot be frozen, and what is above our own root is not ours to name.
    if cgroup == "/" || !cgroup.starts_with('/') || cgroup.split('/').any(|part| part == "..") {
        return None;
    }
    let ours: BTreeSet<Pid> = processes.iter().map(|process| process.pid).collect();
    let alone = rows
        .iter()
        .filter(|row| row.state != 'Z' && is_in(row, cgroup))
        .all(|row| ours.contains(&row.pid));
    alone.then(|| cgroup.to_owned())
}

/// Whether a process is in a control group or below it.
pub(super) fn is_in(row: &ProcessRow, cgroup: &str) -> bool {
    let path = row.cgroup.as_deref().unwrap_or("/");
    path.strip_prefix(cgroup)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: Pid = Pid(90);
    const USER: u32 = 1000;

    /// pid, parent, cgroup; each starts when its number says.
    fn rows(processes: &[(u32, u32, &str)]) -> Vec<ProcessRow> {
        let row = |&(pid, parent, cgroup): &(u32, u32, &str)| ProcessRow {
            pid: Pid(pid),
            parent: Pid(parent),
            start_time: u64::from(pid),
            uid: USER,
            state: 'S',
            cgroup: Some(cgroup.to_owned()),
        };
        processes.iter().map(row).collect()
    }

    fn process(pid: u32) -> Process {
        Process {
            pid: Pid(pid),
            start_time: u64::from(pid),
        }
    }

    fn target(server: u32, client: Option<u32>) -> Target {
        Target {
            server: process(server),
            client: client.map(process),
            side: started(&[server]),
        }
    }

    /// What these processes are started as.
    fn started(launched: &[u32]) -> ServerSide {
        ServerSide {
            launched: launched.iter().copied().map(process).collect(),
            ..ServerSide::default()
        }
    }

    fn pids(plan: &Plan) -> Vec<u32> {
        let mut pids: Vec<_> = plan.processes.iter().map(|process| process.pid.0).collect();
        pids.sort_unstable();
        pids
    }

    /// init → editor(10) → npx(20) → sh(21) → server(22) → helper(23); the daemon under systemd.
    fn desktop(server_group: &str) -> Vec<ProcessRow> {
        rows(&[
            (1, 0, "/init.scope"),
            (10, 1, "/app.slice/editor.scope"),
            (11, 10, "/app.slice/editor.scope"),
            (20, 10, server_group),
            (21, 20, server_group),
            (22, 21, server_group),
            (23, 22, server_group),
            (90, 1, "/system.slice/mcpinspectd.service"),
        ])
    }

    #[test]
    fn launchers_below_the_client_and_children_belong_to_it() {
        let plan = plan(
            &desktop("/app.slice/editor.scope"),
            &target(22, Some(10)),
            &[],
            OWN,
        )
        .unwrap();
        assert_eq!(pids(&plan), [20, 21, 22, 23]);
        assert_eq!(plan.processes[0].pid, Pid(20), "parents first");
        assert_eq!(plan.cgroup, None, "the client is in the same group");
    }

    #[test]
    fn a_group_of_its_own_is_taken_as_a_whole() {
        let table = desktop("/app.slice/server.scope");
        let own = plan(&table, &target(22, Some(10)), &[], OWN).unwrap();
        assert_eq!(own.cgroup.as_deref(), Some("/app.slice/server.scope"));
        let mut shared = table.clone();
        shared.extend(rows(&[(50, 1, "/app.slice/server.scope/below")]));
        let shared = plan(&shared, &target(22, Some(10)), &[], OWN).unwrap();
        assert_eq!(shared.cgroup, None, "somebody else is below it");
        let mut beside = table;
        beside.extend(rows(&[(50, 1, "/app.slice/server.scope2")]));
        let beside = plan(&beside, &target(22, Some(10)), &[], OWN).unwrap();
        assert!(beside.cgroup.is_some(), "another name that begins alike");
    }

    #[test]
    fn the_root_group_and_what_is_above_ours_are_nobodys_own() {
        for group in ["/", "/../../other", "nothing"] {
            let plan = plan(&desktop(group), &target(22, Some(10)), &[], OWN).unwrap();
            assert_eq!((pids(&plan).len(), plan.cgroup), (4, None), "{group}");
        }
    }

    #[test]
    fn without_a_client_above_it_the_launchers_are_left_alone() {
        let table = desktop("/x");
        for client in [None, Some(11), Some(77)] {
            let plan = plan(&table, &target(22, client), &[], OWN).unwrap();
            assert_eq!(pids(&plan), [22, 23], "{client:?}");
        }
    }

    #[test]
    fn the_spared_are_spared() {
        let table = desktop("/x");
        let never = |server, clients: &[Process]| {
            plan(&table, &target(server, None), clients, OWN).unwrap_err()
        };
        assert!(matches!(never(1, &[]), Refusal::Never(Pid(1), _)));
        assert!(matches!(never(90, &[]), Refusal::Never(Pid(90), _)));
        assert!(matches!(
            never(10, &[process(10)]),
            Refusal::Never(Pid(10), "a client")
        ));
        // A server that has a client below it, and that client its own children.
        let mut table = desktop("/x");
        table.extend(rows(&[(30, 22, "/x"), (31, 30, "/x")]));
        let plan = plan(&table, &target(22, Some(10)), &[process(30)], OWN).unwrap();
        assert_eq!((pids(&plan), plan.cgroup), (vec![20, 21, 22, 23], None));
    }

    #[test]
    fn a_daemon_below_a_server_keeps_its_own_line() {
        let table = rows(&[
            (1, 0, "/"),
            (10, 1, "/x"),
            (20, 10, "/x"),
            (30, 20, "/x"),
            (90, 30, "/x"),
        ]);
        let server = plan(&table, &target(20, Some(10)), &[], OWN);
        assert!(matches!(server, Err(Refusal::Never(Pid(20), _))));
        let mut table = table;
        table.extend(rows(&[(40, 10, "/x")]));
        assert_eq!(
            pids(&plan(&table, &target(40, Some(10)), &[], OWN).unwrap()),
            [40]
        );
    }

    #[test]
    fn another_process_of_the_same_number_is_not_meant() {
        let table = desktop("/x");
        let mut other = target(22, Some(10));
        other.server.start_time += 1;
        assert_eq!(plan(&table, &other, &[], OWN), Err(Refusal::Gone(Pid(22))));
        let mut other = target(22, Some(10));
        other.client = Some(Process {
            pid: Pid(10),
            start_time: 9999,
        });
        // The client is gone and another process has its number: it is unknown where the launchers end.
        assert_eq!(pids(&plan(&table, &other, &[], OWN).unwrap()), [22, 23]);
        // A child that is older than its parent is not its child.
        let mut table = desktop("/x");
        table.extend(rows(&[(5, 22, "/x")]));
        assert_eq!(
            pids(&plan(&table, &target(22, Some(10)), &[], OWN).unwrap()),
            [20, 21, 22, 23]
        );
    }

    #[test]
    fn a_process_that_was_only_connected_to_is_left_alone() {
        let mut table = desktop("/x");
        table.extend(rows(&[(5, 1, "/system.slice/other.service")]));
        let side = |launched: &[u32]| Target {
            side: started(launched),
            ..target(5, Some(10))
        };
        for launched in [&[][..], &[20, 22], &[77]] {
            let refused = plan(&table, &side(launched), &[], OWN);
            assert_eq!(refused, Err(Refusal::NotStarted(Pid(5))), "{launched:?}");
        }
        // It descends from the client, or from what was started with the streams.
        let mut below_client = target(22, Some(10));
        below_client.side = ServerSide::default();
        assert!(plan(&table, &below_client, &[], OWN).is_ok());
        let mut below_launcher = target(22, None);
        below_launcher.side = started(&[20]);
        assert!(plan(&table, &below_launcher, &[], OWN).is_ok());
        // The number of a launcher that is gone makes no process its child.
        below_launcher.side.launched[0].start_time += 1;
        let refused = plan(&table, &below_launcher, &[], OWN);
        assert_eq!(refused, Err(Refusal::NotStarted(Pid(22))));
    }

    #[test]
    fn processes_of_another_user_are_left_alone() {
        let mut table = desktop("/app.slice/server.scope");
        let user_of = |table: &mut Vec<ProcessRow>, pid: u32, uid: u32| {
            let row = table.iter_mut().find(|row| row.pid == Pid(pid));
            row.unwrap().uid = uid;
        };
        user_of(&mut table, 23, 0);
        let of_user = plan(&table, &target(22, Some(10)), &[], OWN).unwrap();
        assert_eq!(pids(&of_user), [20, 21, 22]);
        assert_eq!(of_user.of_others, [process(23)]);
        assert_eq!(of_user.cgroup, None, "it holds another user's process");
        user_of(&mut table, 10, 0);
        let of_root = plan(&table, &target(22, Some(10)), &[], OWN).unwrap();
        assert_eq!((pids(&of_root).len(), of_root.of_others.len()), (4, 0));
    }

    proptest! {
        /// Whatever the table looks like, loops included, the spared are never in a plan.
        #[test]
        fn never_the_wrong_ones(
            parents in prop::collection::vec((0u32..40, 0u64..40), 1..40),
            server in 0u32..40, client in 0u32..40, own in 0u32..40,
        ) {
            let table: Vec<ProcessRow> = parents.iter().enumerate().map(|(pid, (parent, start))| ProcessRow {
                pid: Pid(u32::try_from(pid).unwrap()),
                parent: Pid(*parent),
                start_time: *start,
                uid: USER,
                state: 'S',
                cgroup: Some(format!("/{}", parent % 3)),
            }).collect();
            let of = |pid: u32| table.get(pid as usize).map(|row| Process { pid: row.pid, start_time: row.start_time });
            let (Some(server), Some(client)) = (of(server), of(client)) else { return Ok(()) };
            let side = ServerSide { launched: vec![server], ..ServerSide::default() };
            let target = Target { server, client: Some(client), side };
            if let Ok(plan) = plan(&table, &target, &[], Pid(own)) {
                let found: HashSet<u32> = plan.processes.iter().map(|process| process.pid.0).collect();
                prop_assert!(found.contains(&server.pid.0));
                for never in [0, 1, own, client.pid.0] {
                    prop_assert!(!found.contains(&never));
                }
                if let Some(cgroup) = plan.cgroup {
                    prop_assert!(table.iter().filter(|row| is_in(row, &cgroup)).all(|row| found.contains(&row.pid.0)));
                }
            }
        }
    }
}
