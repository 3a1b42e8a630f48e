//! Judging a stream's beginning never panics, and more of the same line never turns MCP into something else.
#![cfg_attr(fuzzing, no_main)]

use mcpinspectd::mcp::{Evidence, evidence};
use mcpinspectd_fuzz::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let whole = evidence(data);
    // Whatever was said of a beginning, the end says at least as much where it is MCP with a side.
    let half = evidence(&data[..data.len() / 2]);
    if let (Evidence::Mcp { role: Some(_) }, Evidence::NotMcp { .. }) = (half, whole) {
        let cut = data.len() / 2;
        assert!(
            !data[cut..].contains(&b'\n') || data[..cut].contains(&b'\n'),
            "{half:?} {whole:?}"
        );
    }
});
