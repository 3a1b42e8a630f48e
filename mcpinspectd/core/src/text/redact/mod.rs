//! Finds secrets in text, and masks them.
//!
//! Tool calls, results and command lines carry credentials. Before any of that leaves the daemon in an event
//! it goes through here, and everything that looks like a secret becomes `«redacted:KIND»`. No part of the
//! secret is kept, not even its first or last letters.
//!
//! Two kinds of evidence count: the vendors' key *formats* (see `formats`), and values *assigned* to a name
//! that gives them away, `password=…`, `"api_key": "…"`, `Authorization: …` (see `assignment`). PEM private
//! keys, JWTs, bearer and basic credentials and passwords in URLs are formats with a grammar of their own
//! (see `scanner`).

mod assignment;
mod command_line;
mod formats;
mod hit;
mod json;
mod mask;
mod scanner;
mod url;

pub use assignment::secret_name;
pub use command_line::command_line;
pub use hit::{SecretHit, placeholder};
pub use json::json;
pub use mask::{find, secrets};
pub use url::url;

#[cfg(test)]
mod tests;
