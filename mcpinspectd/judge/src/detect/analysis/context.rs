//! What else is known about a subject.

use mcpinspect_core::model::Timestamp;

use crate::detect::cross_server::{ToolIndex, ToolProfile};

/// What else is known about a subject.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnalysisContext<'a> {
    /// The name of the server that it comes from.
    pub server: Option<&'a str>,
    /// The user that the server runs as.
    pub user: Option<u32>,
    /// The name of the tool, unless the subject is the tool itself.
    pub tool: Option<&'a str>,
    /// The current time, since suppressions end.
    pub time: Timestamp,
    /// The tools of all servers, if known. They count only if `server` is known too.
    pub tools: Option<&'a ToolIndex>,
    /// The tool's profile, if the caller has it.
    pub profile: Option<&'a ToolProfile>,
    /// Whether some of the subject was left out when it was read.
    pub incomplete: bool,
}
