//! How much the registry keeps, and what it can run out of.

/// What the registry keeps at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryLimits {
    /// Items of one owner.
    pub items_of_one: usize,
    /// Bytes of definitions of one owner, old ones included.
    pub bytes_of_one: u64,
    /// Items of all owners.
    pub items: usize,
    /// Bytes of definitions of all owners.
    pub bytes: u64,
}

impl Default for RegistryLimits {
    fn default() -> Self {
        Self {
            items_of_one: 8192,
            bytes_of_one: 64 << 20,
            items: 65_536,
            bytes: 1 << 30,
        }
    }
}

/// What ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortage {
    /// The items of one server. The definition is not pinned.
    ServerItems,
    /// The items of one owner. The definition is not pinned.
    OwnerItems,
    /// The items of all owners. The definition is not pinned.
    AllItems,
    /// Bytes of definitions. The definition is pinned by its hash, and its text is not kept.
    Bytes,
}

impl Shortage {
    /// The word used externally.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServerItems => "server_items",
            Self::OwnerItems => "user_items",
            Self::AllItems => "all_items",
            Self::Bytes => "bytes",
        }
    }
}
