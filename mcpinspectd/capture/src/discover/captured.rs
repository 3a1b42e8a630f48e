//! A segment of a stream, with where it was seen, by whose call, and when.

use mcpinspect_common::{End, EndpointKey};
use mcpinspect_core::model::Segment;

use crate::capture::Origin;

/// What crossed one end of a stream.
#[derive(Clone, Debug)]
pub struct Captured<'a> {
    /// The stream; before that is known, the endpoint.
    pub key: EndpointKey,
    /// The end.
    pub end: End,
    /// What crossed it.
    pub segment: Segment<'a>,
    /// Whose call moved it, and when.
    pub origin: Origin,
}

impl Captured<'_> {
    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Captured<'static> {
        Captured {
            segment: self.segment.into_owned(),
            ..self
        }
    }
}
