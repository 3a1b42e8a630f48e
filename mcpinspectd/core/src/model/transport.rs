//! How a client reaches a server.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The transport of a session, as MCP and the clients' configurations call it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// The server's standard input and output, one message per line.
    #[default]
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP with server-sent events, as in the revision of 2024-11-05.
    Sse,
}

impl Transport {
    /// The word that programs read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where the server of a session is reached.
///
/// This is what distinguishes a server that is not a process at the other end of two pipes: it has
/// an address, and a process only if it runs on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "lowercase")]
pub enum ServerEndpoint {
    /// At its standard input and output, whether these are pipes or sockets and whichever
    /// descriptors the server moves them to.
    #[default]
    Stdio,
    /// At a URL, over Streamable HTTP.
    Http {
        /// Scheme, host, port and path: no query and no credentials.
        url: String,
    },
    /// At a URL, over HTTP with server-sent events.
    Sse {
        /// Scheme, host, port and path: no query and no credentials.
        url: String,
    },
}

impl ServerEndpoint {
    /// The transport.
    pub fn transport(&self) -> Transport {
        match self {
            Self::Stdio => Transport::Stdio,
            Self::Http { .. } => Transport::Http,
            Self::Sse { .. } => Transport::Sse,
        }
    }

    /// The URL, if it has one.
    pub fn url(&self) -> Option<&str> {
        match self {
            Self::Stdio => None,
            Self::Http { url } | Self::Sse { url } => Some(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_words_are_those_of_the_configurations() {
        for (transport, word) in [
            (Transport::Stdio, "stdio"),
            (Transport::Http, "http"),
            (Transport::Sse, "sse"),
        ] {
            assert_eq!(transport.as_str(), word);
            assert_eq!(serde_json::to_value(transport).ok(), Some(json!(word)));
        }
    }

    #[test]
    fn an_endpoint_names_its_transport() {
        let url = "https://example.org/mcp".to_owned();
        let http = ServerEndpoint::Http { url };
        assert_eq!(http.transport(), Transport::Http);
        let text = json!({"transport": "http", "url": "https://example.org/mcp"});
        assert_eq!(serde_json::to_value(&http).ok(), Some(text.clone()));
        assert_eq!(serde_json::from_value(text).ok(), Some(http));
        let stdio = json!({"transport": "stdio"});
        assert_eq!(
            serde_json::to_value(ServerEndpoint::Stdio).ok(),
            Some(stdio)
        );
    }
}
