//! `mcpinspect mcp`: what was recorded, for an agent.
//!
//! An MCP server on standard input and output. It answers the questions that the other commands answer, with the
//! same code and the same rights. Nearly everything it returns was written by watched servers, some of which may
//! be hostile, and its reader is a model: so every such answer says what it is.

mod answers;
mod server;
mod tools;

use std::process::ExitCode;

use anyhow::Context as _;
use rmcp::ServiceExt as _;

use super::recordings::QueryPlace;

/// Serve what was recorded to an agent, as an MCP server on standard input and output
///
/// Offers inspect_state (SQL), list_views, list_servers, list_tools, recent_findings, explain_finding, diff_tool and
/// search_messages. It changes nothing. Root's agent reads everything, that of another user what concerns
/// servers that run as this user.
#[derive(clap::Args)]
pub struct Mcp {
    #[command(flatten)]
    place: QueryPlace,
}

impl Mcp {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        super::daemon::on_bus(async {
            let server = server::Server::new(self.place);
            let running = server
                .serve(rmcp::transport::stdio())
                .await
                .context("the client did not begin a session")?;
            running.waiting().await.context("the session broke off")?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
