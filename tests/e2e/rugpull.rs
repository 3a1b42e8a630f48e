//! A tool that changes under its user, from the wire to the event.
