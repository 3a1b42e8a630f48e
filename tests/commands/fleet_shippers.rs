//! The examples in `packaging/fleet` for shippers that are not in Debian: each option is one that the program
//! documents, and what has to be there is. What they put into ClickHouse is tested in `fleet_engine`.

use std::collections::BTreeSet;

use serde_json::Value;

/// A part of a configuration: where it is documented, its options, and those that it needs here.
struct Documented {
    at: &'static str,
    options: &'static [&'static str],
    needed: &'static [&'static str],
}

const VECTOR_JOURNALD: Documented = Documented {
    at: "https://vector.dev/docs/reference/configuration/sources/journald/",
    options: &[
        "acknowledgements",
        "batch_size",
        "current_boot_only",
        "data_dir",
        "emit_cursor",
        "exclude_matches",
        "exclude_units",
        "extra_args",
        "include_matches",
        "include_units",
        "journal_directory",
        "journal_namespace",
        "journalctl_path",
        "remap_priority",
        "since_now",
        "type",
    ],
    needed: &["type", "include_matches", "current_boot_only"],
};
const VECTOR_REMAP: Documented = Documented {
    at: "https://vector.dev/docs/reference/configuration/transforms/remap/",
    options: &[
        "drop_on_abort",
        "drop_on_error",
        "file",
        "files",
        "inputs",
        "metric_tag_values",
        "reroute_dropped",
        "runtime",
        "source",
        "timezone",
        "type",
    ],
    needed: &["type", "inputs", "source"],
};
const VECTOR_CLICKHOUSE: Documented = Documented {
    at: "https://vector.dev/docs/reference/configuration/sinks/clickhouse/",
    options: &[
        "acknowledgements",
        "acknowledgements.enabled",
        "auth",
        "auth.password",
        "auth.strategy",
        "auth.user",
        "batch",
        "buffer",
        "compression",
        "database",
        "date_time_best_effort",
        "encoding",
        "endpoint",
        "format",
        "healthcheck",
        "inputs",
        "insert_random_shard",
        "query_settings",
        "request",
        "skip_unknown_fields",
        "table",
        "tls",
        "tls.alpn_protocols",
        "tls.ca_file",
        "tls.crt_file",
        "tls.key_file",
        "tls.key_pass",
        "tls.server_name",
        "tls.verify_certificate",
        "tls.verify_hostname",
        "type",
    ],
    needed: &[
        "type",
        "inputs",
        "endpoint",
        "table",
        "acknowledgements.enabled",
        "tls.ca_file",
    ],
};
const FLUENT_SERVICE: Documented = Documented {
    at: "https://docs.fluentbit.io/manual/administration/configuring-fluent-bit/yaml/service-section",
    options: &[
        "daemon",
        "flush",
        "grace",
        "log_file",
        "log_level",
        "storage.path",
    ],
    needed: &["flush", "storage.path"],
};
const FLUENT_SYSTEMD: Documented = Documented {
    at: "https://docs.fluentbit.io/manual/pipeline/inputs/systemd",
    options: &[
        "db",
        "db.sync",
        "lowercase",
        "max_entries",
        "max_fields",
        "name",
        "path",
        "read_from_tail",
        // https://docs.fluentbit.io/manual/administration/buffering-and-storage
        "storage.type",
        "strip_underscores",
        "systemd_filter",
        "systemd_filter_type",
        "tag",
        "threaded",
    ],
    needed: &["name", "tag", "systemd_filter", "systemd_filter_type", "db"],
};
const FLUENT_MODIFY: Documented = Documented {
    at: "https://docs.fluentbit.io/manual/pipeline/filters/modify",
    options: &[
        "add",
        "condition",
        "copy",
        "hard_copy",
        "hard_rename",
        "match",
        "name",
        "remove",
        "remove_regex",
        "remove_wildcard",
        "rename",
        "set",
    ],
    needed: &["name", "match", "copy"],
};
const FLUENT_HTTP: Documented = Documented {
    at: "https://docs.fluentbit.io/manual/pipeline/outputs/http",
    options: &[
        "allow_duplicated_headers",
        "body_key",
        "compress",
        "format",
        "header",
        "header_tag",
        "headers_key",
        "host",
        "http_method",
        "http_passwd",
        "http_user",
        "json_date_format",
        "json_date_key",
        "log_response_payload",
        "match",
        "name",
        "port",
        "proxy",
        // https://docs.fluentbit.io/manual/administration/scheduling-and-retries
        "retry_limit",
        // https://docs.fluentbit.io/manual/administration/transport-security
        "tls",
        "tls.ca_file",
        "tls.crt_file",
        "tls.key_file",
        "tls.key_passwd",
        "tls.verify",
        "tls.verify_hostname",
        "tls.vhost",
        "uri",
        "workers",
    ],
    needed: &[
        "name",
        "match",
        "host",
        "port",
        "uri",
        "format",
        "tls",
        "tls.verify",
    ],
};
const OTEL_STORAGE: Documented = Documented {
    at: "https://github.com/open-telemetry/opentelemetry-collector-contrib/tree/main/extension/storage/filestorage",
    options: &[
        "compaction",
        "create_directory",
        "directory",
        "fsync",
        "timeout",
    ],
    needed: &["directory"],
};
const OTEL_JOURNALD: Documented = Documented {
    at: "https://github.com/open-telemetry/opentelemetry-collector-contrib/tree/main/receiver/journaldreceiver",
    options: &[
        "all",
        "directory",
        "dmesg",
        "files",
        "grep",
        "identifiers",
        "matches",
        "operators",
        "priority",
        "retry_on_failure",
        "retry_on_failure.enabled",
        "retry_on_failure.initial_interval",
        "retry_on_failure.max_elapsed_time",
        "retry_on_failure.max_interval",
        "start_at",
        "storage",
        "units",
    ],
    needed: &[
        "all",
        "matches",
        "start_at",
        "storage",
        "priority",
        "operators",
    ],
};
const OTEL_COPY: Documented = Documented {
    at: "https://github.com/open-telemetry/opentelemetry-collector-contrib/blob/main/pkg/stanza/docs/operators/copy.md",
    options: &["from", "id", "if", "on_error", "output", "to", "type"],
    needed: &["type", "from", "to"],
};
const OTEL_CLICKHOUSE: Documented = Documented {
    at: "https://github.com/open-telemetry/opentelemetry-collector-contrib/tree/main/exporter/clickhouseexporter",
    options: &[
        "async_insert",
        "cluster_name",
        "compress",
        "connection_params",
        "create_schema",
        "database",
        "endpoint",
        "logs_table_name",
        "password",
        "retry_on_failure",
        "retry_on_failure.enabled",
        "retry_on_failure.initial_interval",
        "retry_on_failure.max_elapsed_time",
        "retry_on_failure.max_interval",
        "sending_queue",
        "sending_queue.batch",
        "sending_queue.block_on_overflow",
        "sending_queue.enabled",
        "sending_queue.num_consumers",
        "sending_queue.queue_size",
        "sending_queue.sizer",
        "sending_queue.storage",
        "table_engine",
        "timeout",
        "tls",
        "tls.ca_file",
        "tls.cert_file",
        "tls.insecure",
        "tls.insecure_skip_verify",
        "tls.key_file",
        "ttl",
        "username",
    ],
    needed: &[
        "endpoint",
        "database",
        "sending_queue.storage",
        "tls.ca_file",
    ],
};

