//! How a tool resembles tools of other servers.

use std::collections::HashMap;
use std::sync::Arc;

use super::index::{IndexedTool, ToolIndex};
use super::profile::{RELATED_TEXT, ToolProfile};
use crate::detect::rules::Probe;
use crate::detect::text::names::{
    distinctive, near, rare_word_changed, same_words, skeleton, without_affix,
};

/// Up to this many servers, an equal, distinctive name is not a coincidence.
const FEW_SERVERS: usize = 40;
/// The share of equal word pairs from which two tools with nearly the same name are not a coincidence.
const HALF_OF_THE_TEXT: f32 = 0.5;
/// Most servers to compare as a whole for one tool.
const MAKERS_COMPARED: usize = 6;

/// How a tool resembles a tool of another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Similarity {
    /// The kind of resemblance.
    pub probe: Probe,
    /// The other server's name.
    pub server: Arc<str>,
    /// The other server's tool.
    pub tool: String,
}

/// How a tool of `server` resembles tools of other servers. At most one similarity of each kind.
pub fn similarities(index: &ToolIndex, server: &str, profile: &ToolProfile) -> Vec<Similarity> {
    let order = index
        .find(server, &profile.name)
        .and_then(|number| index.tool(number))
        .map_or(u64::MAX, |own| own.order);
    let few = index.server_count() <= FEW_SERVERS;
    let mut found: Vec<Similarity> = Vec::new();
    let mut same_maker: HashMap<Arc<str>, bool> = HashMap::new();
    let mut add = |probe, other: &IndexedTool| {
        if found.iter().any(|similarity| similarity.probe == probe) {
            return;
        }
        if same_maker.len() >= MAKERS_COMPARED && !same_maker.contains_key(&other.server) {
            return;
        }
        let related = *same_maker
            .entry(Arc::clone(&other.server))
            .or_insert_with(|| index.same_maker(server, &other.server));
        if !related {
            found.push(Similarity {
                probe,
                server: Arc::clone(&other.server),
                tool: other.profile.name.to_string(),
            });
        }
    };
    let base = without_affix(&profile.name).map(|base| skeleton(&base));
    for known in index.candidates(server, profile, base.as_deref()) {
        let other = &known.profile;
        let later = order > known.order;
        // The name is another's with an affix such as `v2`, and not a version of its own server's tool.
        let takes_after =
            base.as_deref() == Some(&*other.skeleton) && index.find(server, &other.name).is_none();
        if !later && !takes_after {
            continue;
        }
        if profile.skeleton == other.skeleton {
            if later && !same_words(&profile.name, &other.name) {
                add(Probe::LookAlikeName, known);
            } else if later && profile.copies(other, few) {
                add(Probe::CopiedTool, known);
            } else if later && distinctive(&profile.name) {
                // Servers for the same purpose choose the same words, so a name alone proves nothing.
                add(Probe::SameName, known);
            }
        } else if takes_after {
            // The name with the affix is the newer one, whichever was seen first.
            if profile.shares_text(other, RELATED_TEXT)
                || profile.same_parameters(other)
                || other.name.contains(|c: char| !c.is_alphanumeric())
            {
                add(Probe::LookAlikeName, known);
            }
        } else if near(&profile.skeleton, &other.skeleton)
            && (profile.shares_text(other, HALF_OF_THE_TEXT)
                || (distinctive(&other.name) && rare_word_changed(&profile.name, &other.name)))
        {
            add(Probe::LookAlikeName, known);
        } else if profile.same_text(other, few) {
            add(Probe::CopiedDescription, known);
        }
    }
    found
}
