//! Judging the beginning of a stream, or of a TLS connection, never panics, and more bytes of the same line never
//! turn MCP into something else.
#![cfg_attr(fuzzing, no_main)]

use mcpinspect_core::mcp::{Evidence, evidence};
use mcpinspect_core::wire::client_hello::server_name;
use mcpinspectd_fuzz::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = server_name(data);
    let whole = evidence(data);
    // A beginning that is MCP with a known role stays MCP, unless a line ends in the second half.
    let half = evidence(&data[..data.len() / 2]);
    if let (Evidence::Mcp { role: Some(_) }, Evidence::NotMcp { .. }) = (half, whole) {
        let second = &data[data.len() / 2..];
        assert!(second.contains(&b'\n'), "{half:?} {whole:?}");
    }
});
