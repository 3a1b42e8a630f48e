//! Follows signed lists: which approvals this machine has encountered, and which of them ended.
//!
//! Encountering an approved definition is recorded as a decision, once, so that it becomes
//! an event, lists show it, and a fleet knows which machines have the approval.

use mcpinspect_core::model::{DefinitionHash, Timestamp};

use super::item::{DecidedBy, Decision, DecisionKind, ItemKey};
use super::listed::Listed;
use super::owner::{Owner, ServerOf};
use super::pins::Registry;
use super::storage::{DecisionWrite, Write};

impl Registry {
    /// Follows these lists from now on. Records what they approve among the definitions seen last, and
    /// what was approved but no longer is. Call [`Self::save`] afterwards.
    pub fn set_listed(&mut self, listed: Listed, time: Timestamp) {
        self.listed = listed;
        let mut decisions = Vec::new();
        for (owner, holdings) in &mut self.owners {
            if *owner == Owner::Earlier {
                continue;
            }
            for (server, items) in &mut holdings.servers {
                for (key, item) in items {
                    let decided = |kind, hash, reason| DecisionWrite {
                        owner: *owner,
                        server: server.clone(),
                        key: key.clone(),
                        decision: Decision {
                            kind,
                            hash: Some(hash),
                            by: DecidedBy::List,
                            time,
                            reason,
                        },
                        pin: None,
                    };
                    item.listed.retain(|hash| {
                        let stays = self.listed.approval(server, key, *hash).is_some();
                        if !stays {
                            let why = self.listed.refusal(server, key, *hash);
                            decisions.push(decided(DecisionKind::Revoke, *hash, why));
                        }
                        stays
                    });
                    if let Some(why) = self.listed.approval(server, key, item.current)
                        && !item.listed.contains(&item.current)
                    {
                        item.listed.push(item.current);
                        let why = why.to_owned();
                        decisions.push(decided(DecisionKind::Approve, item.current, why));
                    }
                }
            }
        }
        // The tables have no order, and equal inputs must lead to equal writes.
        decisions.sort_by(|one, other| decision_key(one).cmp(&decision_key(other)));
        for decision in decisions {
            self.record(Write::Decided(decision));
        }
    }

    /// Whether a list approves a definition.
    pub(super) fn is_listed(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
        hash: DefinitionHash,
    ) -> bool {
        self.listed.approval(server.server, key, hash).is_some()
    }

    /// Records that an approved definition was encountered. Returns whether a list approves it.
    pub(super) fn meet(
        &mut self,
        server: ServerOf<'_>,
        key: &ItemKey,
        hash: DefinitionHash,
        time: Timestamp,
    ) -> bool {
        let Some(why) = self.listed.approval(server.server, key, hash) else {
            return false;
        };
        let reason = why.to_owned();
        let Some(item) = self.item_mut(server, key) else {
            return true;
        };
        if item.listed.contains(&hash) {
            return true;
        }
        item.listed.push(hash);
        self.record(Write::Decided(DecisionWrite {
            owner: server.owner,
            server: server.server.into(),
            key: key.clone(),
            decision: Decision {
                kind: DecisionKind::Approve,
                hash: Some(hash),
                by: DecidedBy::List,
                time,
                reason,
            },
            pin: None,
        }));
        true
    }
}

type DecisionKey<'a> = (&'a str, Owner, &'a ItemKey, Option<DefinitionHash>);

fn decision_key(write: &DecisionWrite) -> DecisionKey<'_> {
    let hash = write.decision.hash;
    (&write.server, write.owner, &write.key, hash)
}
