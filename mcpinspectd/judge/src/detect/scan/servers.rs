//! The servers of a file `{"servers": {"NAME": {…}, …}}`, in written order.
//!
//! Of two servers with the same tool, the one that comes first had it first and the other is the copy. An object
//! read into a sorted map has lost that order, and the original would be accused of copying. A repeated member
//! counts too: what one reader sees, no other must miss.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// The members of an object, in the order of the text.
struct Ordered(Vec<(String, Value)>);

/// The servers of a file.
#[derive(Default)]
pub(super) struct Servers(pub(super) Vec<(String, Value)>);

impl Servers {
    /// The servers in a text; `None` if it is something else.
    pub(super) fn read(text: &[u8]) -> Option<Vec<(String, Value)>> {
        let Self(servers) = serde_json::from_slice(text).ok()?;
        (!servers.is_empty()).then_some(servers)
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Ordered;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Ordered(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

impl<'de> Deserialize<'de> for Servers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FileVisitor;
        impl<'de> Visitor<'de> for FileVisitor {
            type Value = Servers;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object with servers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Servers, A::Error> {
                let mut all = Servers::default();
                while let Some(key) = map.next_key::<String>()? {
                    if key == "servers" {
                        let Ordered(servers) = map.next_value()?;
                        all.0.extend(servers);
                    } else {
                        let _: IgnoredAny = map.next_value()?;
                    }
                }
                Ok(all)
            }
        }
        deserializer.deserialize_map(FileVisitor)
    }
}
