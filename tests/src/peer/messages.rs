//! Messages of an exact size.

use serde_json::{Value, json};

/// Text of exactly `length` bytes in which every eight bytes differ, so that a swapped, repeated or
/// shifted piece changes the hash.
pub fn padding(length: usize) -> String {
    let mut text = String::with_capacity(length + 8);
    let mut number = 0_u32;
    while text.len() < length {
        text.push_str(&format!("{number:07} "));
        number = number.wrapping_add(1);
    }
    text.truncate(length);
    text
}

/// `build` is called with padding that makes its line `size` bytes long, or as short as it gets.
fn sized(size: usize, build: impl Fn(&str) -> Value) -> Vec<u8> {
    let bare = build("").to_string().len();
    build(&padding(size.saturating_sub(bare)))
        .to_string()
        .into_bytes()
}

/// A `tools/call` of `echo`, `size` bytes long, that asks for an answer of the same size.
pub fn echo_request(id: &Value, size: usize) -> Vec<u8> {
    sized(size, |pad| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
               "params": {"name": "echo", "arguments": {"size": size, "pad": pad}}})
    })
}

/// The answer to [`echo_request`].
pub fn echo_response(id: &Value, size: usize) -> Vec<u8> {
    sized(size, |pad| {
        json!({"jsonrpc": "2.0", "id": id,
               "result": {"content": [{"type": "text", "text": pad}], "isError": false}})
    })
}

/// A log notification, `size` bytes long; `number` distinguishes it from the others.
pub fn notification(number: u64, size: usize) -> Vec<u8> {
    sized(size, |pad| {
        json!({"jsonrpc": "2.0", "method": "notifications/message",
               "params": {"level": "info", "logger": number.to_string(), "data": pad}})
    })
}

/// A line of `size` bytes that is not JSON.
pub fn junk(size: usize) -> Vec<u8> {
    let mut line = padding(size).into_bytes();
    // Neither a number nor the start of any JSON value.
    if let Some(first) = line.first_mut() {
        *first = b'~';
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_once_the_envelope_fits() {
        for size in [256, 257, 4095, 4096, 4097, 65_536] {
            assert_eq!(echo_request(&json!(1), size).len(), size);
            assert_eq!(echo_response(&json!("a"), size).len(), size);
            assert_eq!(notification(7, size).len(), size);
            assert_eq!(junk(size).len(), size);
        }
        assert_eq!(junk(1), b"~");
        assert!(echo_request(&json!(1), 0).len() > 50);
    }
}
