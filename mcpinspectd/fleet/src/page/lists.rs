//! The page's tables.

use mcpinspect_core::html::{Text, put};

use super::super::digest::{DefinitionEntry, Digest, Truncated};
use super::super::report::{FindingReport, HostReport, State, Summary};
use super::words::{counted, minute, named, short, word};

/// Kinds of alerts to list.
const KINDS: usize = 100;

/// Says how many rows of a list are left out.
pub(super) fn more<T>(list: &Truncated<T>, out: &mut String) {
    if list.more() > 0 {
        put!(
            out,
            "<p class=\"note\">… and {} more; --json has them</p>\n",
            list.more()
        );
    }
}

pub(super) fn hosts(hosts: &Truncated<HostReport>, out: &mut String) {
    if hosts.count == 0 {
        out.push_str("<p>None.</p>\n");
        return;
    }
    out.push_str("<table><tr><th>host</th><th>state</th><th>last entry</th><th>servers</th><th>lost</th></tr>\n");
    for host in &hosts.shown {
        let class = match host.state {
            State::Watched => "some",
            _ => "bad",
        };
        put!(
            out,
            "<tr><td>{}</td><td class=\"{class}\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            Text(&host.host),
            word(host.state),
            Text(&minute(host.last_entry)),
            host.servers,
            Text(&host.losses().unwrap_or_else(|| "–".to_owned()))
        );
    }
    out.push_str("</table>\n");
    more(hosts, out);
}

pub(super) fn servers(digest: &Digest, out: &mut String) {
    out.push_str("<details><summary>Servers, their versions and tools</summary><table><tr><th>server</th><th>hosts</th><th>versions</th><th>tools</th></tr>\n");
    for server in &digest.servers.shown {
        let head = &server.head;
        let versions = head.versions.iter();
        let versions: Vec<String> = versions
            .map(|version| {
                let hosts = named(&version.hosts, version.host_count);
                format!("{} on {hosts}", version.version)
            })
            .collect();
        put!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            Text(&head.server),
            Text(&named(&head.hosts, head.host_count)),
            Text(&named(&versions, versions.len() as u64)),
            Text(&named(&server.tools, server.tool_count))
        );
    }
    out.push_str("</table>\n");
    more(&digest.servers, out);
    out.push_str("</details>\n");
}

pub(super) fn approvals(digest: &Digest, out: &mut String) {
    if digest.not_approved.count > 0 {
        out.push_str("<h3>On most hosts, but not on all</h3>\n<ul>\n");
        for DefinitionEntry { server, tool, seen } in &digest.not_approved.shown {
            let lacking = seen.host_count - seen.approved_count;
            put!(
                out,
                "<li><b>{} / {}</b> <code>{}</code>: approved on {} of {}, not on {}</li>\n",
                Text(server),
                Text(tool),
                Text(seen.hash.as_deref().map_or("", short)),
                seen.approved_count,
                counted(seen.host_count),
                Text(&named(&seen.not_approved, lacking))
            );
        }
        out.push_str("</ul>\n");
        more(&digest.not_approved, out);
    }
    if digest.nobody_approved.count > 0 {
        out.push_str("<h3>Servers without any approval</h3>\n<ul>\n");
        for (server, hosts) in &digest.nobody_approved.shown {
            put!(
                out,
                "<li><b>{}</b> on {}</li>\n",
                Text(server),
                counted(*hosts)
            );
        }
        out.push_str("</ul>\n");
        more(&digest.nobody_approved, out);
    }
    if digest.decisions.count == 0 {
        out.push_str("<p>No decisions were made.</p>\n");
        return;
    }
    out.push_str("<h3>Decisions</h3>\n<table><tr><th>what</th><th>when</th><th>who</th><th>where</th><th>why</th></tr>\n");
    for decided in &digest.decisions.shown {
        let who = match (decided.uid, &decided.by) {
            (Some(uid), _) => format!("user {uid}"),
            (None, Some(by)) => by.clone(),
            (None, None) => "an unknown user".to_owned(),
        };
        put!(
            out,
            "<tr><td>{} <b>{} {}</b> <code>{}</code></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            Text(&decided.decision),
            Text(&decided.server),
            Text(&decided.item),
            Text(decided.hash.as_deref().map_or("", short)),
            Text(&minute(decided.time)),
            Text(&who),
            Text(&decided.host),
            Text(decided.reason.as_deref().unwrap_or_default())
        );
    }
    out.push_str("</table>\n");
    more(&digest.decisions, out);
}

pub(super) fn alerts(digest: &Digest, summary: &Summary, out: &mut String) {
    if summary.alert_counts.is_empty() {
        out.push_str("<p>None.</p>\n");
        return;
    }
    out.push_str("<table><tr><th>alert</th><th>severity</th><th>host</th><th>last</th></tr>\n");
    for (severity, time, host, sentence) in digest.alerts.iter().rev() {
        put!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            Text(sentence),
            severity.as_str(),
            Text(host),
            Text(&minute(*time))
        );
    }
    out.push_str("</table>\n");
    let more = digest.alert_count - digest.alerts.len() as u64;
    if more > 0 {
        put!(
            out,
            "<p class=\"note\">… and {more} more; --json has them</p>\n"
        );
    }
    out.push_str("<h3>By host</h3>\n<table><tr><th>host</th><th>times</th><th>a day</th></tr>\n");
    for (count, host, per_day) in digest.alerting.iter().rev() {
        put!(
            out,
            "<tr><td>{}</td><td>{count}</td><td>{per_day}</td></tr>\n",
            Text(host)
        );
    }
    out.push_str("</table>\n");
    findings("By kind", &summary.findings, out);
    if !summary.secrets.is_empty() {
        findings("Secrets that were seen", &summary.secrets, out);
    }
}

fn findings(title: &str, findings: &[FindingReport], out: &mut String) {
    put!(
        out,
        "<h3>{title}</h3>\n<table><tr><th>what</th><th>severity</th><th>hosts</th><th>times</th><th>a day</th></tr>\n"
    );
    for finding in findings.iter().take(KINDS) {
        let what = &finding.what;
        put!(
            out,
            "<tr><td>{} in <b>{} {}</b> {}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            Text(what.category.as_deref().unwrap_or(&what.event)),
            Text(&what.server),
            Text(what.tool.as_deref().unwrap_or_default()),
            Text(what.pattern.as_deref().unwrap_or_default()),
            what.severity.as_str(),
            finding.host_count,
            finding.count,
            finding.per_day
        );
    }
    out.push_str("</table>\n");
    let more = findings.len().saturating_sub(KINDS);
    if more > 0 {
        put!(
            out,
            "<p class=\"note\">… and {more} more; --json has them</p>\n"
        );
    }
}
