//! The specification's own examples of messages: each must be read as what its folder says it is.
//!
//! They are not part of this repository, so this is an option of the evaluation rather than a test.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use mcpinspect_core::mcp::message::{Message, Outcome, Payload, Request, parse};
use mcpinspect_core::mcp::view::{Params, ServerResult, Tool};
use serde_json::value::RawValue;

/// Reads `directory/KIND/*.json`, the layout of `schema/REVISION/examples` in the specification. Returns how many
/// were read.
///
/// # Errors
///
/// If a file cannot be read, or one is not taken for what it is.
pub fn check(directory: &Path) -> Result<usize> {
    let mut examples = 0;
    for folder in std::fs::read_dir(directory)? {
        let folder = folder?;
        let kind = folder.file_name().to_string_lossy().into_owned();
        for file in std::fs::read_dir(folder.path())? {
            let path = file?.path();
            let text = std::fs::read_to_string(&path)?;
            example(&kind, &text).with_context(|| path.display().to_string())?;
            examples += 1;
        }
    }
    ensure!(examples > 0, "no examples in {}", directory.display());
    Ok(examples)
}

fn example(kind: &str, text: &str) -> Result<()> {
    match kind {
        _ if kind.ends_with("ResultResponse") => {
            let Message::Response(response) = message(text)? else {
                bail!("not a response");
            };
            ensure!(response.id.is_some(), "no id");
            let Outcome::Result(result) = response.outcome else {
                bail!("not a result");
            };
            whole_result(kind, &ServerResult::read(result))
        }
        // Requests in `inputRequests` have no envelope of their own.
        "CreateMessageRequest" | "ElicitRequest" | "ListRootsRequest" => Ok(()),
        _ if kind.ends_with("Request") => match message(text)? {
            Message::Request(request) => whole_request(&request),
            _ => bail!("not a request"),
        },
        _ if kind.ends_with("Notification") => {
            ensure!(
                matches!(message(text)?, Message::Notification(_)),
                "not a notification"
            );
            Ok(())
        }
        "Tool" => {
            let tool = Tool::read(raw(text)?);
            ensure!(
                tool.name.is_some() && tool.input_schema.is_some(),
                "not a tool"
            );
            Ok(())
        }
        "InputRequiredResult" => {
            let result = ServerResult::read(raw(text)?);
            ensure!(result.result_type.as_deref() == Some("input_required"));
            ensure!(result.request_state.is_some(), "no state");
            Ok(())
        }
        _ => raw(text).map(drop),
    }
}

fn whole_request(request: &Request<'_>) -> Result<()> {
    let params = request.params.context("no parameters")?;
    let meta = Params::read(params).meta.context("no _meta")?;
    ensure!(meta.protocol_version.is_some(), "no protocol version");
    ensure!(meta.client_capabilities.is_some(), "no capabilities");
    Ok(())
}

fn whole_result(kind: &str, result: &ServerResult<'_>) -> Result<()> {
    ensure!(
        result.result_type.as_deref() == Some("complete"),
        "not complete"
    );
    let whole = match kind {
        "ListToolsResultResponse" => result.tools.is_some() && result.next_cursor.is_some(),
        "DiscoverResultResponse" => {
            let meta = result.meta.as_ref();
            result.supported_versions.is_some()
                && meta.is_some_and(|meta| meta.server_info.is_some())
        }
        "CallToolResultResponse" => result.content.is_some(),
        _ => true,
    };
    ensure!(whole, "a member is missing");
    Ok(())
}

fn message(text: &str) -> Result<Message<'_>> {
    match parse(text.as_bytes()) {
        Ok(Payload::Single(parsed)) if parsed.irregular.is_none() => Ok(parsed.message),
        Ok(_) => bail!("not a single regular message"),
        Err(error) => bail!("not a message: {error:?}"),
    }
}

fn raw(text: &str) -> Result<&RawValue> {
    Ok(serde_json::from_str(text)?)
}
