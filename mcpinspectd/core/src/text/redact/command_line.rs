//! Command lines with their secrets masked.

use super::assignment::{is_placeholder, is_random, secret_name};
use super::hit::placeholder;
use super::mask::secrets;

/// A command line with its secrets masked. Besides what is found in the text of each argument, this masks the
/// value of an option with a secret name (`--api-key X`, `--token=X`), environment assignments and headers
/// (`-e API_KEY=X`, `-H "X-Api-Key: X"`), the password in `-u user:password`, and long arguments of random
/// letters. The number and order of arguments stay the same.
pub fn command_line(args: &[String]) -> Vec<String> {
    let mut previous = "";
    let mut out = Vec::with_capacity(args.len());
    for arg in args {
        out.push(argument(previous, arg));
        previous = arg;
    }
    out
}

/// One argument, after the previous one.
fn argument(previous: &str, arg: &str) -> String {
    if previous.starts_with('-')
        && !previous.contains('=')
        && !arg.starts_with('-')
        && let Some(kind) = secret_name(previous)
    {
        return masked(arg, kind);
    }
    if let Some(at) = arg.find(['=', ':']) {
        let (name, value) = (&arg[..at], &arg[at + 1..]);
        // A shell script is treated as text, even if it begins with `A=b`.
        let script = previous.starts_with('-') && previous.ends_with('c');
        if !script
            && !name.contains(char::is_whitespace)
            && !value.starts_with("//")
            && let Some(kind) = secret_name(name)
        {
            let value = value.trim_start();
            return format!("{}{}", &arg[..arg.len() - value.len()], masked(value, kind));
        }
        if matches!(previous, "-u" | "--user" | "--proxy-user")
            && arg.as_bytes()[at] == b':'
            && !value.is_empty()
            && !value.bytes().all(|b| b.is_ascii_digit())
        {
            return format!("{name}:{}", masked(value, "password"));
        }
    }
    if is_random(arg) {
        return placeholder("opaque");
    }
    secrets(arg).into_owned()
}

/// A secret value, masked completely unless it only refers to the secret.
fn masked(value: &str, kind: &'static str) -> String {
    if value.is_empty() || is_placeholder(value) {
        value.to_owned()
    } else {
        placeholder(kind)
    }
}
