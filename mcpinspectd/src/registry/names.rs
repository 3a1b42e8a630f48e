//! Which name belongs to which server on this machine.
//!
//! Names are claimed: a hostile repository may ship a `.mcp.json` that calls its server `github`. So a
//! name belongs to the first fingerprint seen under it, and every other server of that name is called
//! `github#ab12` after its own fingerprint. Which of two servers has the plain name is stored with the
//! pins.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{FormerIdentity, ServerId, ServerIdentity};

/// The names of servers, with the fingerprints that they belong to.
#[derive(Clone, Debug, Default)]
pub struct ServerNames {
    owners: HashMap<Arc<str>, Arc<str>>,
}

impl ServerNames {
    /// Most names that are stored. A server that comes later always carries its fingerprint in its
    /// name.
    pub const MAX_NAMES: usize = 16_384;

    /// The names that were assigned before, as `(name, fingerprint)`.
    pub fn known(names: impl IntoIterator<Item = (String, String)>) -> Self {
        let owners = names
            .into_iter()
            .take(Self::MAX_NAMES)
            .map(|(name, fingerprint)| (name.into(), fingerprint.into()))
            .collect();
        Self { owners }
    }

    /// Gives a server its name on this machine, and remembers it: its own name if that is free or
    /// belongs to this server already, otherwise with as many digits of the fingerprint behind it as
    /// it takes to be unique. A server that was identified differently before keeps the name that it
    /// had, if that is the same but for the digits; otherwise its former identity is left with the name
    /// that it had, or removed if it had none.
    pub fn assign(&mut self, mut identity: ServerIdentity) -> ServerIdentity {
        let base = Arc::clone(&identity.server_id.0);
        let former = identity
            .former
            .take()
            .filter(|former| former.fingerprint != identity.fingerprint);
        let had = former.and_then(|former| {
            let name = self.name_of(&former.server_id.0, &former.fingerprint)?;
            Some((former.server_id.0 == base, name, former.fingerprint))
        });
        let own = self.name_of(&base, &identity.fingerprint);
        let name: Arc<str> = match (own, had) {
            (None, Some((true, name, _))) => name.into(),
            (own, had) => {
                identity.former = had.map(|(_, name, fingerprint)| FormerIdentity {
                    server_id: ServerId(name.into()),
                    fingerprint,
                });
                let name = own.unwrap_or_else(|| self.free(&base, &identity.fingerprint));
                name.into()
            }
        };
        identity.server_id = ServerId(Arc::clone(&name));
        if self.owners.len() < Self::MAX_NAMES {
            // What a server was identified by before keeps its names: others may still be called so.
            let owner = self.owners.entry(name);
            owner.or_insert_with(|| identity.fingerprint.as_str().into());
        }
        identity
    }

    /// The name that a server was given in place of `base`.
    fn name_of(&self, base: &str, fingerprint: &str) -> Option<String> {
        candidates(base, fingerprint)
            .map_while(|name| Some((self.owners.get(name.as_str())?, name)))
            .find_map(|(owner, name)| (**owner == *fingerprint).then_some(name))
    }

    /// The first name for a server in place of `base` that no other server has.
    fn free(&self, base: &str, fingerprint: &str) -> String {
        let full = self.owners.len() >= Self::MAX_NAMES;
        let is_free = |name: &String| match self.owners.get(name.as_str()) {
            Some(owner) => **owner == *fingerprint,
            None => !full || name.contains('#'),
        };
        // All digits distinguish any two servers.
        let longest = || format!("{base}#{fingerprint}");
        candidates(base, fingerprint)
            .find(is_free)
            .unwrap_or_else(longest)
    }
}

