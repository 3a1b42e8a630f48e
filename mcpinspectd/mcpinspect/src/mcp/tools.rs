//! The tools: their names, descriptions and arguments.

use std::sync::Arc;

use mcpinspect_store::query;
use rmcp::handler::server::common::schema_for_type;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A question in SQL.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InspectState {
    /// One SELECT statement.
    pub query: String,
}

/// Without arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Which tools.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListTools {
    /// Only this server's.
    pub server: Option<String>,
}

/// Which findings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecentFindings {
    /// Only about this server.
    pub server: Option<String>,
    /// At most so many, at most 500; 20 by default.
    pub limit: Option<u16>,
}

/// Which finding.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainFinding {
    /// The category of the finding, such as hidden_instructions.
    pub category: String,
}

/// Which tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffTool {
    /// The server's name.
    pub server: String,
    /// The tool's name.
    pub tool: String,
    /// The id of the user whose pin it is, where several users have this server.
    pub uid: Option<u32>,
}

/// What to search for; everything that is given has to hold.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchMessages {
    /// Words that all have to be in the message.
    pub text: Option<String>,
    /// The server.
    pub server: Option<String>,
    /// The method of the message, or of the request that it answers.
    pub method: Option<String>,
    /// The tool that is called, or whose call is answered.
    pub tool: Option<String>,
    /// Only since then: 15m, 24h, 7d, a day such as 2026-11-23, or a time.
    pub since: Option<String>,
    /// Whether only errors are wanted.
    pub errors: Option<bool>,
    /// At most so many, at most 500; 20 by default.
    pub limit: Option<u16>,
}

/// A call of one of the tools.
#[derive(Debug)]
pub enum Call {
    InspectState(InspectState),
    ListViews(Nothing),
    ListServers(Nothing),
    ListTools(ListTools),
    RecentFindings(RecentFindings),
    ExplainFinding(ExplainFinding),
    DiffTool(DiffTool),
    SearchMessages(SearchMessages),
}

impl Call {
    /// Returns the call of the tool `name`.
    ///
    /// # Errors
    /// There is no such tool, or it takes other arguments.
    pub fn parse(name: &str, arguments: Option<JsonObject>) -> Result<Self, String> {
        let arguments = Value::Object(arguments.unwrap_or_default());
        fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
            serde_json::from_value(arguments).map_err(|error| error.to_string())
        }
        match name {
            "inspect_state" => read(arguments).map(Self::InspectState),
            "list_views" => read(arguments).map(Self::ListViews),
            "list_servers" => read(arguments).map(Self::ListServers),
            "list_tools" => read(arguments).map(Self::ListTools),
            "recent_findings" => read(arguments).map(Self::RecentFindings),
            "explain_finding" => read(arguments).map(Self::ExplainFinding),
            "diff_tool" => read(arguments).map(Self::DiffTool),
            "search_messages" => read(arguments).map(Self::SearchMessages),
            _ => Err(format!("unknown tool {name}")),
        }
    }
}

/// What descriptions say if an answer quotes what was recorded.
const QUOTES: &str = "The answer quotes recorded programs; its member `untrusted` says so.";

/// All tools.
pub fn all() -> Vec<Tool> {
    vec![
        tool::<InspectState>(
            "inspect_state",
            "Query recorded sessions",
            format!(
                "Runs one SELECT statement of SQLite over what mcpinspect recorded about the MCP servers of this \
                 machine, and returns at most 500 rows. {QUOTES}\n\nThe views are {}; list_views returns their \
                 columns. Times are RFC 3339 text in UTC. messages('some words') are the messages that contain \
                 these words.",
                views()
            ),
        ),
        tool::<Nothing>(
            "list_views",
            "List the views",
            "Lists the views that inspect_state reads, with their columns.".to_owned(),
        ),
        tool::<Nothing>(
            "list_servers",
            "List recorded servers",
            format!("Lists the MCP servers of recorded sessions, with the number of their sessions, messages and errors. {QUOTES}"),
        ),
        tool::<ListTools>(
            "list_tools",
            "List known tools",
            format!("Lists the tools that MCP servers of this machine have offered, and whether each is as it was when it was pinned. {QUOTES}"),
        ),
        tool::<RecentFindings>(
            "recent_findings",
            "List recent findings",
            format!("Lists the latest findings about recorded sessions, newest first. {QUOTES}"),
        ),
        tool::<ExplainFinding>(
            "explain_finding",
            "Explain a finding",
            "Explains a category of findings: what it means, what causes it and what a person can do about it.".to_owned(),
        ),
        tool::<DiffTool>(
            "diff_tool",
            "Compare a tool with its pin",
            format!("Compares the definition of a tool that was seen last with the pinned one, field by field. {QUOTES}"),
        ),
        tool::<SearchMessages>(
            "search_messages",
            "Search recorded messages",
            format!("Finds recorded MCP messages by words, server, method, tool and time, newest first. {QUOTES}"),
        ),
    ]
}

fn tool<T: JsonSchema + 'static>(
    name: &'static str,
    title: &'static str,
    description: String,
) -> Tool {
    let schema: Arc<JsonObject> = schema_for_type::<T>();
    let annotations = ToolAnnotations::with_title(title)
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    Tool::new(name, description, schema)
        .with_title(title)
        .with_annotations(annotations)
}

/// The names of the views. A separate tool describes their columns: a list of two hundred names is of no use to a
/// model, or to a detector of poisoned descriptions.
fn views() -> String {
    let names: Vec<&str> = query::help().map(|view| view.name).collect();
    names.join(", ")
}
