//! Assembling pages into listings.
//!
//! A tool that is missing from a listing is gone only if the listing is complete: from a first page (no
//! cursor in the request) through each `nextCursor` to a page without one, with nothing lost in between. A
//! client may start over at any time or fetch two listings at once, so unfinished listings are kept by
//! the cursor that they wait for.

use std::collections::{HashMap, HashSet};

use sha2::{Digest as _, Sha256};

use super::Page;
use super::id::IdKey;

/// Most unfinished listings; a client that starts more has given up on the others.
const MAX_UNFINISHED: usize = 8;

/// Most names to keep of a listing; a longer one never completes. The registry keeps the same number of a
/// server's tools.
const MAX_NAMES: usize = 4096;

/// A tool's name, for comparing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListedName([u8; 16]);

impl ListedName {
    /// The name `name`.
    pub fn of(name: &str) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&Sha256::digest(name)[..16]);
        Self(half)
    }
}

/// The listings of one session.
#[derive(Debug, Default)]
pub struct Listings {
    unfinished: HashMap<IdKey, HashSet<ListedName>>,
}

impl Listings {
    /// Takes in a page with the tools `names`. Returns all names of the listing if this completes it.
    pub fn page(
        &mut self,
        page: &Page,
        names: impl Iterator<Item = ListedName>,
        next: Option<IdKey>,
    ) -> Option<HashSet<ListedName>> {
        let mut listing = match page {
            Page::First => HashSet::new(),
            Page::At(cursor) => self.unfinished.remove(cursor)?,
            Page::Unknown => return None,
        };
        listing.extend(names);
        let Some(next) = next else {
            return Some(listing);
        };
        if listing.len() <= MAX_NAMES {
            if self.unfinished.len() >= MAX_UNFINISHED {
                self.unfinished.clear();
            }
            self.unfinished.insert(next, listing);
        }
        None
    }

    /// Notes that a page may have been lost: no unfinished listing can complete.
    pub fn gap(&mut self) {
        self.unfinished.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(
        listings: &mut Listings,
        page: Page,
        names: &[&str],
        next: Option<&str>,
    ) -> Option<Vec<String>> {
        let listed = names.iter().map(|name| ListedName::of(name));
        let listing = listings.page(&page, listed, next.map(IdKey::of_text))?;
        let known = ["a", "b", "c", "d"].map(String::from);
        let names: Vec<String> = known
            .into_iter()
            .filter(|name| listing.contains(&ListedName::of(name)))
            .collect();
        assert_eq!(names.len(), listing.len());
        Some(names)
    }

    fn strings(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_single_page_is_a_complete_listing() {
        assert_eq!(
            page(&mut Listings::default(), Page::First, &["a"], None),
            strings(&["a"])
        );
        assert_eq!(
            page(&mut Listings::default(), Page::First, &[], None),
            strings(&[])
        );
    }

    #[test]
    fn pages_add_up() {
        let mut listings = Listings::default();
        assert_eq!(page(&mut listings, Page::First, &["a"], Some("2")), None);
        assert_eq!(page(&mut listings, Page::at("2"), &["b"], Some("3")), None);
        assert_eq!(
            page(&mut listings, Page::at("3"), &["c"], None),
            strings(&["a", "b", "c"])
        );
        // The last page again completes nothing.
        assert_eq!(page(&mut listings, Page::at("3"), &["c"], None), None);
    }

    #[test]
    fn listings_may_overlap() {
        let mut listings = Listings::default();
        page(&mut listings, Page::First, &["a"], Some("x2"));
        page(&mut listings, Page::First, &["b"], Some("y2"));
        assert_eq!(
            page(&mut listings, Page::at("x2"), &["c"], None),
            strings(&["a", "c"])
        );
        assert_eq!(
            page(&mut listings, Page::at("y2"), &["d"], None),
            strings(&["b", "d"])
        );
    }

    #[test]
    fn a_listing_with_a_gap_never_completes() {
        let mut listings = Listings::default();
        page(&mut listings, Page::First, &["a"], Some("2"));
        listings.gap();
        assert_eq!(page(&mut listings, Page::at("2"), &["b"], None), None);
        assert_eq!(page(&mut listings, Page::Unknown, &["b"], None), None);
    }

    #[test]
    fn abandoned_listings_are_bounded() {
        let mut listings = Listings::default();
        for index in 0..1000 {
            page(&mut listings, Page::First, &["a"], Some(&index.to_string()));
        }
        assert!(listings.unfinished.len() <= MAX_UNFINISHED);
    }
}
