//! What both sides of the kernel boundary agree on.
#![no_std]
