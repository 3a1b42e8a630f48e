//! Colours, and what replaces them where there must be none.

use ratatui::style::{Color, Modifier, Style};

use super::super::table::Tone;

/// How things look.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    has_colour: bool,
}

impl Palette {
    pub fn new(has_colour: bool) -> Self {
        Self { has_colour }
    }

    /// The look of a text.
    pub fn style(self, tone: Tone) -> Style {
        let colour = match tone {
            Tone::Plain => return Style::new(),
            Tone::Dim => return Style::new().add_modifier(Modifier::DIM),
            Tone::Good => Color::Green,
            Tone::Warning => Color::Yellow,
            Tone::Bad => Color::Red,
            Tone::Frozen => Color::Cyan,
        };
        match (self.has_colour, tone) {
            (true, _) => Style::new().fg(colour),
            (false, Tone::Bad | Tone::Warning) => self.title(),
            (false, _) => Style::new(),
        }
    }

    /// The look of titles.
    pub fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The look of what is selected.
    pub fn here(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
