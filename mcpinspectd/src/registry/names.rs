//! Which name belongs to which server on this machine.
//!
//! Names are claimed: a hostile repository may ship a `.mcp.json` that calls its server `github`. So a
//! name belongs to the first fingerprint seen under it, and every other server of that name is called
//! `github#ab12` after its own fingerprint. Which of two servers has the plain name is stored with the
//! pins.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{ServerId, ServerIdentity};

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
    /// it takes to be unique.
    pub fn assign(&mut self, mut identity: ServerIdentity) -> ServerIdentity {
        let full = self.owners.len() >= Self::MAX_NAMES;
        let is_free = |name: &str| match self.owners.get(name) {
            Some(owner) => **owner == *identity.fingerprint,
            None => !full || name.contains('#'),
        };
        let base = Arc::clone(&identity.server_id.0);
        let mut name = base.to_string();
        let mut digits = 4;
        while !is_free(&name) {
            // All digits distinguish any two servers.
            let fingerprint = &identity.fingerprint;
            name = format!(
                "{base}#{}",
                fingerprint.get(..digits).unwrap_or(fingerprint)
            );
            if digits >= fingerprint.len() {
                break;
            }
            digits += 4;
        }
        identity.server_id = ServerId(name.into());
        if !full {
            self.owners.insert(
                Arc::clone(&identity.server_id.0),
                identity.fingerprint.as_str().into(),
            );
        }
        identity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(fingerprint: &str) -> ServerIdentity {
        ServerIdentity {
            server_id: ServerId("github".into()),
            fingerprint: fingerprint.to_owned(),
            name_source: "test".to_owned(),
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
