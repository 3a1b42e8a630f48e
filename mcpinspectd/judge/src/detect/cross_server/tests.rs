use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::detect::rules::Probe;

fn insert(index: &mut ToolIndex, server: &str, tools: &[Value]) {
    for profile in tools
        .iter()
        .filter_map(|tool| ToolProfile::of(&tool.into()))
    {
        index.insert(server, Arc::new(profile));
    }
}

fn similar(index: &ToolIndex, server: &str, tool: &Value) -> Vec<Similarity> {
    similarities(index, server, &ToolProfile::of(&tool.into()).unwrap())
}

#[test]
fn the_same_server_twice_is_not_an_impostor() {
    let names = [
        "open_album",
        "rename_album",
        "share_album_link",
        "list_album_photos",
    ];
    let tools: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({
                "name": name,
                "description": format!(
                    "Works on a photo album in the gallery: {name} for the given album id and user."
                ),
                "inputSchema": { "type": "object", "properties": { "album": { "type": "string" } } },
            })
        })
        .collect();
    let mut index = ToolIndex::new();
    insert(&mut index, "gallery", &tools);
    let mut twice = ToolIndex::new();
    insert(&mut twice, "gallery", &tools);
    insert(&mut twice, "gallery-2", &tools);
    assert!(
        tools
            .iter()
            .all(|tool| similar(&twice, "gallery-2", tool).is_empty())
    );
    insert(&mut index, "helper", &tools[2..3]);
    let copied = similar(&index, "helper", &tools[2]);
    assert!(
        copied
            .iter()
            .any(|similarity| similarity.probe == Probe::CopiedTool),
        "a single tool is a copy"
    );
    assert!(
        similar(&index, "gallery", &tools[2]).is_empty(),
        "the first server owns the name"
    );
}

#[test]
fn a_short_description_is_copied_too() {
    let tool = |name: &str, description: &str| json!({ "name": name, "description": description });
    let original = tool("list_album_photos", "List photos of an album");
    let mut index = ToolIndex::new();
    insert(
        &mut index,
        "gallery",
        &[original.clone(), tool("open_album", "Opens it")],
    );
    insert(&mut index, "helper", std::slice::from_ref(&original));
    let probes = |index: &ToolIndex, tool: &Value| -> Vec<Probe> {
        let found = similar(index, "helper", tool).into_iter();
        found.map(|one| one.probe).collect()
    };
    assert_eq!(probes(&index, &original), [Probe::CopiedTool]);
    let other = tool("list_album_photos", "Shows pictures by month");
    insert(&mut index, "helper", std::slice::from_ref(&other));
    assert_eq!(probes(&index, &other), [Probe::SameName], "a name alone");
}
