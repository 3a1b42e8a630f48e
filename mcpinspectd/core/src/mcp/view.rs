//! The parts of MCP's own types that this crate needs, read from `params` and `result` on demand.
//!
//! A view reads the members that it knows and skips the rest, for every revision alike. A member of an
//! unexpected type counts as absent; of a repeated member the last one counts. Texts are borrowed; if one
//! has escapes, a view has its first 64 KiB.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::json;

/// Defines a view: a struct, and for each of its fields the member that it is read from.
macro_rules! view {
    (
        $(#[$doc:meta])*
        $name:ident { $( $(#[$field_doc:meta])* $field:ident: $type:ty = $key:literal => $read:expr, )+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub struct $name<'a> { $( $(#[$field_doc])* pub $field: $type, )+ }

        impl<'a> $name<'a> {
            /// Reads it; everything is absent if `raw` is not an object.
            pub fn read(raw: &'a RawValue) -> Self {
                #[expect(non_camel_case_types, reason = "one variant a field, of the field's name")]
                #[derive(Clone, Copy)]
                enum Member { $( $field, )+ }
                let mut view = Self::default();
                // Members before a mistake count; the text was validated with its message anyway.
                let _ = json::members(
                    raw.get(),
                    |key| {
                        $( if key == $key.as_bytes() { return Some(Member::$field); } )+
                        None
                    },
                    |member, value: &'a RawValue| match member {
                        $( Some(Member::$field) => view.$field = $read(value), )+
                        None => {}
                    },
                );
                view
            }
        }
    };
}

view! {
    /// The parameters of any request or notification.
    Params {
        /// `_meta`.
        meta: Option<Meta<'a>> = "_meta" => |raw| Some(Meta::read(raw)),
        /// The requested tool or prompt.
        name: Option<Cow<'a, str>> = "name" => json::string,
        /// What the tool or prompt is called with.
        arguments: Option<&'a RawValue> = "arguments" => json::present,
        /// Where the next page starts.
        cursor: Option<&'a RawValue> = "cursor" => text,
        /// The resource that is requested or has changed.
        uri: Option<Cow<'a, str>> = "uri" => json::string,
        /// Answers to the `inputRequests` of an earlier result, by name (2026-07-28).
        input_responses: Option<&'a RawValue> = "inputResponses" => json::present,
        /// What an earlier result asked to have sent back (2026-07-28).
        request_state: Option<&'a RawValue> = "requestState" => text,
        /// The version that `initialize` requests.
        protocol_version: Option<Cow<'a, str>> = "protocolVersion" => json::string,
        /// The client's self-description, in `initialize`.
        client_info: Option<&'a RawValue> = "clientInfo" => json::present,
        /// The client's capabilities, in `initialize`.
        capabilities: Option<&'a RawValue> = "capabilities" => json::present,
        /// The request that `notifications/cancelled` concerns.
        request_id: Option<&'a RawValue> = "requestId" => json::present,
        /// The token of the request that `notifications/progress` concerns.
        progress_token: Option<&'a RawValue> = "progressToken" => json::present,
    }
}

view! {
    /// The parts of any request's result that concern the session or are a list.
    ServerResult {
        /// `_meta`.
        meta: Option<Meta<'a>> = "_meta" => |raw| Some(Meta::read(raw)),
        /// The version that the server chose, in `initialize`.
        protocol_version: Option<Cow<'a, str>> = "protocolVersion" => json::string,
        /// The versions that the server supports, in `server/discover`.
        supported_versions: Option<&'a RawValue> = "supportedVersions" => json::present,
        /// The server's self-description, in `initialize`.
        server_info: Option<&'a RawValue> = "serverInfo" => json::present,
        /// The server's capabilities.
        capabilities: Option<&'a RawValue> = "capabilities" => json::present,
        /// What the server tells the model about itself.
        instructions: Option<&'a RawValue> = "instructions" => json::present,
        /// A page of tools.
        tools: Option<&'a RawValue> = "tools" => array,
        /// A page of prompts.
        prompts: Option<&'a RawValue> = "prompts" => array,
        /// A page of resources.
        resources: Option<&'a RawValue> = "resources" => array,
        /// A page of resource templates.
        resource_templates: Option<&'a RawValue> = "resourceTemplates" => array,
        /// Where the next page starts; absent on the last one.
        next_cursor: Option<&'a RawValue> = "nextCursor" => text,
        /// `complete`, `input_required` or `task` (2026-07-28).
        result_type: Option<Cow<'a, str>> = "resultType" => json::string,
        /// What the server needs before it can continue (2026-07-28).
        input_requests: Option<&'a RawValue> = "inputRequests" => json::present,
        /// What the client sends back with the answers (2026-07-28).
        request_state: Option<&'a RawValue> = "requestState" => text,
        /// A tool's output, as blocks.
        content: Option<&'a RawValue> = "content" => json::present,
        /// A tool's output, as data.
        structured_content: Option<&'a RawValue> = "structuredContent" => json::present,
        /// Whether the tool reports a failure.
        is_error: bool = "isError" => json::is_true,
    }
}

view! {
    /// `_meta` of a request, result or notification.
    Meta {
        /// The revision of a stateless request.
        protocol_version: Option<Cow<'a, str>> = "io.modelcontextprotocol/protocolVersion" => json::string,
        /// The client's self-description, in a stateless request.
        client_info: Option<&'a RawValue> = "io.modelcontextprotocol/clientInfo" => json::present,
        /// The client's capabilities, in a stateless request.
        client_capabilities: Option<&'a RawValue> = "io.modelcontextprotocol/clientCapabilities" => json::present,
        /// The server's self-description, in a stateless result.
        server_info: Option<&'a RawValue> = "io.modelcontextprotocol/serverInfo" => json::present,
        /// The `subscriptions/listen` that a notification belongs to.
        subscription_id: Option<&'a RawValue> = "io.modelcontextprotocol/subscriptionId" => json::present,
        /// The token under which a request's progress is reported.
        progress_token: Option<&'a RawValue> = "progressToken" => json::present,
    }
}

view! {
    /// A tool's definition.
    Tool {
        /// Its name; a definition without one cannot be called.
        name: Option<Cow<'a, str>> = "name" => json::string,
        /// The name that people see.
        title: Option<Cow<'a, str>> = "title" => json::string,
        /// What the model reads about it.
        description: Option<Cow<'a, str>> = "description" => json::string,
        /// The schema of its input.
        input_schema: Option<&'a RawValue> = "inputSchema" => json::present,
        /// The schema of its output.
        output_schema: Option<&'a RawValue> = "outputSchema" => json::present,
        /// What the server claims about its effects.
        annotations: Option<&'a RawValue> = "annotations" => json::present,
    }
}

view! {
    /// A JSON-RPC error.
    ErrorObject {
        /// Its code, unparsed.
        code: Option<&'a RawValue> = "code" => json::present,
        /// Its message.
        message: Option<Cow<'a, str>> = "message" => json::string,
        /// Additional data.
        data: Option<&'a RawValue> = "data" => json::present,
    }
}

/// `raw`, if it is a string. For what is handed back unchanged: it may be as long as the message, and is
/// never read.
fn text(raw: &RawValue) -> Option<&RawValue> {
    raw.get().starts_with('"').then_some(raw)
}

/// `raw`, if it is an array.
fn array(raw: &RawValue) -> Option<&RawValue> {
    raw.get().starts_with('[').then_some(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn known_members_are_read_and_others_skipped() {
        let params = Params::read(raw(
            r#"{"x":[1],"name":"n","arguments":{"a":1},"cursor":null,"_meta":{"progressToken":0,
               "io.modelcontextprotocol/protocolVersion":"2026-07-28","other":1},"name":"last"}"#,
        ));
        assert_eq!(params.name.as_deref(), Some("last"));
        assert_eq!(params.arguments.unwrap().get(), r#"{"a":1}"#);
        assert!(params.cursor.is_none());
        let meta = params.meta.unwrap();
        assert_eq!(meta.protocol_version.as_deref(), Some("2026-07-28"));
        assert_eq!(meta.progress_token.unwrap().get(), "0");
    }

    #[test]
    fn an_unexpected_type_is_absent() {
        let result = ServerResult::read(raw(
            r#"{"tools":{},"nextCursor":7,"isError":"true","serverInfo":null}"#,
        ));
        assert!(
            result.tools.is_none() && result.next_cursor.is_none() && result.server_info.is_none()
        );
        assert!(!result.is_error);
        for text in ["[]", "1", "null", "\"x\""] {
            assert!(ServerResult::read(raw(text)).content.is_none());
        }
        assert!(ServerResult::read(raw(r#"{"isError":true,"content":[]}"#)).is_error);
    }
}