/// The options of a part, with those of objects behind a dot. What an option in `free` contains is up to the user.
fn options(part: &Value, free: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (name, value) in part.as_object().expect("a part is an object") {
        found.insert(name.clone());
        if let Some(inner) = value.as_object()
            && !free.contains(&name.as_str())
        {
            found.extend(inner.keys().map(|inner| format!("{name}.{inner}")));
        }
    }
    found
}

fn check(part: &Value, documented: &Documented) {
    let found = options(part, &["include_matches"]);
    for option in &found {
        assert!(
            documented.options.contains(&option.as_str()),
            "{option} is not documented at {}",
            documented.at
        );
    }
    for needed in documented.needed {
        assert!(found.contains(*needed), "{needed} is missing: {part:#}");
    }
}

fn parsed(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn names(part: &Value) -> Vec<&str> {
    part.as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// What has to be shipped: what the daemon says, and what systemd and journald say about it.
const MATCHES: [&str; 3] = ["OBJECT_SYSTEMD_UNIT", "UNIT", "_SYSTEMD_UNIT"];
const UNIT: &str = "mcpinspectd.service";

#[test]
fn vector_knows_its_options() {
    let all = parsed(include_str!("../../packaging/fleet/vector.yaml"));
    assert_eq!(names(&all), ["data_dir", "sinks", "sources", "transforms"]);
    let (source, entries) = (&all["sources"]["journal"], &all["transforms"]["entries"]);
    let sink = &all["sinks"]["clickhouse"];
    for (part, kind, documented) in [
        (source, "journald", VECTOR_JOURNALD),
        (entries, "remap", VECTOR_REMAP),
        (sink, "clickhouse", VECTOR_CLICKHOUSE),
    ] {
        assert_eq!(part["type"], kind);
        check(part, &documented);
    }
    assert_eq!(entries["inputs"][0], "journal");
    assert_eq!(sink["inputs"][0], "entries");
    assert_eq!(names(&source["include_matches"]), MATCHES);
    for field in MATCHES {
        assert_eq!(source["include_matches"][field][0], UNIT);
    }
    assert_eq!(sink["table"], "journal");
}

#[test]
fn fluent_bit_knows_its_options() {
    let all = parsed(include_str!("../../packaging/fleet/fluent-bit.yaml"));
    assert_eq!(names(&all), ["pipeline", "service"]);
    check(&all["service"], &FLUENT_SERVICE);
    let pipeline = &all["pipeline"];
    assert_eq!(names(pipeline), ["filters", "inputs", "outputs"]);
    for (list, kind, documented) in [
        ("inputs", "systemd", FLUENT_SYSTEMD),
        ("filters", "modify", FLUENT_MODIFY),
        ("outputs", "http", FLUENT_HTTP),
    ] {
        let list = pipeline[list].as_array().unwrap();
        assert_eq!((list.len(), &list[0]["name"]), (1, &kind.into()));
        check(&list[0], &documented);
    }
    let filter = pipeline["inputs"][0]["systemd_filter"].as_array().unwrap();
    let mut filter: Vec<&str> = filter.iter().map(|one| one.as_str().unwrap()).collect();
    filter.sort_unstable();
    assert_eq!(filter, MATCHES.map(|field| format!("{field}={UNIT}")));
    let tag = &pipeline["inputs"][0]["tag"];
    assert_eq!(&pipeline["filters"][0]["match"], tag);
    assert_eq!(&pipeline["outputs"][0]["match"], tag);
    let uri = pipeline["outputs"][0]["uri"].as_str().unwrap();
    assert!(uri.contains("mcpinspect.journal"), "{uri}");
}

#[test]
fn the_opentelemetry_collector_knows_its_options() {
    let all = parsed(include_str!("../../packaging/fleet/otel-collector.yaml"));
    assert_eq!(
        names(&all),
        ["exporters", "extensions", "receivers", "service"]
    );
    check(&all["extensions"]["file_storage"], &OTEL_STORAGE);
    let receiver = &all["receivers"]["journald"];
    check(receiver, &OTEL_JOURNALD);
    check(&receiver["operators"][0], &OTEL_COPY);
    check(&all["exporters"]["clickhouse"], &OTEL_CLICKHOUSE);
    let matches = receiver["matches"].as_array().unwrap();
    let mut fields: Vec<&str> = matches.iter().flat_map(names).collect();
    fields.sort_unstable();
    assert_eq!(fields, MATCHES);
    assert!(matches.iter().all(|one| {
        let mut values = one.as_object().unwrap().values();
        values.all(|value| value == UNIT)
    }));
    // Parts that are not in use do nothing.
    let service = &all["service"];
    assert_eq!(service["extensions"][0], "file_storage");
    let logs = &service["pipelines"]["logs"];
    assert_eq!(logs["receivers"][0], "journald");
    assert_eq!(logs["exporters"][0], "clickhouse");
}

#[test]
fn an_option_that_nobody_documents_is_noticed() {
    let part = serde_json::json!({"directory": "/x", "tpyo": 1});
    let checked = std::panic::catch_unwind(|| check(&part, &OTEL_STORAGE));
    assert!(checked.is_err());
}
