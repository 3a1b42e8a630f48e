//! What is judged: one definition, one result, one request.

use crate::detect::category::Surface;

/// What a definition or a part of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A tool's definition.
    Tool,
    /// A prompt's, resource's or template's definition, or a server's instructions.
    Declaration,
    /// A tool's result.
    ToolResult,
    /// A resource's content or a prompt's messages.
    Content,
    /// A request of the server to the model.
    Sampling,
    /// A request of the server to the user.
    Elicitation,
    /// An error.
    Error,
    /// A log message or another notification.
    Notification,
    /// Arguments of a call.
    Arguments,
}

impl Subject {
    /// Who wrote it and who reads it.
    pub fn surface(self) -> Surface {
        match self {
            Self::Tool | Self::Declaration => Surface::Definition,
            Self::Arguments => Surface::Argument,
            Self::ToolResult
            | Self::Content
            | Self::Sampling
            | Self::Elicitation
            | Self::Error
            | Self::Notification => Surface::Content,
        }
    }

    /// The word used externally.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Declaration => "declaration",
            Self::ToolResult => "tool_result",
            Self::Content => "content",
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
            Self::Error => "error",
            Self::Notification => "notification",
            Self::Arguments => "arguments",
        }
    }
}
