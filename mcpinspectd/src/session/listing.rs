//! Assembling pages into listings.
//!
//! A tool that is missing from a listing is gone only if the listing is complete: from a first page (no
//! cursor in the request) over each `nextCursor` to a page without one, with nothing lost in between. A
//! client may start over at any time or fetch two listings at once, so unfinished listings are kept by
//! the cursor that they wait for.

use std::collections::{HashMap, HashSet};

use super::Page;
use super::id::IdKey;

/// Most unfinished listings; a client that starts more has given up on the others.
const MAX_UNFINISHED: usize = 8;

/// Most names that are kept of a listing; a longer one never completes.
const MAX_NAMES: usize = 65_536;

/// The listings of one session.
#[derive(Debug, Default)]
pub struct Listings {
    unfinished: HashMap<IdKey, HashSet<Box<str>>>,
}

impl Listings {
    /// Takes in a page with the tools `names`. Returns all names of the listing if this completes it.
    pub fn page(
        &mut self,
        page: &Page,
        names: impl Iterator<Item = Box<str>>,
        next: Option<&str>,
    ) -> Option<HashSet<Box<str>>> {
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
            self.unfinished.insert(IdKey::of_text(next), listing);
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
        let listing = listings.page(&page, names.iter().map(|&name| name.into()), next)?;
        let mut names: Vec<String> = listing.into_iter().map(String::from).collect();
        names.sort();
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
