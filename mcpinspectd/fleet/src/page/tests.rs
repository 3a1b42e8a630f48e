//! What is drawn when there is much, and that nothing on the page is other people's markup.

use std::collections::BTreeMap;

use mcpinspect_core::model::Timestamp;

use super::super::report::{Day, LeftOut, State};
use super::super::value::Losses;
use super::*;

const NOW: Timestamp = Timestamp(1_760_000_000_000_000_000);
const SETTINGS: Settings = Settings {
    now: Some(NOW),
    patience: u64::MAX,
    new_within: 3_600_000_000_000,
    list_max: 1_000,
};

fn host(name: &str, state: State) -> HostReport {
    HostReport {
        host: name.to_owned(),
        machine_id: "00".repeat(16),
        state,
        first_entry: NOW,
        last_entry: NOW,
        last_event: Some(NOW),
        servers: 1,
        alerts: BTreeMap::new(),
        alerts_per_day: 0,
        lost: Losses::default(),
        forged: 0,
    }
}

fn server(name: &str, hosts: &[String]) -> ServerReport {
    ServerReport {
        server: name.to_owned(),
        host_count: hosts.len() as u64,
        hosts: hosts.to_vec(),
        fingerprints: vec!["f".to_owned()],
        versions: Vec::new(),
        first_seen: NOW,
        first_host: hosts[0].clone(),
        is_new: false,
        last_seen: NOW,
    }
}

fn definition(hash: &str, hosts: &[String], days: &[(&str, u64)]) -> Definition {
    let days = days.iter().map(|(day, hosts)| Day {
        day: (*day).to_owned(),
        hosts: *hosts,
    });
    Definition {
        hash: Some(hash.to_owned()),
        host_count: hosts.len() as u64,
        hosts: hosts.to_vec(),
        since: NOW,
        first_host: hosts[0].clone(),
        is_new: false,
        approved: false,
        approved_count: 0,
        not_approved: Vec::new(),
        description: Some("<b>Adds</b>".to_owned()),
        changes: Vec::new(),
        spread: days.collect(),
    }
}

fn page(definitions: impl Fn(&[String]) -> Vec<Definition>) -> String {
    let mut page = Page::default();
    let mut names: Vec<String> = (0..200).map(|n| format!("host{n:03}")).collect();
    names.push("<i>zz".to_owned());
    for name in &names {
        let state = match name.starts_with('<') {
            true => State::Stopped,
            false => State::Watched,
        };
        page.host(host(name, state)).unwrap();
    }
    for (name, hosts) in [("everywhere", &names[..]), ("<u>once", &names[200..])] {
        page.server(server(name, hosts)).unwrap();
        let definitions = definitions(hosts);
        let agreed = definitions.len() < 2;
        let tool = "add".to_owned();
        page.tool(ToolReport {
            tool,
            agreed,
            definitions,
            not_told_apart: 0,
        })
        .unwrap();
        page.server_end(false).unwrap();
    }
    let summary = Summary {
        oldest: NOW,
        left_out: LeftOut {
            unreadable: 3,
            forged: 0,
        },
        ..Summary::default()
    };
    page.html(&summary, &SETTINGS, true)
}

#[test]
fn hosts_that_need_attention_are_drawn_first() {
    let page = page(|hosts| match hosts.len() {
        1 => vec![definition("aa", hosts, &[("2025-10-01", 1)])],
        _ => vec![
            definition(
                "aa",
                &hosts[..200],
                &[("2025-10-01", 150), ("2025-10-04", 50)],
            ),
            definition("bb", &hosts[200..], &[("2025-10-03", 1)]),
        ],
    });
    assert!(page.contains("MCP servers of 201 hosts"));
    // Of 201 hosts, 60 have a row, and the stopped one is first.
    let first = page.find("<text class=\"host bad\"").unwrap();
    assert!(first < page.find("<text class=\"host fine\"").unwrap());
    assert_eq!(page.matches("<text class=\"host").count(), 60);
    assert!(page.contains("Not drawn: 141 hosts that need less attention, 0 servers"));
    assert_eq!(page.matches("class=\"differs\"").count(), 1);
    // One line from the first to the last day, and one that begins between them.
    assert_eq!(page.matches("<svg class=\"spread\"").count(), 1);
    assert!(
        page.contains("d=\"M56 172 L56 52 L690 52 L690 12 L690 12\""),
        "{page}"
    );
    assert!(page.contains("M478 172 L478 172 L690 172"), "{page}");
    for markup in ["<i>", "<u>", "<b>Adds"] {
        assert!(!page.contains(markup), "{markup}");
    }
}

#[test]
fn what_all_see_alike_is_not_drawn() {
    let page = page(|hosts| vec![definition("aa", hosts, &[("2025-10-01", 1)])]);
    assert!(page.contains("All hosts see the same definitions"));
    assert!(!page.contains("<svg class=\"spread\""));
    assert!(page.contains("<dt>unreadable entries</dt><dd>3</dd>"));
}
