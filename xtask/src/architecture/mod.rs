//! `cargo xtask architecture`: checks the dependencies between modules against a few rules.
//!
//! Two modules that depend on each other are one module in two files: neither can be read, tested
//! or replaced alone. The compiler allows that, so this check reads the sources and fails on
//!
//! - a cycle, between the top-level modules of a crate as well as between the files of any folder;
//! - a module that reaches a crate which it must avoid (see [`rules`]).
//!
//! Only paths count. What a method call needs is visible in the `use` of its type or trait, or it
//! is a call inside one `impl`, whose files share a type by intention.

mod graph;
mod rules;
mod scan;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::shell;
use graph::Room;
use rules::{Boundary, SOURCES};
use tree::{Crate, Reference, Target};

/// The command line of `cargo xtask architecture`.
#[derive(clap::Args)]
pub struct Options {
    /// Also print the layers of every crate and folder, lowest first
    #[arg(long)]
    print: bool,
}

/// Checks the repository without printing its layers.
pub fn check() -> Result<()> {
    run(&Options { print: false })
}

/// Checks the repository.
pub fn run(options: &Options) -> Result<()> {
    let root = shell::root();
    let load = |file: &Path| std::fs::read_to_string(root.join(file)).ok();
    let mut complaints = Vec::new();
    for source in SOURCES {
        let krate = Crate::read(source.name, Path::new(source.root), &load)?;
        let references = krate.references();
        let rooms = graph::rooms(&krate, &references);
        if options.print {
            print!("{}", layers(&krate, &rooms));
        }
        complaints.extend(cycles(&krate, &rooms));
        for boundary in source.boundaries {
            complaints.extend(breaches(&krate, &references, boundary));
        }
    }
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    ensure!(
        complaints.is_empty(),
        "the architecture has {} flaws (see above)",
        complaints.len()
    );
    Ok(())
}

/// A complaint for each knot of nodes that depend on each other.
fn cycles(krate: &Crate, rooms: &[Room]) -> Vec<String> {
    let mut complaints = Vec::new();
    for room in rooms {
        for cycle in room.cycles() {
            let Some(&first) = cycle.first() else {
                continue;
            };
            let name = |node: usize| node_name(krate, room, node);
            let way: Vec<String> = cycle
                .iter()
                .chain([&first])
                .map(|&node| name(node))
                .collect();
            let mut text = format!("cycle in {}: {}", krate.path(room.module), way.join(" → "));
            let knot = room.knot(first);
            for &from in &knot {
                for to in room.dependencies(from).filter(|to| knot.contains(to)) {
                    for reference in room.references(from, to) {
                        let _ = write!(text, "\n  {}", line(krate, reference));
                    }
                }
            }
            complaints.push(text);
        }
    }
    complaints
}

/// A complaint for each crate beyond the boundary that a module reaches, with the shortest way.
fn breaches(krate: &Crate, references: &[Reference], boundary: &Boundary) -> Vec<String> {
    let mut outgoing: BTreeMap<usize, Vec<&Reference>> = BTreeMap::new();
    for reference in references {
        outgoing.entry(reference.from).or_default().push(reference);
    }
    let mut complaints = Vec::new();
    for &name in boundary.modules {
        let below = |index: &usize| {
            let top = krate.ancestors(*index).filter(|&at| at != 0).last();
            krate.modules[*index].home == *index
                && top.is_some_and(|top| krate.modules[top].name == name)
        };
        let start: Vec<usize> = (0..krate.modules.len()).filter(below).collect();
        if start.is_empty() {
            complaints.push(format!("a rule is about {name}, which is not a module"));
        }
        let mut came_by: BTreeMap<usize, &Reference> = BTreeMap::new();
        let mut seen: BTreeSet<usize> = start.iter().copied().collect();
        let mut told = BTreeSet::new();
        let mut waiting = VecDeque::from(start);
        while let Some(file) = waiting.pop_front() {
            for &reference in outgoing.get(&file).into_iter().flatten() {
                match &reference.target {
                    Target::Foreign(foreign) if boundary.crates.contains(&foreign.as_str()) => {
                        if !told.insert(foreign) {
                            continue;
                        }
                        let mut way = vec![reference];
                        let mut at = file;
                        while let Some(&before) = came_by.get(&at) {
                            way.push(before);
                            at = before.from;
                        }
                        let mut text = format!("{name} reaches {foreign}: {}", boundary.reason);
                        for reference in way.iter().rev() {
                            let _ = write!(text, "\n  {}", line(krate, reference));
                        }
                        complaints.push(text);
                    }
                    Target::Item(to) if seen.insert(*to) => {
                        came_by.insert(*to, reference);
                        waiting.push_back(*to);
                    }
                    _ => {}
                }
            }
        }
    }
    complaints
}

/// The layers of every room.
fn layers(krate: &Crate, rooms: &[Room]) -> String {
    let mut text = String::new();
    for room in rooms {
        let _ = writeln!(text, "{}", krate.path(room.module));
        for (depth, layer) in room.layers().iter().enumerate() {
            let names: Vec<String> = layer
                .iter()
                .map(|&node| node_name(krate, room, node))
                .collect();
            let _ = writeln!(text, "  {depth}: {}", names.join(", "));
        }
    }
    text
}

/// A node's name in its room; the room's own file is named as such.
fn node_name(krate: &Crate, room: &Room, node: usize) -> String {
    let module = &krate.modules[node];
    if node == room.module {
        let file = module.file.file_name().unwrap_or_default();
        file.to_string_lossy().into_owned()
    } else {
        module.name.clone()
    }
}

fn line(krate: &Crate, reference: &Reference) -> String {
    let file = &krate.modules[reference.from].file;
    format!("{}:{}: {}", file.display(), reference.line, reference.path)
}
