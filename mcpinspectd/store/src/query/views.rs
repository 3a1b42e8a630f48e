//! The tables that a query sees.
//!
//! Their names and columns are a promise; the store's own tables may change behind them. What each column is
//! made of is SQL over the store, and what becomes of it on the way is its [`Kind`].

mod list;
mod view;

pub(super) use self::list::VIEWS;
pub(super) use self::view::{Column, Kind, Source, View};

/// A view, for those who write queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewHelp {
    /// Its name.
    pub name: &'static str,
    /// What its rows are.
    pub about: &'static str,
    /// Its columns: their names, and what they contain.
    pub columns: Vec<(&'static str, &'static str)>,
}

/// The views that a query may read.
pub fn help() -> impl Iterator<Item = ViewHelp> {
    VIEWS.into_iter().map(|view| {
        let shown = view.columns.iter().filter(|column| !column.is_hidden());
        ViewHelp {
            name: view.name,
            about: view.about,
            columns: shown.map(|column| (column.name, column.about)).collect(),
        }
    })
}

#[cfg(test)]
mod tests;