/// The names that a server may be given, in the order of preference.
fn candidates<'a>(base: &'a str, fingerprint: &'a str) -> impl Iterator<Item = String> + 'a {
    let digits = (1..=fingerprint.len().div_ceil(4)).map(|fours| 4 * fours);
    let numbered = digits.map(move |digits| {
        format!(
            "{base}#{}",
            fingerprint.get(..digits).unwrap_or(fingerprint)
        )
    });
    std::iter::once(base.to_owned()).chain(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(fingerprint: &str) -> ServerIdentity {
        ServerIdentity {
            server_id: ServerId("github".into()),
            fingerprint: fingerprint.to_owned(),
            name_source: "test".to_owned(),
            former: None,
        }
    }

    fn known(names: &[(&str, &str)]) -> ServerNames {
        let owned = |(name, owner): &(&str, &str)| ((*name).to_owned(), (*owner).to_owned());
        ServerNames::known(names.iter().map(owned))
    }

    /// A server called `name` that was called `former` before.
    fn renamed(name: &str, fingerprint: &str, former: &str, before: &str) -> ServerIdentity {
        ServerIdentity {
            server_id: ServerId(name.into()),
            former: Some(FormerIdentity {
                server_id: ServerId(former.into()),
                fingerprint: before.to_owned(),
            }),
            ..server(fingerprint)
        }
    }

    /// The name that is assigned, and the name whose pins it takes over.
    fn assigned(names: &mut ServerNames, identity: ServerIdentity) -> (String, Option<String>) {
        let ServerIdentity {
            server_id, former, ..
        } = names.assign(identity);
        let former = former.map(|former| former.server_id.to_string());
        (server_id.to_string(), former)
    }

    #[test]
    fn a_server_under_another_name_says_which_it_had() {
        const OLD: &str = "00001111";
        const NEW: &str = "aaaabbbb";
        let own = |name: &str| (name.to_owned(), None);
        let taken = |name: &str, from: &str| (name.to_owned(), Some(from.to_owned()));
        let identity = || renamed("files", NEW, "mcp", OLD);
        for (before, expected) in [
            (&[][..], own("files")),
            (&[("mcp", "other")], own("files")),
            (&[("mcp", OLD)], taken("files", "mcp")),
            (
                &[("mcp", "other"), ("mcp#0000", OLD)],
                taken("files", "mcp#0000"),
            ),
            (
                &[("mcp", OLD), ("files", "other")],
                taken("files#aaaa", "mcp"),
            ),
            (&[("mcp", OLD), ("files", NEW)], taken("files", "mcp")),
            (
                &[("files", "other"), ("files#aaaa", NEW), ("mcp", OLD)],
                taken("files#aaaa", "mcp"),
            ),
        ] {
            let mut names = known(before);
            assert_eq!(assigned(&mut names, identity()), expected, "{before:?}");
            assert_eq!(assigned(&mut names, identity()), expected, "{before:?}");
        }
    }

    #[test]
    fn a_server_that_is_still_called_the_same_keeps_its_name() {
        const OLD: &str = "00001111";
        const NEW: &str = "aaaabbbb";
        let identity = || renamed("docs", NEW, "docs", OLD);
        for (before, expected) in [
            (&[][..], "docs"),
            (&[("docs", OLD)], "docs"),
            (&[("docs", "other"), ("docs#0000", OLD)], "docs#0000"),
            (&[("docs", "other")], "docs#aaaa"),
        ] {
            let mut names = known(before);
            for _ in 0..2 {
                let (name, former) = assigned(&mut names, identity());
                assert_eq!((name.as_str(), former), (expected, None), "{before:?}");
            }
            // The identity of before is not robbed of its name.
            if let Some((name, _)) = before.iter().find(|(_, owner)| *owner == OLD) {
                let other = ServerIdentity {
                    server_id: ServerId("docs".into()),
                    ..server(OLD)
                };
                assert_eq!(assigned(&mut names, other), ((*name).to_owned(), None));
            }
        }
    }

    #[test]
    fn a_name_is_assigned_once() {
        let mut names = ServerNames::default();
        let real = server("aaaabbbbccccdddd");
        let fake = server("1111222233334444");
        assert_eq!(names.assign(real.clone()), real);
        let renamed = names.assign(fake.clone());
        assert_eq!(&*renamed.server_id.0, "github#1111");
        assert_eq!(names.assign(real.clone()), real);
        assert_eq!(names.assign(fake.clone()), renamed);

        // The first digits are the same: another group of digits tells the two apart.
        let twin = names.assign(server("1111222255556666"));
        assert_eq!(&*twin.server_id.0, "github#11112222");

        // Names that were assigned before a restart hold after it, whichever server comes first.
        let mut again = ServerNames::known(
            [&real, &renamed].map(|known| (known.server_id.to_string(), known.fingerprint.clone())),
        );
        assert_eq!(again.assign(fake), renamed);
        assert_eq!(again.assign(real.clone()), real);
    }

    #[test]
    fn a_server_without_room_carries_its_fingerprint() {
        let taken = (0..ServerNames::MAX_NAMES).map(|n| (format!("n{n}"), "f".to_owned()));
        let mut names = ServerNames::known(taken);
        assert_eq!(
            &*names.assign(server("aaaabbbb")).server_id.0,
            "github#aaaa"
        );
    }
}
