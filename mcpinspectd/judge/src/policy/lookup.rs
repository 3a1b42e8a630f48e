//! Finds the values that paths lead to, in the text itself.
//!
//! A tree of a message takes many times its memory, and rules look at two or three of its values. So all
//! paths descend together, and only where one of them leads further. Each level of nesting that a path enters is
//! read again, which bounds the work by the depth of the path, or for `**` by [`MAX_DEPTH`].

use mcpinspect_core::json_path::{Down, Pattern, Position};
use mcpinspect_core::mcp::ambiguity::MAX_DEPTH;
use mcpinspect_core::mcp::json;
use serde_json::value::RawValue;
use smallvec::SmallVec;

/// A path in progress, with the number that its user knows it by.
#[derive(Clone, Copy)]
struct Walker<'p> {
    number: usize,
    path: &'p Pattern,
    at: Position,
}

type Walkers<'p> = SmallVec<[Walker<'p>; 4]>;

/// Calls `found` with the number of a path and each value that it leads to below `root`, outermost first.
pub(super) fn lookup<'a, 'p>(
    root: &'a RawValue,
    paths: impl IntoIterator<Item = (usize, &'p Pattern)>,
    mut found: impl FnMut(usize, &'a RawValue),
) {
    let walkers: Walkers<'p> = paths
        .into_iter()
        .map(|(number, path)| Walker {
            number,
            path,
            at: path.start(),
        })
        .collect();
    arrive(root, &walkers, 0, &mut found);
}

fn arrive<'a>(
    value: &'a RawValue,
    walkers: &Walkers<'_>,
    depth: usize,
    found: &mut dyn FnMut(usize, &'a RawValue),
) {
    for walker in walkers {
        if walker.path.ends(walker.at) {
            found(walker.number, value);
        }
    }
    if walkers.is_empty() || depth > MAX_DEPTH {
        return;
    }
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') => {
            // The text was validated with its message.
            let _ = json::members(
                text,
                |key| {
                    let key = String::from_utf8_lossy(key);
                    go_on(walkers, Down::Member(&key), RawValue::NULL)
                },
                |walkers, child| arrive(child, &walkers, depth + 1, found),
            );
        }
        Some(b'[') => {
            let mut index = 0;
            let _ = json::elements(text, |child| {
                let walkers = go_on(walkers, Down::Element(index), child);
                arrive(child, &walkers, depth + 1, found);
                index += 1;
                true
            });
        }
        _ => {}
    }
}

/// The paths that lead further. Only steps to elements look at the child.
fn go_on<'p>(walkers: &Walkers<'p>, down: Down<'_>, child: &RawValue) -> Walkers<'p> {
    let onward = walkers.iter().map(|walker| Walker {
        at: walker.path.step(walker.at, down, child),
        ..*walker
    });
    onward.filter(|walker| !walker.at.is_lost()).collect()
}
