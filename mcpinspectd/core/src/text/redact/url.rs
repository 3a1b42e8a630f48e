//! URLs whose paths are keys.

use super::assignment::is_random;
use super::hit::placeholder;
use super::mask::secrets;

/// A URL with its secrets masked: passwords, keys in a known format, and parts of the path that are long runs of
/// random letters. Some services give each user a path that is a key (`/mcp/KEY`).
pub fn url(url: &str) -> String {
    let masked = secrets(url);
    let parts = masked.split('/').map(|part| match is_random(part) {
        true => placeholder("opaque"),
        false => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_a_key_is_masked() {
        for (given, shown) in [
            ("https://mcp.example.org/mcp", "https://mcp.example.org/mcp"),
            (
                "http+unix://%2Frun%2Fmcp.sock/mcp",
                "http+unix://%2Frun%2Fmcp.sock/mcp",
            ),
            (
                "https://example.org/mcp/aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW/sse",
                "https://example.org/mcp/«redacted:opaque»/sse",
            ),
            (
                "https://example.org/v1/9f86d081884c7d65",
                "https://example.org/v1/9f86d081884c7d65",
            ),
            ("", ""),
        ] {
            assert_eq!(url(given), shown);
        }
        let key = format!("https://example.org/ghp_{}/mcp", "a1B2c3D4e5F6".repeat(3));
        assert!(!url(&key).contains("a1B2"), "{}", url(&key));
        let password = url("https://user:correct-horse@example.org/mcp");
        assert!(!password.contains("horse"), "{password}");
    }
}
