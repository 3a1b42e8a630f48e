//! What a table is made of.

/// Where a view's rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::query) enum Source {
    /// The message store.
    Messages,
    /// The registry of pins.
    Registry,
}

/// What a value of the store becomes.
#[derive(Clone, Copy, Debug)]
pub(in crate::query) enum Kind {
    /// Text, unchanged.
    Text,
    /// An integer, unchanged.
    Integer,
    /// Nanoseconds since 1970; becomes RFC 3339.
    Time,
    /// A number that stands for a word.
    Word(fn(usize) -> String),
    /// A histogram of latencies; becomes one of its quantiles, in nanoseconds.
    Quantile(f64),
    /// A message's text, from its block.
    Body,
    /// Hidden: words that the message must contain.
    Words,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(in crate::query) struct Column {
    pub(in crate::query) name: &'static str,
    pub(in crate::query) kind: Kind,
    /// What it is made of.
    pub(in crate::query) sql: &'static str,
    /// Whether conditions on it narrow down what is read from the store. `sql` is then a plain column of the
    /// declared type, so that both sides compare alike.
    pub(in crate::query) is_pushed: bool,
    pub(in crate::query) about: &'static str,
}

impl Column {
    pub(super) const fn pushed(self) -> Self {
        Self {
            is_pushed: true,
            ..self
        }
    }

    /// The type declared to SQLite.
    pub(in crate::query) fn declared(&self) -> &'static str {
        match self.kind {
            Kind::Text | Kind::Time | Kind::Word(_) => "TEXT",
            Kind::Integer | Kind::Quantile(_) => "INTEGER",
            Kind::Body => "",
            Kind::Words => "TEXT HIDDEN",
        }
    }

    pub(in crate::query) fn is_hidden(&self) -> bool {
        matches!(self.kind, Kind::Words)
    }
}

/// A table that a query sees.
#[derive(Debug)]
pub(in crate::query) struct View {
    pub(in crate::query) name: &'static str,
    pub(in crate::query) about: &'static str,
    pub(in crate::query) source: Source,
    pub(in crate::query) from: &'static str,
    /// The condition for every reader.
    pub(in crate::query) always: Option<&'static str>,
    /// The condition for one user, whose id is bound to it.
    pub(in crate::query) of_user: &'static str,
    pub(in crate::query) group: Option<&'static str>,
    pub(in crate::query) columns: &'static [Column],
    /// The most rows to expect, for the planner.
    pub(in crate::query) rows: f64,
    pub(in crate::query) shortcuts: Shortcuts,
}

/// Ways to read less of a large view.
#[derive(Debug, Default)]
pub(in crate::query) struct Shortcuts {
    /// A column whose values few rows share: if it is given, no other shortcut is needed.
    pub(in crate::query) key: Option<&'static str>,
    /// By the full-text index, `word`.
    pub(in crate::query) by_words: Option<&'static str>,
    /// In order of `time`: the text before and after the direction.
    pub(in crate::query) by_time: Option<[&'static str; 2]>,
    /// The condition for rows at or after a time, which is bound to it.
    pub(in crate::query) since: Option<&'static str>,
}

pub(super) const NO_SHORTCUTS: Shortcuts = Shortcuts {
    key: None,
    by_words: None,
    by_time: None,
    since: None,
};

pub(super) const fn column(
    name: &'static str,
    kind: Kind,
    sql: &'static str,
    about: &'static str,
) -> Column {
    Column {
        name,
        kind,
        sql,
        is_pushed: false,
        about,
    }
}

pub(super) const fn text(name: &'static str, sql: &'static str, about: &'static str) -> Column {
    column(name, Kind::Text, sql, about)
}

pub(super) const fn integer(name: &'static str, sql: &'static str, about: &'static str) -> Column {
    column(name, Kind::Integer, sql, about)
}

pub(super) const fn time(name: &'static str, sql: &'static str, about: &'static str) -> Column {
    column(name, Kind::Time, sql, about)
}
