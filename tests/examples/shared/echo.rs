//! What the servers on the Rust SDK serve.

use rmcp::handler::server::{router::tool::ToolRouter, wrapper::Parameters};
use rmcp::model::{ServerCapabilities, ServerConfig};
use rmcp::{ServerHandler, schemars, tool, tool_handler, tool_router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct EchoArguments {
    /// What to give back.
    message: String,
}

/// A server with one tool.
#[derive(Clone)]
pub struct Echo {
    tool_router: ToolRouter<Self>,
}

impl Echo {
    /// Its tool says of itself what `description` says, if anything.
    pub fn described(description: Option<String>) -> Self {
        let mut tool_router = Self::tool_router();
        if let (Some(text), Some(tool)) = (description, tool_router.map.get_mut("echo")) {
            tool.attr.description = Some(text.into());
        }
        Self { tool_router }
    }
}

#[tool_router]
impl Echo {
    #[tool(description = "Gives back the message.")]
    fn echo(&self, Parameters(EchoArguments { message }): Parameters<EchoArguments>) -> String {
        message
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}
