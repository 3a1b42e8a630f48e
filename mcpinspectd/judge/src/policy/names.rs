//! Members that are spelled almost like a meaningful one.
//!
//! Parsers that ignore case, as Go's does, take `Name` for `name`. A rule that asks for `arguments.path` does
//! not see `arguments.Path`, but such a server does. So a member that differs only in case from a name of the
//! protocol, or of a rule's path, is a doubt.

use std::borrow::Cow;
use std::collections::HashSet;

use mcpinspect_core::json_path::Pattern;
use mcpinspect_core::mcp::ambiguity::MessagePart;

/// Members that JSON-RPC defines, in lower case.
const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
/// Members of parameters that MCP defines and rules ask for without a path.
const PARAMS: [&str; 3] = ["name", "arguments", "uri"];

/// The names that a policy's paths ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    exact: HashSet<String>,
    folded: HashSet<String>,
}

impl Names {
    /// The names in these paths.
    pub(super) fn of<'p>(paths: impl Iterator<Item = &'p Pattern>) -> Self {
        let mut names = Self::default();
        paths.for_each(|path| names.add(path));
        names
    }

    fn add(&mut self, path: &Pattern) {
        for name in path.members() {
            self.exact.insert(name.to_owned());
            self.folded.insert(folded(name).into_owned());
        }
    }

    /// Whether `key` is almost, but not quite, a name with a meaning in its part.
    pub(super) fn is_odd(&self, part: MessagePart, key: &str) -> bool {
        let meant: &[&str] = match part {
            MessagePart::Envelope => &ENVELOPE,
            MessagePart::Params => &PARAMS,
            MessagePart::Inside => &[],
        };
        let of_protocol = |key: &str| meant.contains(&key);
        // Most keys are exactly what they seem.
        if of_protocol(key) || (part != MessagePart::Envelope && self.exact.contains(key)) {
            return false;
        }
        let folded = folded(key);
        of_protocol(&folded) || (part != MessagePart::Envelope && self.folded.contains(&*folded))
    }
}

/// A name as seen by a reader that ignores case. Two letters beyond ASCII fold into it.
fn folded(name: &str) -> Cow<'_, str> {
    let is_folded = |c: char| c.is_ascii() && !c.is_ascii_uppercase();
    if name.chars().all(is_folded) {
        return Cow::Borrowed(name);
    }
    let fold = |c: char| match c {
        'ſ' => 's',
        '\u{212a}' => 'k',
        other => other.to_lowercase().next().unwrap_or(other),
    };
    Cow::Owned(name.chars().map(fold).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_almost_a_name_is_odd() {
        let path: Pattern = match "*.arguments.filePath".parse() {
            Ok(path) => path,
            Err(error) => panic!("{error}"),
        };
        let mut names = Names::default();
        names.add(&path);
        for (part, key, odd) in [
            (MessagePart::Envelope, "method", false),
            (MessagePart::Envelope, "Method", true),
            (MessagePart::Envelope, "paramſ", true),
            (MessagePart::Envelope, "filepath", false),
            (MessagePart::Params, "NAME", true),
            (MessagePart::Params, "name", false),
            (MessagePart::Params, "Arguments", true),
            (MessagePart::Inside, "Name", false),
            (MessagePart::Inside, "filePath", false),
            (MessagePart::Inside, "filepath", true),
            (MessagePart::Inside, "file_path", false),
        ] {
            assert_eq!(names.is_odd(part, key), odd, "{key}");
        }
    }
}
