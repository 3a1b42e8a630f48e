//! Files that are damaged, from the future, in the way, or too large for the disk.

use super::*;

#[test]
fn a_damaged_file_is_set_aside_and_recording_goes_on() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path(), "no database at all, but text".repeat(1000)).unwrap();
    let mut recording = Recording::start(settings(&fixture.path()));
    let mut script = recording.session("files", "s1", 1000);
    recording.call(&mut script, 1, "read", "after", "x");
    let events = recording.finish();
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0]["type"], &events[0]["trouble"]),
        (&json!("mcp_store"), &json!("set_aside"))
    );
    assert_eq!(fixture.messages("s1").len(), 2);
    let aside = std::fs::read(fixture.0.path().join("messages.db.damaged")).unwrap();
    assert!(aside.starts_with(b"no database"));
}

#[test]
fn damage_in_the_middle_of_a_store_is_noticed_where_it_is_met() {
    use std::os::unix::fs::FileExt as _;
    let fixture = Fixture::new();
    for round in 0..2 {
        let mut recording = Recording::start(settings(&fixture.path()));
        let mut script = recording.session("files", &format!("s{round}"), 1000);
        for id in 0..500 {
            recording.call(&mut script, id, "read", &format!("argument {id}"), "small");
        }
        let events = recording.finish();
        if round == 1 {
            assert!(
                events.iter().any(|event| event["trouble"] == "set_aside"),
                "{events:?}"
            );
            assert_eq!(fixture.messages("s1").len(), 1000);
        }
        // All pages but the first, which says what the file is.
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(fixture.path())
            .unwrap();
        let size = file.metadata().unwrap().len();
        if round == 0 {
            for page in 1..size / 4096 {
                file.write_all_at(&[0xa5; 2048], page * 4096).unwrap();
            }
        }
    }
}

#[test]
fn a_newer_store_is_left_alone_and_losses_are_told() {
    let fixture = Fixture::new();
    drop(Recording::start(settings(&fixture.path())).finish());
    let connection = rusqlite::Connection::open(fixture.path()).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let mut recording = Recording::start(settings(&fixture.path()));
    let mut script = recording.session("files", "s1", 1000);
    recording.call(&mut script, 1, "read", "x", "y");
    let events = recording.finish();
    let troubles: Vec<_> = events
        .iter()
        .map(|event| {
            (
                event["trouble"].as_str().unwrap(),
                event["dropped"].as_u64(),
            )
        })
        .collect();
    assert_eq!(troubles, [("newer", Some(0)), ("dropped", Some(3))]);
    assert!(fixture.path().exists());
}

#[test]
fn a_place_that_cannot_be_written_costs_the_messages_and_nothing_else() {
    let fixture = Fixture::new();
    let path = fixture.0.path().join("missing/messages.db");
    let mut recording = Recording::start(settings(&path));
    let mut script = recording.session("files", "s1", 1000);
    recording.call(&mut script, 1, "read", "x", "y");
    let events = recording.finish();
    assert_eq!(events[0]["trouble"], "failing");
    assert_eq!(events.last().unwrap()["dropped"], 3);
}

#[test]
fn a_full_disk_is_told_and_survived() {
    let fixture = Fixture::new();
    drop(Recording::start(settings(&fixture.path())).finish());
    let connection = rusqlite::Connection::open(fixture.path()).unwrap();
    let mut connection = connection;
    connection
        .pragma_update(None, "max_page_count", 40)
        .unwrap();
    let mut writer = write::BatchWriter::new(keep(StoredContent::Full), false).unwrap();
    let (mut queue, mut records) = message_queue(Bounds {
        items: 10_000,
        bytes: 64 << 20,
    });
    let mut engine = Engine::new(
        Limits::default(),
        Registry::in_memory(),
        Box::new(NoDetector),
    );
    let mut script = Script::new("files");
    engine.handle(script.start(), &mut queue);
    let mut written = 0;
    let mut full = None;
    for index in 0..200_u64 {
        let text = json!({"jsonrpc": "2.0", "method": "x", "params": {"n": noise(index, 5000)}})
            .to_string();
        engine.handle(script.line(Up, &text), &mut queue);
        let mut batch = Vec::new();
        while let mcpinspect_runtime::queue::Arrival::Received(
            mcpinspect_runtime::queue::Received::Item(record),
        ) = records.recv_until(Instant::now())
        {
            batch.push(record);
        }
        match writer.write(&mut connection, &batch) {
            Ok(()) => written += 1,
            Err(error) => {
                full = error.sqlite_error_code();
                break;
            }
        }
    }
    assert_eq!(full, Some(rusqlite::ErrorCode::DiskFull));
    drop(connection);
    // What was written before is complete.
    assert_eq!(fixture.messages("files").len(), written);
    // With room, it goes on.
    let mut recording = Recording::start(settings(&fixture.path()));
    let mut script = recording.session("files", "s2", 1000);
    recording.call(&mut script, 1, "read", "x", "y");
    assert!(recording.finish().is_empty());
    assert_eq!(fixture.messages("s2").len(), 2);
}
