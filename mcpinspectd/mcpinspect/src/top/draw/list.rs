//! A table as wide as the room allows.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table as Widget};

use super::super::measure::{cut, wrap_words};
use super::super::table::{Column, List, Row as TableRow, Table, Tone};
use super::Palette;

/// Characters between columns.
const SPACE: u16 = 2;

/// Draws a table: with a header, and a selected row if there is a list. `empty` is shown instead of missing
/// rows.
pub fn draw(
    frame: &mut Frame<'_>,
    table: &Table,
    list: Option<&List>,
    empty: &str,
    palette: Palette,
    area: Rect,
) {
    if table.rows.is_empty() {
        let is_filtered = list.is_some_and(|list| !list.filter.is_empty());
        let text = if is_filtered {
            "nothing matches the filter"
        } else {
            empty
        };
        let lines = wrap_words(text, usize::from(area.width));
        let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
        frame.render_widget(Paragraph::new(lines).style(palette.style(Tone::Dim)), area);
        return;
    }
    let columns = fitting(table.columns, area.width);
    let widths = widths(table.columns, &columns, area.width);
    // The list's own columns have a header, those of lists below it do without.
    let head = u16::from(list.is_some());
    let room = usize::from(area.height.saturating_sub(head));
    let at = list.map_or(0, |list| list.at);
    // The selected row is the last one shown, or before it.
    let first = (at + 1).saturating_sub(room);
    let shown = table.rows.iter().enumerate().skip(first).take(room);
    let rows = shown.map(|(number, row)| {
        let cells = columns.iter().zip(&widths);
        let cells = cells.map(|(column, width)| cell(table, row, *column, *width, palette));
        let row = Row::new(cells);
        match list.is_some() && number == at {
            true => row.style(palette.here()),
            false => row,
        }
    });
    let constraints = widths.iter().map(|width| Constraint::Length(*width));
    let mut widget = Widget::new(rows, constraints).column_spacing(SPACE);
    if let Some(list) = list {
        let heads = columns.iter().zip(&widths);
        let heads = heads.map(|(column, width)| header(table, list, *column, *width));
        widget = widget.header(Row::new(heads).style(palette.title().add_modifier(Modifier::DIM)));
    }
    frame.render_widget(widget, area);
}

/// The columns that fit, by their numbers.
fn fitting(columns: &[Column], width: u16) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let needed = |kept: &[usize]| -> u16 {
        let widths = kept.iter().map(|column| columns[*column].width);
        widths
            .map(|width| width + SPACE)
            .sum::<u16>()
            .saturating_sub(SPACE)
    };
    while needed(&kept) > width && kept.len() > 1 {
        let Some(least) = kept
            .iter()
            .copied()
            .min_by_key(|column| columns[*column].keep)
        else {
            break;
        };
        kept.retain(|column| *column != least);
    }
    kept
}

/// How wide each of them is.
fn widths(columns: &[Column], kept: &[usize], width: u16) -> Vec<u16> {
    let fixed = kept.iter().map(|column| columns[*column]);
    let fixed = fixed.filter(|column| !column.takes_rest);
    let fixed: u16 = fixed.map(|column| column.width).sum();
    let between = SPACE * u16::try_from(kept.len().saturating_sub(1)).unwrap_or(0);
    let rest = width.saturating_sub(fixed + between);
    let widths = kept.iter().map(|column| match columns[*column] {
        Column {
            takes_rest: true, ..
        } => rest,
        column => column.width,
    });
    widths.collect()
}

fn cell<'a>(
    table: &Table,
    row: &TableRow,
    column: usize,
    width: u16,
    palette: Palette,
) -> Cell<'a> {
    let Some(cell) = row.cells.get(column) else {
        return Cell::default();
    };
    let text = cut(&cell.text, usize::from(width));
    let text = aligned(text, table.columns[column].is_number);
    Cell::new(text).style(palette.style(cell.tone))
}

fn header<'a>(table: &Table, list: &List, column: usize, width: u16) -> Cell<'a> {
    let Column {
        title, is_number, ..
    } = table.columns[column];
    let is_sorted = list.sort == Some(column);
    let mut text = title.to_owned();
    if is_sorted {
        let mark = if list.is_reversed != is_number {
            '↓'
        } else {
            '↑'
        };
        let room = usize::from(width).saturating_sub(1);
        text = format!("{mark}{}", title.get(..room).unwrap_or(title));
    }
    Cell::new(aligned(text, is_number))
}

fn aligned<'a>(text: String, is_number: bool) -> Text<'a> {
    match is_number {
        true => Text::from(text).right_aligned(),
        false => Text::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column::number("AGE", 6, 5),
        Column::rest("NAME", 12),
        Column::text("SIZE", 8, 1),
    ];

    #[test]
    fn columns_go_by_how_much_they_are_needed() {
        for (width, kept) in [
            (100, &[0, 1, 2][..]),
            (30, &[0, 1, 2]),
            (29, &[0, 1]),
            (20, &[0, 1]),
            (19, &[1]),
            (0, &[1]),
        ] {
            assert_eq!(fitting(&COLUMNS, width), kept, "{width}");
        }
        assert_eq!(widths(&COLUMNS, &[0, 1, 2], 100), [6, 82, 8]);
        assert_eq!(widths(&COLUMNS, &[1], 7), [7]);
    }
}
