//! What hosts are called: by their name if no other host has it.
//!
//! A name is for people, the machine id is exact. So names take a bounded amount of memory: a
//! host beyond that, of millions that a hostile one made up, is called by its id.

use super::super::entry::Machine;

/// Hosts with names.
const HOSTS_MAX: usize = 1 << 20;
/// Most bytes of their names.
const TEXT_MAX: usize = 32 << 20;

/// The names of hosts.
#[derive(Debug, Default)]
pub struct Names {
    text: String,
    /// In order, with where each name ends.
    hosts: Vec<(Machine, u32)>,
    is_shared: Vec<bool>,
}

impl Names {
    /// Adds a host; they have to come in order.
    pub fn add(&mut self, machine: Machine, name: &str) {
        if self.hosts.len() < HOSTS_MAX && self.text.len() + name.len() <= TEXT_MAX {
            self.text.push_str(name);
            let end = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
            self.hosts.push((machine, end));
        }
    }

    /// Looks for names that several hosts have.
    pub fn finish(&mut self) {
        let mut order: Vec<usize> = (0..self.hosts.len()).collect();
        order.sort_unstable_by_key(|at| self.at(*at));
        self.is_shared = vec![false; order.len()];
        for pair in order.windows(2) {
            if let [one, other] = *pair
                && self.at(one) == self.at(other)
            {
                for at in [one, other] {
                    if let Some(shared) = self.is_shared.get_mut(at) {
                        *shared = true;
                    }
                }
            }
        }
    }

    /// What a host is called.
    pub fn name(&self, machine: Machine) -> String {
        let id = machine.to_string();
        let Ok(at) = self.hosts.binary_search_by_key(&machine, |host| host.0) else {
            return id;
        };
        let name = self.at(at);
        if name.is_empty() || self.is_shared.get(at).copied().unwrap_or_default() {
            format!("{name} ({})", id.get(..8).unwrap_or_default())
        } else {
            name.to_owned()
        }
    }

    /// What hosts are called, ordered by name.
    pub fn names(&self, machines: &[Machine]) -> Vec<String> {
        let mut names: Vec<String> = machines.iter().map(|host| self.name(*host)).collect();
        names.sort();
        names
    }

    fn at(&self, at: usize) -> &str {
        let end = |at: usize| self.hosts.get(at).map_or(0, |host| host.1 as usize);
        let begin = at.checked_sub(1).map_or(0, end);
        self.text.get(begin..end(at)).unwrap_or_default()
    }
}
