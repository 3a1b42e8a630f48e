//! A recording as a picture that moves: SVG with a little CSS, and no script.
//!
//! It plays once, and shows where it began to readers who want no motion and to programs that know
//! no animation.

use std::fmt::Write as _;
use std::time::Duration;

use super::recording::{COLUMNS, Piece, Row};

/// Rows that are seen at a time.
const VISIBLE: usize = 26;
/// Width of a character and height of a row.
const CELL: (f64, f64) = (7.2, 17.0);
/// Around the text.
const MARGIN: f64 = 14.0;
/// The title bar.
const BAR: f64 = 30.0;

/// The eight colours: black, red, green, yellow, blue, magenta, cyan, white.
const COLOURS: [&str; 8] = [
    "#6e7681", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#e6edf3",
];

/// The picture.
pub fn of(rows: &[Row]) -> String {
    let width = COLUMNS as f64 * CELL.0 + 2.0 * MARGIN;
    let height = VISIBLE as f64 * CELL.1 + 2.0 * MARGIN + BAR;
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"12\">\n\
         <title>A recording of mcpinspectd tap</title>\n<style>\n{}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n",
        style(rows)
    );
    for (at, colour) in ["#ff5f57", "#febc2e", "#28c840"].into_iter().enumerate() {
        let _ = writeln!(
            picture,
            "<circle cx=\"{}\" cy=\"16\" r=\"5\" fill=\"{colour}\"/>",
            18 + 18 * at
        );
    }
    let _ = writeln!(
        picture,
        "<text x=\"50%\" y=\"20\" text-anchor=\"middle\" class=\"t\">$ sudo mcpinspectd tap</text>\n\
         <svg x=\"{MARGIN}\" y=\"{}\" width=\"{:.0}\" height=\"{:.0}\"><g class=\"s\">",
        BAR + MARGIN,
        width - MARGIN,
        VISIBLE as f64 * CELL.1
    );
    for (at, row) in rows.iter().enumerate() {
        let _ = write!(
            picture,
            "<g style=\"animation-delay:{:.2}s\" class=\"r\">",
            row.time.as_secs_f64()
        );
        let base = (at as f64 + 0.75) * CELL.1;
        row.pieces
            .iter()
            .for_each(|piece| text(&mut picture, piece, base));
        picture.push_str("</g>\n");
    }
    picture.push_str("</g></svg>\n</svg>\n");
    picture
}

fn style(rows: &[Row]) -> String {
    let mut style = String::from(
        "text { fill: #c9d1d9; white-space: pre; }\n.t { fill: #8b949e; }\n.b { font-weight: bold; }\n\
         .d { opacity: .6; }\n",
    );
    for (at, colour) in COLOURS.iter().enumerate() {
        let _ = writeln!(style, ".c{at} {{ fill: {colour}; }}");
    }
    let end = rows.last().map_or(Duration::ZERO, |row| row.time);
    let _ = write!(
        style,
        ".r {{ animation: r .01s backwards; }}\n@keyframes r {{ from {{ opacity: 0; }} }}\n\
         .s {{ animation: s {:.2}s step-end forwards; }}\n@keyframes s {{\n{}}}\n\
         @media (prefers-reduced-motion: reduce) {{ .r, .s {{ animation: none; }} }}\n",
        end.as_secs_f64().max(0.01),
        scrolling(rows, end)
    );
    style
}

/// When the rows move up, and how far.
fn scrolling(rows: &[Row], end: Duration) -> String {
    let mut steps = String::from("0% { transform: none; }\n");
    for (at, row) in rows.iter().enumerate().skip(VISIBLE) {
        let last_of_its_time = rows.get(at + 1).is_none_or(|next| next.time != row.time);
        if last_of_its_time {
            let share = row.time.as_secs_f64() / end.as_secs_f64() * 100.0;
            let up = (at + 1 - VISIBLE) as f64 * CELL.1;
            let _ = writeln!(
                steps,
                "{share:.2}% {{ transform: translateY(-{up:.0}px); }}"
            );
        }
    }
    steps
}

fn text(picture: &mut String, piece: &Piece, base: f64) {
    let shown = piece.text.trim_end();
    // Blanks in front are a matter of where it stands.
    let blanks = shown.len() - shown.trim_start().len();
    let shown = shown.trim_start();
    if shown.is_empty() {
        return;
    }
    let mut classes = Vec::new();
    if piece.style.bold {
        classes.push("b".to_owned());
    }
    if piece.style.dim {
        classes.push("d".to_owned());
    }
    if let Some(colour) = piece.style.colour {
        classes.push(format!("c{colour}"));
    }
    let class = match classes.is_empty() {
        true => String::new(),
        false => format!(" class=\"{}\"", classes.join(" ")),
    };
    // Whatever font there is, each character takes one cell.
    let _ = write!(
        picture,
        "<text x=\"{:.1}\" y=\"{base:.1}\" textLength=\"{:.1}\"{class}>{}</text>",
        (piece.column + blanks) as f64 * CELL.0,
        shown.chars().count() as f64 * CELL.0,
        escaped(shown)
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::recording::Style;
    use super::*;

    #[test]
    fn text_is_escaped_and_rows_scroll_when_they_are_many() {
        let row = |second| Row {
            time: Duration::from_secs(second),
            pieces: vec![Piece {
                column: 0,
                text: "  <b> & so on ".into(),
                style: Style::default(),
            }],
        };
        let few = of(&[row(1)]);
        assert!(few.contains("x=\"14.4\""), "{few}");
        assert!(few.contains(">&lt;b&gt; &amp; so on</text>"), "{few}");
        assert!(!few.contains("translateY"));
        let many: Vec<Row> = (0..=26).map(row).collect();
        assert!(of(&many).contains("100.00% { transform: translateY(-17px); }"));
    }
}
