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

use super::recordings::QuerySource;

/// Serve recorded data to an agent, as an MCP server on standard input and output
///
/// Offers inspect_state (SQL), list_views, list_servers, list_tools, recent_findings,
/// explain_finding, diff_tool and search_messages. It changes nothing. An agent of root can read
/// everything, an agent of another user only data about servers that run as this user.
#[derive(clap::Args)]
pub struct Mcp {
    #[command(flatten)]
    source: QuerySource,
}

impl Mcp {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        super::daemon::on_bus(async {
            let server = server::Server::new(self.source);
            let running = server
                .serve(rmcp::transport::stdio())
                .await
                .context("the client did not begin a session")?;
            running
                .waiting()
                .await
                .context("the session ended unexpectedly")?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
