//! A message or an event in full.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::super::measure::{wrap, wrap_words, wrapped};
use super::super::model::{Loadable, TextView};
use super::super::table::Tone;
use super::Palette;

/// Draws the lines that fit, starting at the scroll position.
pub fn draw(frame: &mut Frame<'_>, view: &TextView, palette: Palette, area: Rect) {
    let lines = match &view.content {
        Loadable::Ready(lines) => lines,
        Loadable::Loading => return,
        Loadable::Failed(problem) => {
            let lines = wrap_words(problem, usize::from(area.width));
            let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
            let style = palette.style(Tone::Warning);
            frame.render_widget(Paragraph::new(lines).style(style), area);
            return;
        }
    };
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let count: usize = lines.iter().map(|line| wrapped(line, width)).sum();
    let first = view.scroll.min(count.saturating_sub(height));
    let mut passed = 0;
    let mut shown = Vec::with_capacity(height);
    for line in lines {
        let rows = wrapped(line, width);
        if passed + rows > first {
            let parts = wrap(line, width).into_iter();
            shown.extend(parts.skip(first.saturating_sub(passed)).map(Line::from));
        }
        passed += rows;
        if shown.len() >= height {
            break;
        }
    }
    frame.render_widget(Paragraph::new(shown), area);
}
