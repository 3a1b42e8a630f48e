//! What the registry does with any storage. Each storage is tested by these cases.

use mcpinspect_core::model::{
    DefinitionHash, FormerIdentity, ItemKind, ServerId, ServerIdentity, SessionId, Timestamp,
};
use mcpinspect_judge::registry::*;
use serde_json::value::RawValue;

/// A case, given an empty registry.
pub(crate) type Case = fn(Registry);

/// Cases with their names.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        pub(super) const CASES: &[(&str, super::Case)] = &[$((stringify!($case), $case)),*];
    };
}

mod decisions;
mod limits;
mod listed;
mod pinning;
mod renaming;
mod users;

/// All cases, by name.
pub(crate) fn cases() -> impl Iterator<Item = (&'static str, Case)> {
    let topics = [
        pinning::CASES,
        decisions::CASES,
        listed::CASES,
        limits::CASES,
        renaming::CASES,
        users::CASES,
    ];
    topics.into_iter().flatten().copied()
}

pub(crate) fn server(name: &str) -> ServerId {
    ServerId(name.into())
}

/// The user who owns everything unless a case says otherwise.
pub(crate) const OWNER: Owner = Owner::User(1000);

/// That user's server.
pub(crate) fn of(server: &str) -> ServerOf<'_> {
    ServerOf::new(OWNER, server)
}

/// Says that a server is called this, and was called `former` before.
pub(crate) fn name(registry: &mut Registry, name: &str, former: Option<&str>) {
    let identity = ServerIdentity {
        server_id: server(name),
        fingerprint: format!("print of {name}"),
        name_source: "test".to_owned(),
        publisher: None,
        former: former.map(|former| FormerIdentity {
            server_id: server(former),
            fingerprint: format!("print of {former}"),
        }),
    };
    registry.assign_name(OWNER, &identity, Timestamp(5));
    registry.save(Timestamp(5));
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

pub(crate) fn see(
    registry: &mut Registry,
    of: &str,
    time: u64,
    name: &str,
    definition: &str,
) -> PinStatus {
    see_as(OWNER, registry, of, time, name, definition)
}

/// What a server of this owner shows.
pub(crate) fn see_as(
    owner: Owner,
    registry: &mut Registry,
    of: &str,
    time: u64,
    name: &str,
    definition: &str,
) -> PinStatus {
    let (server, session) = (server(of), SessionId("s".into()));
    let sighting = Sighting {
        owner,
        server: &server,
        session: &session,
        time: Timestamp(time),
    };
    registry.refresh();
    let status = registry
        .observe(sighting, ItemKind::Tool, name, &raw(definition))
        .status;
    registry.save(sighting.time);
    status
}

/// The registry, once what it recorded can be read.
fn settled(registry: &Registry) -> &Registry {
    while !registry.is_settled() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    registry
}

fn list(registry: &mut Registry, of: &str, names: &[&str]) -> Vec<String> {
    let (server, session) = (server(of), SessionId("s".into()));
    let sighting = Sighting {
        owner: OWNER,
        server: &server,
        session: &session,
        time: Timestamp(9),
    };
    let removed = registry.listed(sighting, |name| names.contains(&name));
    registry.save(sighting.time);
    removed.into_iter().map(|(name, _)| name.into()).collect()
}

pub(crate) fn hash(definition: &str) -> DefinitionHash {
    canonical::hash(&raw(definition))
}

pub(crate) const ALICE: Attribution<'_> = Attribution {
    by: DecidedBy::Person(1000),
    time: Timestamp(77),
    reason: "looked at it",
};
pub(crate) const OLD: &str = r#"{"name":"t","description":"old"}"#;
pub(crate) const NEW: &str = r#"{"name":"t","description":"new"}"#;

const BOB: Owner = Owner::User(1001);
