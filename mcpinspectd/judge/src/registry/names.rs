//! Which name belongs to which server.
//!
//! Names are claimed: a hostile repository may ship a `.mcp.json` that calls its server `github`. So a
//! name belongs to the first fingerprint that a user has under it, and every other server of that name is
//! called `github#ab12` after its own fingerprint. Which of two servers has the plain name is stored with
//! the pins. Each user has a book of names: one user cannot claim a name before another does. Names
//! assigned before each user had a book apply to everyone.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mcpinspect_core::model::{FormerIdentity, ServerId, ServerIdentity};

use super::owner::{Owner, Sharing};

/// Digits of the fingerprint in the name of a server that is not remembered: 64 bits, so that another
/// server with the same name cannot be found by trying.
const UNREMEMBERED_DIGITS: usize = 16;

/// How the source of a name from a client's configuration begins.
pub(super) const CONFIGURED: &str = "config:";

/// One user's servers, by name, with the fingerprints that they belong to.
type Book = HashMap<Arc<str>, Arc<str>>;

/// The names of servers, with the fingerprints that they belong to.
#[derive(Clone, Debug, Default)]
pub struct ServerNames {
    books: BTreeMap<Owner, Book>,
    names: usize,
    sharing: Sharing,
}

impl ServerNames {
    /// Most names to store.
    pub const MAX_NAMES: usize = 65_536;

    /// Most names to store for one user. Any server beyond that always carries its
    /// fingerprint in its name.
    pub const MAX_NAMES_OF_ONE: usize = 16_384;

    /// The names that were assigned before, with their fingerprints. Users share names if they share
    /// pins.
    pub fn known(
        names: impl IntoIterator<Item = (Owner, Arc<str>, Arc<str>)>,
        sharing: Sharing,
    ) -> Self {
        let mut known = Self {
            sharing,
            ..Self::default()
        };
        for (owner, name, fingerprint) in names {
            known.claim(owner, &name, &fingerprint);
        }
        known
    }

    /// Which users share.
    pub fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    pub(super) fn set_sharing(&mut self, sharing: Sharing) {
        self.sharing = sharing;
    }

    /// The fingerprint that a name belongs to.
    pub(super) fn fingerprint(&self, owner: Owner, name: &str) -> Option<&Arc<str>> {
        self.books.get(&owner)?.get(name)
    }

    /// Whether any server of this owner was ever called `name`.
    pub fn knows(&self, owner: Owner, name: &str) -> bool {
        self.fingerprint(owner, name).is_some()
    }

    /// The owners who have a server called `name`.
    pub fn owners_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Owner> + 'a {
        let books = self.books.iter();
        books
            .filter(move |(owner, book)| **owner != Owner::Earlier && book.contains_key(name))
            .map(|(owner, _)| *owner)
    }

    /// Records that a name belongs to a fingerprint. Returns whether it was free and there was room.
    pub(super) fn claim(&mut self, owner: Owner, name: &Arc<str>, fingerprint: &Arc<str>) -> bool {
        if !self.has_room(owner) || self.knows(owner, name) {
            return false;
        }
        let book = self.books.entry(owner).or_default();
        book.insert(Arc::clone(name), Arc::clone(fingerprint));
        self.names += 1;
        true
    }

    fn has_room(&self, owner: Owner) -> bool {
        let own = self.books.get(&owner).map_or(0, HashMap::len);
        self.names < Self::MAX_NAMES && own < Self::MAX_NAMES_OF_ONE
    }

    /// Assigns and remembers the name of a server of the user `uid`: its own name if that is free or
    /// already belongs to this server, otherwise followed by as many digits of the fingerprint as
    /// it takes to be unique. A server that was identified differently before keeps its old
    /// name if that is the same apart from the digits; otherwise its former identity is left with the name
    /// that it had, or removed if it had none.
    pub fn assign(&mut self, uid: Option<u32>, mut identity: ServerIdentity) -> ServerIdentity {
        let owner = self.sharing.owner(uid);
        let base = Arc::clone(&identity.server_id.0);
        let former = identity
            .former
            .take()
            .filter(|former| former.fingerprint != identity.fingerprint);
        let had = former.and_then(|former| {
            let name = self.name_of(owner, &former.server_id.0, &former.fingerprint)?;
            Some((former.server_id.0 == base, name, former.fingerprint))
        });
        let own = self.name_of(owner, &base, &identity.fingerprint);
        let name: Arc<str> = match (own, had) {
            (None, Some((true, name, _))) => name.into(),
            (own, had) => {
                identity.former = had.map(|(_, name, fingerprint)| FormerIdentity {
                    server_id: ServerId(name.into()),
                    fingerprint,
                });
                let name = own.unwrap_or_else(|| self.free(owner, &base, &identity.fingerprint));
                name.into()
            }
        };
        identity.server_id = ServerId(Arc::clone(&name));
        // A server's former identity keeps its names: others may still be called by them.
        self.claim(owner, &name, &identity.fingerprint.as_str().into());
        identity
    }

    /// The name that a server was given in place of `base`: by this owner, or before names had owners.
    fn name_of(&self, owner: Owner, base: &str, fingerprint: &str) -> Option<String> {
        let given = |owner| {
            candidates(base, fingerprint)
                .map_while(|name| Some((self.fingerprint(owner, &name)?, name)))
                .find_map(|(claimed, name)| (**claimed == *fingerprint).then_some(name))
        };
        given(owner).or_else(|| {
            let earlier = given(Owner::Earlier)?;
            (!self.knows(owner, &earlier)).then_some(earlier)
        })
    }

    /// The first name for a server in place of `base` that no other server has.
    fn free(&self, owner: Owner, base: &str, fingerprint: &str) -> String {
        // All digits distinguish any two servers.
        let longest = || format!("{base}#{fingerprint}");
        if !self.has_room(owner) {
            let digits = fingerprint.get(..UNREMEMBERED_DIGITS);
            let name = digits.map_or_else(longest, |digits| format!("{base}#{digits}"));
            return if self.is_free(owner, &name, fingerprint) {
                name
            } else {
                longest()
            };
        }
        candidates(base, fingerprint)
            .find(|name| self.is_free(owner, name, fingerprint))
            .unwrap_or_else(longest)
    }

    fn is_free(&self, owner: Owner, name: &str, fingerprint: &str) -> bool {
        [owner, Owner::Earlier].into_iter().all(|owner| {
            let claimed = self.fingerprint(owner, name);
            claimed.is_none_or(|claimed| **claimed == *fingerprint)
        })
    }
}

