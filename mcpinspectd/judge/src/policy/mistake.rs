//! Mistakes in what a rule says, and the small texts that every part of one may contain: paths and times.

use std::time::Duration;

use jiff::SignedDuration;
use mcpinspect_core::json_path::{PathError, Pattern};
use toml::Spanned;

/// The longest path, in bytes.
const PATH_LIMIT: usize = 200;

/// What is wrong with something in a file, and at which byte.
pub(super) type Mistake = (usize, String);

/// A mistake at a value.
pub(super) fn at<T>(value: &Spanned<T>, problem: impl Into<String>) -> Mistake {
    (value.span().start, problem.into())
}

/// A path below parameters or a result.
pub(super) fn path(text: &Spanned<String>) -> Result<Pattern, Mistake> {
    let path = text.get_ref();
    if path.len() > PATH_LIMIT {
        return Err(at(text, format!("a path of more than {PATH_LIMIT} bytes")));
    }
    let whole = match path.starts_with("[\"") {
        true => format!("*{path}"),
        false => format!("*.{path}"),
    };
    whole.parse().map_err(|error: PathError| {
        let problem =
            format!("invalid path `{path}`: {error}. A path begins with a member: arguments.path");
        at(text, problem)
    })
}

/// A time, in words: `500ms`, `10s`, `5m`, `1h`.
pub(super) fn duration(text: &Spanned<String>, max: Duration) -> Result<Duration, Mistake> {
    let parsed: Option<SignedDuration> = text.get_ref().parse().ok();
    let duration = parsed.and_then(|duration| Duration::try_from(duration).ok());
    let duration = duration.filter(|duration| !duration.is_zero() && *duration <= max);
    duration.ok_or_else(|| {
        let problem = format!(
            "invalid duration `{}`: write 500ms, 10s, 5m or 1h, at most {}s",
            text.get_ref(),
            max.as_secs()
        );
        at(text, problem)
    })
}
