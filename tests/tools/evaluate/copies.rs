//! Tools beside other servers' tools: copies by another maker are found, honest neighbours are not accused.
//!
//! Everything is made of the honest definitions among the labelled rows. Each server gets a neighbour of another
//! maker that offers one of its tools: word for word, with a look-alike name, or under the name with an affix. Each
//! server also gets a second instance of itself. And all servers of a tier stand beside each other as they are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use mcpinspect_core::model::{Action, publisher};
use mcpinspect_judge::detect::WeightedRules;
use mcpinspect_judge::detect::analysis::{Analyser, AnalysisContext, Report};
use mcpinspect_judge::detect::cross_server::{ToolIndex, ToolProfile};
use mcpinspect_judge::detect::json::Json;
use serde_json::Value;

use super::judge::Judged;
use super::tables::{Count, percent};

/// The share of copies that has to be found.
const BAR: f64 = 90.0;
/// The category of findings about other servers' tools.
const CATEGORY: &str = "cross_server_shadowing";
/// Most tools of a server that are copied: a server with hundreds would drown the others.
const COPIED: usize = 12;
/// The maker of the copies.
const COPYIST: &str = "npm:@copyist/tools";

/// A server: its name and its tools.
type Servers<'a> = BTreeMap<&'a str, Vec<&'a Value>>;

/// The name under which a copy of a tool is offered.
type Disguise = fn(&str) -> Option<String>;

/// The report.
pub fn report(rules: &Arc<WeightedRules>, judged: &[Judged]) -> String {
    let mut servers: Servers<'_> = BTreeMap::new();
    for one in judged.iter().filter(|one| !one.row.malicious()) {
        if let (Some(server), Some(tool)) = (&one.row.server, &one.row.tool) {
            servers.entry(server).or_default().push(tool);
        }
    }
    if servers.is_empty() {
        return String::new();
    }
    let mut analyser = Analyser::new(Arc::clone(rules));
    let mut out = format!(
        "\nbeside other servers\n{:<44} {:>6} {:>7} {:>7} {:>7}\n",
        "", "rows", "warn%", "alert%", "block%"
    );
    let disguises: [(&str, Disguise); 3] = [
        ("copies by another maker", |name| Some(name.to_owned())),
        ("… with a look-alike name", look_alike),
        ("… under the name with an affix", |name| {
            Some(format!("{name}_v2"))
        }),
    ];
    for (title, disguise) in disguises {
        let count = copies(&mut analyser, &servers, disguise);
        let share = percent(count.alert, count.rows);
        let word = if share >= BAR { "reached" } else { "MISSED" };
        let cells = count.cells();
        let _ = writeln!(out, "{title:<44} {cells}  bar {BAR:.0} {word}");
    }
    let instances = second_instances(&mut analyser, &servers);
    let word = if instances.warn == 0 {
        "kept"
    } else {
        "MISSED"
    };
    let cells = instances.cells();
    let _ = writeln!(out, "{:<44} {cells}  bar 0 {word}", "second instances");
    for (tier, count) in neighbours(judged) {
        let title = format!("honest neighbours: {tier}");
        let _ = writeln!(out, "{title:<44} {}", count.cells());
    }
    out
}

/// The verdict that a report's findings about other servers' tools amount to.
fn about_others(report: &Report) -> Action {
    match report.detections.iter().any(|one| one.category == CATEGORY) {
        true => report.action,
        false => Action::None,
    }
}

/// Another maker's copy of each tool, beside its server.
fn copies(analyser: &mut Analyser, servers: &Servers<'_>, disguise: Disguise) -> Count {
    let mut count = Count::default();
    for (server, tools) in servers {
        for tool in tools.iter().take(COPIED) {
            let name = tool.get("name").and_then(Value::as_str);
            let Some(other) = name.and_then(disguise) else {
                continue;
            };
            let mut copy = (*tool).clone();
            copy["name"] = other.into();
            let mut index = ToolIndex::new();
            insert(&mut index, server, server, tools);
            insert(&mut index, COPYIST, COPYIST, &[&copy]);
            count.add(about_others(&analysed(analyser, &index, COPYIST, &copy)));
        }
    }
    count
}

/// Each server twice: what is found in a tool only because the other instance is there.
fn second_instances(analyser: &mut Analyser, servers: &Servers<'_>) -> Count {
    let mut count = Count::default();
    for (server, tools) in servers {
        let second = format!("{server} (second)");
        let (mut alone, mut twice) = (ToolIndex::new(), ToolIndex::new());
        insert(&mut alone, &second, server, tools);
        insert(&mut twice, server, server, tools);
        insert(&mut twice, &second, server, tools);
        for tool in tools {
            let mut found = |index| about_others(&analysed(analyser, index, &second, tool));
            let (before, after) = (found(&alone), found(&twice));
            count.add(match after > before {
                true => after,
                false => Action::None,
            });
        }
    }
    count
}

/// How the tools of each tier are judged beside all servers of that tier, by what they resemble.
fn neighbours(judged: &[Judged]) -> BTreeMap<&str, Count> {
    let mut tiers: BTreeMap<&str, Count> = BTreeMap::new();
    let rows = judged
        .iter()
        .filter(|one| !one.row.malicious() && one.row.server.is_some() && one.row.tool.is_some());
    for one in rows {
        let count = tiers.entry(one.row.tier()).or_default();
        count.add(about_others(&one.report));
    }
    tiers
}

/// Puts a server of a package into the index. Where its name shows no publisher, the package is its own: the daemon
/// knows at least which program it started.
fn insert(index: &mut ToolIndex, server: &str, package: &str, tools: &[&Value]) {
    for tool in tools {
        if let Some(profile) = ToolProfile::of(&Json::from(*tool)) {
            index.insert(server, Arc::new(profile));
        }
    }
    index.publish(server, publisher(package).or_else(|| Some(package.into())));
}

fn analysed(analyser: &mut Analyser, index: &ToolIndex, server: &str, tool: &Value) -> Report {
    let context = AnalysisContext {
        server: Some(server),
        tools: Some(index),
        ..AnalysisContext::default()
    };
    analyser.tool(&Json::from(tool), context)
}

/// The name with a letter that looks like another; `None` if there is none to replace.
fn look_alike(name: &str) -> Option<String> {
    const LETTERS: [(char, char); 4] = [('e', 'е'), ('o', 'о'), ('a', 'а'), ('l', '1')];
    let (from, to) = LETTERS.into_iter().find(|(from, _)| name.contains(*from))?;
    Some(name.replacen(from, &to.to_string(), 1))
}
