//! What is deleted, and when.

use super::*;

#[test]
fn old_messages_go_by_the_days_of_their_server() {
    let fixture = Fixture::new();
    let day = 86_400_000_000_000;
    let now = Timestamp::now();
    let mut long = settings(&fixture.path());
    long.rules.default.days = 3650;
    let mut recording = Recording::start(long);
    for (server, age) in [("files", 2), ("files", 40), ("git", 2), ("git", 0)] {
        let id = format!("{server}-{age}");
        let mut script = Script::new(server)
            .session(&id)
            .paced(Timestamp(now.0 - age * day), 1000);
        recording
            .engine
            .handle(script.start(), &mut recording.queue);
        recording.call(&mut script, 1, "read", "x", "y");
        recording
            .engine
            .handle(script.end(EndReason::ClientExited), &mut recording.queue);
    }
    assert!(recording.finish().is_empty());
    let rules = RetentionRules {
        rules: vec![RetentionRule {
            server: Some(globset::Glob::new("git").unwrap().compile_matcher()),
            user: None,
            content: None,
            days: Some(1),
        }],
        ..keep(StoredContent::Redacted)
    };
    let mut connection = rusqlite::Connection::open(fixture.path()).unwrap();
    let mut round = retention::Round::default();
    while !round.step(&mut connection, &rules, 1 << 30, now).unwrap() {}
    let mut left: Vec<_> = fixture
        .sessions()
        .iter()
        .map(|session| session["session_id"].as_str().unwrap().to_owned())
        .collect();
    left.sort();
    assert_eq!(left, ["files-2", "git-0"]);
    assert_eq!(fixture.search(text("read")).len(), 2);
    let blocks: i64 = connection
        .query_row("SELECT count(*) FROM block", [], |row| row.get(0))
        .unwrap();
    assert_eq!(blocks, 2);
}

#[test]
fn too_much_goes_first_from_the_user_who_has_most() {
    let fixture = Fixture::new();
    let mut recording = Recording::start(settings(&fixture.path()));
    let mut quiet = recording.session("files", "quiet", 1001);
    recording.call(&mut quiet, 1, "read", "x", "y");
    let mut loud = recording.session("files", "loud", 1000);
    for id in 0..6000_u64 {
        let said = noise(id, 300);
        recording.call(
            &mut loud,
            u32::try_from(id).unwrap(),
            "read",
            &said,
            "small",
        );
    }
    assert!(recording.finish().is_empty());
    let mut connection = rusqlite::Connection::open(fixture.path()).unwrap();
    let before = retention::size(&connection).unwrap();
    let limit = before / 2;
    let rules = keep(StoredContent::Redacted);
    let mut round = retention::Round::default();
    let now = Timestamp::now();
    while !round.step(&mut connection, &rules, limit, now).unwrap() {}
    let after = retention::size(&connection).unwrap();
    assert!(after <= limit, "{before} {after}");
    assert_eq!(fixture.messages("quiet").len(), 2);
    let loud = fixture.sessions();
    let loud = loud
        .iter()
        .find(|session| session["session_id"] == "loud")
        .unwrap();
    let left = loud["messages"].as_u64().unwrap();
    assert!(left > 100 && left < 12_000, "{left}");
    // The newest stay.
    let last = Search {
        limit: 1,
        ..Search::default()
    };
    assert_eq!(fixture.search(last)[0]["sequence"], 12_000);
}
