//! The server's side of the protocol.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use tokio::task::spawn_blocking;

use super::answers::answer;
use super::tools::{self, Call};
use crate::recordings::QuerySource;

/// What the server tells a model about itself.
const INSTRUCTIONS: &str = "Answers questions about the MCP servers of this machine: what they offered, what was \
     said to them, what they answered, and what was found suspicious. It reads recordings and changes nothing.";

/// The server.
pub struct Server {
    source: Arc<QuerySource>,
}

impl Server {
    /// Answers from `source`.
    pub fn new(source: QuerySource) -> Self {
        Self {
            source: Arc::new(source),
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("mcpinspect", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = Call::parse(&request.name, request.arguments)
            .map_err(|error| ErrorData::invalid_params(error, None))?;
        let source = Arc::clone(&self.source);
        // A query waits for its process, or for the daemon.
        let reply = spawn_blocking(move || answer(&source, call))
            .await
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let result = match reply {
            Ok(value) => CallToolResult::structured(value),
            Err(value) => CallToolResult::structured_error(value),
        };
        Ok(result.into())
    }
}
