//! A list that can be navigated, filtered and sorted, whatever its rows are about.
//!
//! Rows come and go once a second. The selection is remembered by its key, so it stays on the same thing while
//! others move past it.

/// How a text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Dim,
    Good,
    Warning,
    Bad,
    Frozen,
}

/// What a cell is sorted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    Number(u64),
    Text(String),
}

/// One value of a row. Its text is safe to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    pub rank: Rank,
    pub tone: Tone,
}

impl Cell {
    /// A text, sorted by itself.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            rank: Rank::Text(text.to_lowercase()),
            text,
            tone: Tone::Plain,
        }
    }

    /// A text that represents a number.
    pub fn number(text: impl Into<String>, number: u64) -> Self {
        Self {
            text: text.into(),
            rank: Rank::Number(number),
            tone: Tone::Plain,
        }
    }

    /// A count; zero is left blank, so that other counts stand out.
    pub fn count(number: u64) -> Self {
        let text = match number {
            0 => String::new(),
            number => number.to_string(),
        };
        Self::number(text, number)
    }

    pub fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub title: &'static str,
    /// Characters; for a column that takes the remaining room, the fewest that are useful.
    pub width: u16,
    pub takes_rest: bool,
    pub is_number: bool,
    /// If there is little room, the column with the lowest value goes first; 9 stays.
    pub keep: u8,
}

impl Column {
    pub const fn text(title: &'static str, width: u16, keep: u8) -> Self {
        Self {
            title,
            width,
            takes_rest: false,
            is_number: false,
            keep,
        }
    }

    /// The column that takes the remaining room.
    pub const fn rest(title: &'static str, least: u16) -> Self {
        Self {
            takes_rest: true,
            ..Self::text(title, least, 9)
        }
    }

    pub const fn number(title: &'static str, width: u16, keep: u8) -> Self {
        Self {
            is_number: true,
            ..Self::text(title, width, keep)
        }
    }
}

/// A row. Its key stays the same as long as it is about the same thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub key: String,
    pub cells: Vec<Cell>,
}

/// Rows under their columns.
#[derive(Clone, Debug)]
pub struct Table {
    pub columns: &'static [Column],
    pub rows: Vec<Row>,
}

impl Table {
    /// The rows that the list lets through, in its order.
    pub fn arranged(mut self, list: &List) -> Self {
        if !list.filter.is_empty() {
            let wanted = list.filter.to_lowercase();
            self.rows.retain(|row| {
                let mut cells = row.cells.iter();
                cells.any(|cell| cell.text.to_lowercase().contains(&wanted))
            });
        }
        if let Some(column) = list.sort {
            // Names in ascending order, numbers from the largest on.
            let rank = |row: &Row| row.cells.get(column).map(|cell| cell.rank.clone());
            self.rows.sort_by(|one, other| match rank(one) {
                Some(Rank::Number(_)) => rank(other).cmp(&rank(one)),
                _ => rank(one).cmp(&rank(other)),
            });
        }
        if list.is_reversed {
            self.rows.reverse();
        }
        self
    }
}

/// A way to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Up(usize),
    Down(usize),
    First,
    Last,
}

/// Where the user is in a list, and which part of it they want to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The selected row.
    pub at: usize,
    key: Option<String>,
    pub filter: String,
    /// Whether keys edit the filter.
    pub is_editing: bool,
    /// The column to sort by; none for the list's own order.
    pub sort: Option<usize>,
    pub is_reversed: bool,
}

impl List {
    /// The key of the selected row.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Moves in `rows`.
    pub fn step(&mut self, step: Step, rows: &[Row]) {
        let last = rows.len().saturating_sub(1);
        self.at = match step {
            Step::Up(rows) => self.at.saturating_sub(rows),
            Step::Down(rows) => self.at.saturating_add(rows).min(last),
            Step::First => 0,
            Step::Last => last,
        };
        self.key = rows.get(self.at).map(|row| row.key.clone());
    }

    /// Finds the selected row again after rows have changed; if it is gone, its place counts.
    pub fn settle(&mut self, rows: &[Row]) {
        let found = rows
            .iter()
            .position(|row| Some(row.key.as_str()) == self.key());
        match found {
            Some(at) => self.at = at,
            None => self.step(Step::Up(0), rows),
        }
        self.at = self.at.min(rows.len().saturating_sub(1));
        self.key = rows.get(self.at).map(|row| row.key.clone());
    }

    /// Sorts by the next of this many columns, and after the last one in the list's own order.
    pub fn sort_by_next(&mut self, columns: usize) {
        self.sort = match self.sort {
            None => Some(0),
            Some(column) => Some(column + 1).filter(|next| *next < columns),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 2] = [Column::rest("NAME", 5), Column::number("COUNT", 5, 1)];

    fn table(rows: &[(&str, u64)]) -> Table {
        let rows = rows.iter().map(|(name, count)| Row {
            key: (*name).to_owned(),
            cells: vec![Cell::text(*name), Cell::count(*count)],
        });
        Table {
            columns: &COLUMNS,
            rows: rows.collect(),
        }
    }

    fn names(table: &Table) -> Vec<&str> {
        table.rows.iter().map(|row| row.key.as_str()).collect()
    }

    #[test]
    fn names_are_sorted_upwards_and_numbers_downwards() {
        let table = table(&[("b", 1), ("C", 30), ("a", 4)]);
        let mut list = List::default();
        assert_eq!(names(&table.clone().arranged(&list)), ["b", "C", "a"]);
        list.sort_by_next(2);
        assert_eq!(names(&table.clone().arranged(&list)), ["a", "b", "C"]);
        list.sort_by_next(2);
        assert_eq!(names(&table.clone().arranged(&list)), ["C", "a", "b"]);
        list.is_reversed = true;
        assert_eq!(names(&table.clone().arranged(&list)), ["b", "a", "C"]);
        list.sort_by_next(2);
        assert_eq!(list.sort, None);
    }

    #[test]
    fn a_filter_looks_at_all_cells_in_any_case() {
        let table = table(&[("files", 1), ("time", 30), ("Files-2", 4)]);
        let mut list = List::default();
        for (filter, found) in [
            ("FILES", &["files", "Files-2"][..]),
            ("30", &["time"]),
            ("none", &[]),
            ("", &["files", "time", "Files-2"]),
        ] {
            filter.clone_into(&mut list.filter);
            assert_eq!(names(&table.clone().arranged(&list)), found, "{filter}");
        }
    }

    #[test]
    fn the_selection_stays_on_what_was_selected() {
        let mut list = List::default();
        let rows = table(&[("a", 1), ("b", 2), ("c", 3)]).rows;
        list.settle(&rows);
        list.step(Step::Down(1), &rows);
        assert_eq!(list.key(), Some("b"));
        let rows = table(&[("new", 0), ("a", 1), ("c", 3), ("b", 2)]).rows;
        list.settle(&rows);
        assert_eq!((list.at, list.key()), (3, Some("b")));
        // Gone: the row that is in its place now.
        let rows = table(&[("new", 0), ("a", 1)]).rows;
        list.settle(&rows);
        assert_eq!((list.at, list.key()), (1, Some("a")));
        list.step(Step::Down(usize::MAX), &rows);
        assert_eq!(list.at, 1);
        list.step(Step::Up(9), &rows);
        assert_eq!(list.at, 0);
        list.settle(&[]);
        assert_eq!((list.at, list.key()), (0, None));
        list.step(Step::Last, &[]);
        assert_eq!((list.at, list.key()), (0, None));
    }
}
