//! A server on the Rust SDK. With the argument `pipes` it takes the SDK's non-blocking standard
//! streams, which open the pipes a second time. ECHO_DESCRIPTION says what its tool says of itself.

#[path = "shared/logged.rs"]
mod logged;

use anyhow::Result;
use logged::{Logged, open_log};
use rmcp::handler::server::{router::tool::ToolRouter, wrapper::Parameters};
use rmcp::model::{ServerCapabilities, ServerConfig};
use rmcp::{ServerHandler, ServiceExt, schemars, tool, tool_handler, tool_router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct EchoArguments {
    /// What to give back.
    message: String,
}

#[derive(Clone)]
struct Echo {
    tool_router: ToolRouter<Self>,
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

#[tokio::main]
async fn main() -> Result<()> {
    let log = open_log("server")?;
    let mut tool_router = Echo::tool_router();
    if let (Ok(text), Some(tool)) = (
        std::env::var("ECHO_DESCRIPTION"),
        tool_router.map.get_mut("echo"),
    ) {
        tool.attr.description = Some(text.into());
    }
    let echo = Echo { tool_router };
    if std::env::args().nth(1).as_deref() == Some("pipes") {
        let (input, output) = rmcp::transport::stdio_pipes();
        let wire = (Logged::new(input, &log), Logged::new(output, &log));
        echo.serve(wire).await?.waiting().await?;
    } else {
        let (input, output) = rmcp::transport::stdio();
        let wire = (Logged::new(input, &log), Logged::new(output, &log));
        echo.serve(wire).await?.waiting().await?;
    }
    Ok(())
}
