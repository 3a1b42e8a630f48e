//! `tap`: live messages in the foreground, as lines for people or for programs.

pub mod jsonl;