/// The names that a server may be given, in order of preference.
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

    const ALICE: Option<u32> = Some(1000);
    const BOB: Option<u32> = Some(1001);

    fn server(fingerprint: &str) -> ServerIdentity {
        ServerIdentity {
            server_id: ServerId("github".into()),
            fingerprint: fingerprint.to_owned(),
            name_source: "test".to_owned(),
            publisher: None,
            former: None,
        }
    }

    fn known(names: &[(&str, &str)]) -> ServerNames {
        known_to(Owner::User(1000), names)
    }

    fn known_to(owner: Owner, names: &[(&str, &str)]) -> ServerNames {
        let claimed = |(name, print): &(&str, &str)| (owner, Arc::from(*name), Arc::from(*print));
        ServerNames::known(names.iter().map(claimed), Sharing::default())
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

    /// The assigned name, and the name whose pins it takes over.
    fn assigned(names: &mut ServerNames, identity: ServerIdentity) -> (String, Option<String>) {
        let ServerIdentity {
            server_id, former, ..
        } = names.assign(ALICE, identity);
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
            // The former identity is not robbed of its name.
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
        assert_eq!(names.assign(ALICE, real.clone()), real);
        let renamed = names.assign(ALICE, fake.clone());
        assert_eq!(&*renamed.server_id.0, "github#1111");
        assert_eq!(names.assign(ALICE, real.clone()), real);
        assert_eq!(names.assign(ALICE, fake.clone()), renamed);

        // The first digits are the same: another group of digits tells the two apart.
        let twin = names.assign(ALICE, server("1111222255556666"));
        assert_eq!(&*twin.server_id.0, "github#11112222");

        // Names assigned before a restart are valid after it, whichever server comes first.
        let mut again = known(&[&real, &renamed].map(|one| (&*one.server_id.0, &*one.fingerprint)));
        assert_eq!(again.assign(ALICE, fake), renamed);
        assert_eq!(again.assign(ALICE, real.clone()), real);
    }

    #[test]
    fn a_server_without_room_carries_enough_of_its_fingerprint() {
        let taken: Vec<String> = (0..ServerNames::MAX_NAMES_OF_ONE)
            .map(|n| format!("n{n}"))
            .collect();
        let taken: Vec<(&str, &str)> = taken.iter().map(|name| (&**name, "f")).collect();
        let mut names = known(&taken);
        let name = |names: &mut ServerNames, uid, digits: &str| {
            names.assign(uid, server(digits)).server_id.to_string()
        };
        assert_eq!(
            name(&mut names, ALICE, "aaaabbbbccccdddd1111"),
            "github#aaaabbbbccccdddd"
        );
        assert_eq!(
            name(&mut names, ALICE, "aaaabbbbccccdddc1111"),
            "github#aaaabbbbccccdddc"
        );
        // Another user has room.
        assert_eq!(name(&mut names, BOB, "aaaabbbbccccdddd1111"), "github");
    }

    #[test]
    fn nobody_claims_a_name_before_another_user() {
        let mut names = ServerNames::default();
        let name = |names: &mut ServerNames, uid, print: &str| {
            names.assign(uid, server(print)).server_id.to_string()
        };
        assert_eq!(name(&mut names, BOB, "1111222233334444"), "github");
        assert_eq!(name(&mut names, ALICE, "aaaabbbbccccdddd"), "github");
        assert_eq!(name(&mut names, ALICE, "1111222233334444"), "github#1111");
        assert_eq!(name(&mut names, None, "5555222233334444"), "github");
        let all = Sharing {
            everyone: true,
            ..Sharing::default()
        };
        names.set_sharing(all);
        assert_eq!(name(&mut names, BOB, "1111222233334444"), "github");
        assert_eq!(name(&mut names, ALICE, "aaaabbbbccccdddd"), "github#aaaa");
    }

    #[test]
    fn names_given_before_they_had_owners_stay() {
        const FIRST: &str = "aaaabbbbccccdddd";
        const SECOND: &str = "1111222233334444";
        let before = [("github", FIRST), ("github#1111", SECOND)];
        for uid in [ALICE, BOB, None] {
            let mut names = known_to(Owner::Earlier, &before);
            // Whichever comes first.
            for (print, expected) in [
                ("5555000000000000", "github#5555"),
                (SECOND, "github#1111"),
                (FIRST, "github"),
                (SECOND, "github#1111"),
            ] {
                let name = names.assign(uid, server(print)).server_id.to_string();
                assert_eq!(name, expected, "{uid:?}");
            }
        }
    }
}
