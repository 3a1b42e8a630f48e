//! What each user's servers offer.
//!
//! Tools are compared only with those of the same user's servers. A finding names the tool that another
//! one resembles, so one user's findings would otherwise reveal another's servers, and the first user of
//! a name could hold it against everyone else.

use std::collections::HashMap;
use std::sync::Arc;

use super::tool_acts::ToolActs;
use crate::detect::cross_server::{TOOLS, ToolIndex, ToolProfile};

/// Most users whose servers are remembered. The least recently seen are forgotten.
const USERS: usize = 64;

/// What one user's servers offer.
#[derive(Debug, Default)]
pub(super) struct OfferedTools {
    /// Their tools.
    pub(super) tools: ToolIndex,
    /// What these do.
    pub(super) acts: ToolActs,
    /// When the user's servers last offered something, counted in such events.
    turn: u64,
}

/// What servers offer, by the user that they run as; `None` if that is unknown.
#[derive(Debug, Default)]
pub(super) struct OfferedToolsByUser {
    users: HashMap<Option<u32>, OfferedTools>,
    turn: u64,
    nothing: OfferedTools,
}

impl OfferedToolsByUser {
    /// What a user's servers offer.
    pub(super) fn of(&self, user: Option<u32>) -> &OfferedTools {
        self.users.get(&user).unwrap_or(&self.nothing)
    }

    /// The same, mutably.
    pub(super) fn of_mut(&mut self, user: Option<u32>) -> &mut OfferedTools {
        if self.users.len() >= USERS && !self.users.contains_key(&user) {
            let oldest = self.users.iter().min_by_key(|(_, offered)| offered.turn);
            if let Some(oldest) = oldest.map(|(user, _)| *user) {
                self.users.remove(&oldest);
            }
        }
        self.turn += 1;
        let offered = self.users.entry(user).or_default();
        offered.turn = self.turn;
        offered
    }

    /// Inserts a tool of a user's server, if there is room: [`TOOLS`] for all users together, and beyond
    /// that an equal share of the same number for each.
    pub(super) fn insert(&mut self, user: Option<u32>, server: &str, profile: Arc<ToolProfile>) {
        let all: usize = self.users.values().map(|offered| offered.tools.len()).sum();
        let share = TOOLS / self.users.len().max(1);
        let tools = &mut self.of_mut(user).tools;
        if all < TOOLS || tools.len() < share {
            tools.insert(server, profile);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::detect::json::Json;

    fn profile(name: &str) -> Arc<ToolProfile> {
        let definition = json!({ "name": name, "description": "Reads notes." });
        Arc::new(ToolProfile::of(&Json::from(&definition)).unwrap())
    }

    #[test]
    fn a_user_who_fills_the_memory_leaves_room_for_others() {
        let mut offered = OfferedToolsByUser::default();
        for number in 0..TOOLS + 10 {
            offered.insert(Some(1000), "greedy", profile(&format!("tool_{number}")));
        }
        assert_eq!(offered.of(Some(1000)).tools.len(), TOOLS);
        offered.insert(Some(1001), "notes", profile("read_notes"));
        offered.insert(Some(1001), "notes", profile("write_notes"));
        assert_eq!(offered.of(Some(1001)).tools.len(), 2);
        offered.insert(Some(1000), "greedy", profile("one_more"));
        assert_eq!(offered.of(Some(1000)).tools.len(), TOOLS);
        assert!(offered.of(None).tools.is_empty());
    }

    #[test]
    fn the_users_who_have_been_silent_longest_are_forgotten() {
        let mut offered = OfferedToolsByUser::default();
        for user in 0..=USERS as u32 {
            offered.insert(Some(user), "notes", profile("read_notes"));
            offered.of_mut(Some(1));
        }
        assert!(offered.of(Some(0)).tools.is_empty());
        assert_eq!(offered.of(Some(1)).tools.len(), 1);
    }
}
