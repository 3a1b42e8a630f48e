//! Which file depends on which, room by room.
//!
//! A room is a module with modules of its own. Seen from a room, everything below one of its
//! modules is one node, and the room's own file is another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::tree::{Crate, Reference, Target};

/// The dependencies between the nodes of one room.
pub(super) struct Room {
    /// The module that is the room.
    pub(super) module: usize,
    /// All nodes; the room's own module stands for its own file.
    pub(super) nodes: BTreeSet<usize>,
    edges: BTreeMap<(usize, usize), Vec<Reference>>,
}

/// All rooms of a crate.
pub(super) fn rooms(krate: &Crate, references: &[Reference]) -> Vec<Room> {
    let mut rooms: BTreeMap<usize, Room> = BTreeMap::new();
    for (index, module) in krate.modules.iter().enumerate() {
        let Some(parent) = module.parent else {
            continue;
        };
        if module.home != index {
            continue;
        }
        let room = rooms.entry(parent).or_insert_with(|| Room {
            module: parent,
            nodes: BTreeSet::from([parent]),
            edges: BTreeMap::new(),
        });
        room.nodes.insert(index);
    }
    for reference in references {
        let Target::Item(to) = reference.target else {
            continue;
        };
        if let Some((room, from, to)) = meeting(krate, reference.from, to)
            && let Some(room) = rooms.get_mut(&room)
        {
            room.edges
                .entry((from, to))
                .or_default()
                .push(reference.clone());
        }
    }
    rooms.into_values().collect()
}

/// The innermost room around two files, and the nodes that they are in it.
fn meeting(krate: &Crate, from: usize, to: usize) -> Option<(usize, usize, usize)> {
    let above = |module: usize| {
        let mut path: Vec<usize> = krate.ancestors(module).collect();
        path.reverse();
        path
    };
    let (from, to) = (above(from), above(to));
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let room = *from.get(shared.checked_sub(1)?)?;
    let node = |path: &[usize]| path.get(shared).copied().unwrap_or(room);
    Some((room, node(&from), node(&to)))
}

impl Room {
    /// The references behind a dependency.
    pub(super) fn references(&self, from: usize, to: usize) -> &[Reference] {
        self.edges.get(&(from, to)).map_or(&[], Vec::as_slice)
    }

    /// What a node depends on.
    pub(super) fn dependencies(&self, node: usize) -> impl Iterator<Item = usize> {
        self.edges
            .range((node, 0)..=(node, usize::MAX))
            .map(|(&(_, to), _)| to)
    }

    /// The shortest way round from every knot: nodes that all depend on each other.
    pub(super) fn cycles(&self) -> Vec<Vec<usize>> {
        let mut cycles: Vec<Vec<usize>> = Vec::new();
        let mut left = self.nodes.clone();
        while let Some(node) = left.pop_first() {
            let Some(cycle) = self.way_back(node) else {
                continue;
            };
            let ahead = self.reachable(node);
            left.retain(|other| !(ahead.contains(other) && self.reachable(*other).contains(&node)));
            cycles.push(cycle);
        }
        cycles
    }

    /// All nodes that depend on each other with `node`.
    pub(super) fn knot(&self, node: usize) -> BTreeSet<usize> {
        let ahead = self.reachable(node);
        ahead
            .into_iter()
            .filter(|&other| self.reachable(other).contains(&node))
            .collect()
    }

    fn reachable(&self, node: usize) -> BTreeSet<usize> {
        let mut seen = BTreeSet::new();
        let mut waiting = vec![node];
        while let Some(at) = waiting.pop() {
            waiting.extend(self.dependencies(at).filter(|&to| seen.insert(to)));
        }
        seen
    }

    /// The shortest way from a node back to it.
    fn way_back(&self, node: usize) -> Option<Vec<usize>> {
        let mut came_from = BTreeMap::new();
        let mut waiting = VecDeque::from([node]);
        while let Some(at) = waiting.pop_front() {
            for to in self.dependencies(at) {
                if to == node {
                    let mut way: Vec<usize> =
                        std::iter::successors(Some(at), |at| came_from.get(at).copied()).collect();
                    way.reverse();
                    return Some(way);
                }
                came_from.entry(to).or_insert_with(|| {
                    waiting.push_back(to);
                    at
                });
            }
        }
        None
    }

    /// The nodes in layers: each depends only on nodes of layers before its own. Without a cycle
    /// every node has a place.
    pub(super) fn layers(&self) -> Vec<Vec<usize>> {
        let mut layers = Vec::new();
        let mut left = self.nodes.clone();
        while !left.is_empty() {
            let free = |node: &usize| self.dependencies(*node).all(|to| !left.contains(&to));
            let mut layer: Vec<usize> = left.iter().copied().filter(free).collect();
            if layer.is_empty() {
                layer = left.iter().copied().collect();
            }
            left.retain(|node| !layer.contains(node));
            layers.push(layer);
        }
        layers
    }
}
