//! What a guard in front of one server replaces by what.

use std::ops::Range;

use super::{Change, Language, Outcome, Piece};
use crate::launcher;

/// A word of a command, decoded, and its position in the file.
pub(super) struct SpannedWord {
    pub(super) text: String,
    pub(super) at: Range<usize>,
}

/// How a file says to start a server.
pub(super) struct Start {
    /// The command and its arguments.
    pub(super) words: Vec<SpannedWord>,
    /// Where they are written.
    pub(super) form: Form,
}

/// How a command and its arguments are written.
pub(super) enum Form {
    /// As one list, as in OpenCode.
    List,
    /// As two members.
    Members {
        /// What separates the command from a member that follows it, or why none can follow.
        gap: Result<String, Outcome>,
        /// The list of arguments with its brackets.
        list: Option<Range<usize>>,
    },
}

/// A change of one server.
pub(super) struct Plan {
    /// What is replaced in the file.
    pub(super) pieces: Vec<Piece>,
    /// The words that then start the server.
    pub(super) words: Vec<String>,
}

/// Where the guard's words are in the file, or would be, and what is around them.
struct GuardSpan {
    /// Empty without a guard.
    at: Range<usize>,
    before: String,
    between: String,
    after: String,
}

impl GuardSpan {
    /// In front of a word, separated like it from what precedes.
    fn in_front(text: &str, at: Range<usize>) -> Self {
        let between = format!(",{}", blanks_before(text, at.start));
        Self {
            at,
            before: String::new(),
            after: between.clone(),
            between,
        }
    }

    /// Alone between two texts.
    fn alone(at: Range<usize>, before: String, after: &str) -> Self {
        Self {
            at,
            before,
            between: ", ".to_owned(),
            after: after.to_owned(),
        }
    }

    fn filled(self, words: &[String]) -> Piece {
        let new = match words {
            [] => String::new(),
            words => [self.before, words.join(&self.between), self.after].concat(),
        };
        (self.at, new)
    }
}

impl Start {
    /// The command and its arguments.
    pub(super) fn texts(&self) -> Vec<&str> {
        self.words.iter().map(|word| &*word.text).collect()
    }

    /// How many of the words are a guard's in front of the server's own.
    pub(super) fn guard(&self) -> usize {
        launcher::behind_guard(&self.texts()).unwrap_or(0)
    }

    /// What to change in `text`, or why nothing changes.
    pub(super) fn planned(
        &self,
        text: &str,
        language: Language<'_>,
        name: &str,
        change: Change<'_>,
    ) -> Result<Plan, Outcome> {
        let (guard, own) = self.words.split_at(self.guard());
        let [command, arguments @ ..] = own else {
            return Err(Outcome::Unchanged);
        };
        let mut words = match change {
            Change::Unguard if guard.is_empty() => return Err(Outcome::Unchanged),
            Change::Unguard => Vec::new(),
            Change::Guard { program, options } => {
                if arguments.is_empty() && self.may_be_line(language, &command.text) {
                    return Err(Outcome::Unusable(
                        "its command contains arguments: write the first word as `command`, the others as `args`",
                    ));
                }
                let mut words = vec![program.to_owned(), "guard".to_owned()];
                words.extend(options(name));
                words.push("--".to_owned());
                words
            }
        };
        let mut spelled: Vec<String> = words.iter().map(|word| language.quoted(word)).collect();
        let spot = self.spot(text, language, command, arguments)?;
        let mut pieces = Vec::new();
        if let (Form::Members { .. }, Some(first)) = (&self.form, self.words.first()) {
            spelled.push(text[command.at.clone()].to_owned());
            pieces.push((first.at.clone(), spelled.remove(0)));
        }
        pieces.push(spot.filled(&spelled));
        if pieces.iter().all(|(at, new)| text[at.clone()] == **new) {
            return Err(Outcome::Unchanged);
        }
        words.extend(own.iter().map(|word| word.text.clone()));
        Ok(Plan { pieces, words })
    }

    /// Whether a command without arguments may be several words. Codex does not split it.
    fn may_be_line(&self, language: Language<'_>, command: &str) -> bool {
        matches!(language, Language::Json(_))
            && matches!(self.form, Form::Members { .. })
            && command.contains(' ')
            && !command.starts_with('/')
    }

    /// Where the guard's words are in front of the server's own command and arguments. In members, the own
    /// command is the last of them.
    fn spot(
        &self,
        text: &str,
        language: Language<'_>,
        command: &SpannedWord,
        arguments: &[SpannedWord],
    ) -> Result<GuardSpan, Outcome> {
        let [first, others @ ..] = &*self.words else {
            return Err(Outcome::Unchanged);
        };
        let (gap, list) = match &self.form {
            Form::List => return Ok(GuardSpan::in_front(text, first.at.start..command.at.start)),
            Form::Members { gap, list } => (gap, list),
        };
        let end = first.at.end;
        let Some(list) = list else {
            let gap = gap.as_ref().map_err(|why| *why)?;
            let before = format!("{gap}{}", language.new_list());
            return Ok(GuardSpan::alone(end..end, before, " ]"));
        };
        Ok(match (others.first(), arguments.first()) {
            (Some(first), Some(next)) => GuardSpan::in_front(text, first.at.start..next.at.start),
            (None, _) => {
                let inside = list.start + 1;
                GuardSpan::alone(inside..inside, String::new(), "")
            }
            (Some(first), None) => {
                // The list goes with the guard if it was inserted with it.
                let before = text.get(end..first.at.start).unwrap_or_default();
                let gap = before.strip_suffix(language.new_list());
                let gap = gap.map(|gap| gap.strip_prefix(',').unwrap_or(gap));
                let is_added = gap.is_some_and(|gap| gap.chars().all(char::is_whitespace))
                    && text.get(command.at.end..list.end) == Some(" ]");
                match is_added {
                    true => GuardSpan::alone(end..list.end, before.to_owned(), " ]"),
                    false => GuardSpan::alone(first.at.start..command.at.end, String::new(), ""),
                }
            }
        })
    }
}

/// A line break with what follows, if nothing else precedes `at`, or else one blank.
pub(super) fn blanks_before(text: &str, at: usize) -> &str {
    let before = &text[..at];
    let blanks = &before[before.trim_end_matches([' ', '\t', '\r', '\n']).len()..];
    match blanks.contains('\n') {
        true => blanks,
        false => " ",
    }
}
