use super::formats::{Body, FORMATS};
use super::scanner::ANCHORS;
use super::*;
use proptest::prelude::*;
use std::time::Instant;

/// Letters for made-up keys: with digits, so that they look like keys.
const KEY: &str = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0";

#[test]
fn anchors_build() {
    assert!(ANCHORS.is_some());
    for (i, format) in FORMATS.iter().enumerate() {
        assert!(
            FORMATS[..i]
                .iter()
                .all(|other| other.prefix != format.prefix),
            "{} is listed twice",
            format.prefix
        );
    }
}

#[test]
fn every_format_is_found_alone_in_text_in_json_and_after_an_escape() {
    for format in FORMATS {
        let letters = match format.body {
            Body::Upper => "Q7W8E9R0T1Y2U3I4O5P6A7S8D9F0G1H2J3K4L5Z6X7C8V9B0",
            _ => "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6a7",
        };
        let length = format.max.min(format.min.max(20));
        let secret = format!("{}{}", format.prefix, &letters[..length]);
        for text in [
            secret.clone(),
            format!("use {secret}, please"),
            format!("{{\"a\":\"{secret}\"}}"),
            format!("line\\n{secret}\\nline"),
            format!("https://host/{secret}"),
        ] {
            let clean = secrets(&text);
            assert!(
                !clean.contains(&secret[format.prefix.len()..]),
                "{text} → {clean}"
            );
            assert!(
                clean.contains(&format!("redacted:{}", format.kind)),
                "{text} → {clean}"
            );
        }
    }
}

#[test]
fn a_run_that_is_too_short_or_inside_a_word_is_not_a_key() {
    for text in [
        "AKIA123456789012345",   // fifteen
        "AKIA12345678901234567", // seventeen
        "XAKIA1234567890123456",
        "task-management-for-teams-2024-edition",
        "sk-spinner-double-bounce-animated",
        "SG.pdf",
        "npm_config_registry",
        "eyJ",
        "eyJhbGciOiJIUzI1NiJ9",
        "hf_",
        "pypi-attestations",
    ] {
        assert_eq!(secrets(text), text);
    }
    assert_eq!(secrets("AKIA1234567890123456"), "«redacted:aws_key»");
}

#[test]
fn assigned_values() {
    for (text, clean) in [
        ("password=hunter2", "password=«redacted:password»"),
        ("PASSWORD=correcthorse", "PASSWORD=«redacted:password»"),
        ("password: hunter2", "password: «redacted:password»"),
        ("DB_PASSWORD = hunter2", "DB_PASSWORD = «redacted:password»"),
        (
            r#"{"password":"x y z"}"#,
            r#"{"password":"«redacted:password»"}"#,
        ),
        (
            r#"{"apiKey" : "abc"}"#,
            r#"{"apiKey" : "«redacted:api_key»"}"#,
        ),
        (
            "{\"apiKey\":\n  \"abc\"}",
            "{\"apiKey\":\n  \"«redacted:api_key»\"}",
        ),
        (
            r#"{"client_secret":"a\"b\\"}"#,
            r#"{"client_secret":"«redacted:secret»"}"#,
        ),
        (
            r#"{"t":"{\"token\":\"ab\\\"c1\",\"x\":1}"}"#,
            r#"{"t":"{\"token\":\"«redacted:token»\",\"x\":1}"}"#,
        ),
        ("?token=abc123&x=1", "?token=«redacted:token»&x=1"),
        ("Pwd=abc;User=me", "Pwd=«redacted:password»;User=me"),
        (
            "AWS_SECRET_ACCESS_KEY=ab/cd+ef",
            "AWS_SECRET_ACCESS_KEY=«redacted:secret»",
        ),
        (
            "<password>geheim</password>",
            "<password>«redacted:password»</password>",
        ),
        (
            "run --api-key k3y9 now",
            "run --api-key «redacted:api_key» now",
        ),
        (
            "Authorization: Bearer abc",
            "Authorization: Bearer «redacted:credential»",
        ),
        (
            "authorization: Basic YTpi\nx",
            "authorization: Basic «redacted:credential»\nx",
        ),
        (
            r#"{"Authorization":"token abc","a":1}"#,
            r#"{"Authorization":"token «redacted:credential»","a":1}"#,
        ),
        (
            "Cookie: a=b; c=d\nHost: x",
            "Cookie: «redacted:cookie»\nHost: x",
        ),
        ("api_key='k'", "api_key='«redacted:api_key»'"),
        ("token=ümläut€", "token=«redacted:token»"),
        (
            "x\\npassword=geheim\\ny",
            "x\\npassword=«redacted:password»\\ny",
        ),
        ("password=\"open end", "password=\"«redacted:password»"),
    ] {
        assert_eq!(secrets(text), clean, "{text}");
    }
    let text = format!("api_key: sk-ant-{KEY}");
    assert_eq!(secrets(&text), "api_key: «redacted:anthropic_key»");
}

#[test]
fn sentences_schemas_and_placeholders_stay() {
    for text in [
        "token: the token to use",
        "The password must be kept. Password: required",
        "max_tokens=4096, \"max_token\": 12",
        r#"{"progressToken":"abc123","_meta":{"progressToken":7}}"#,
        r#"{"properties":{"password":{"type":"string"}},"required":["password"]}"#,
        r#"{"token":null,"secret":true}"#,
        "password=${DB_PASSWORD}",
        "api_key=<your key>",
        "API_KEY=$KEY token={{token}} secret=***",
        "PWD=/home/me/src",
        "key=value monkey=banana keyboard: qwerty1",
        "token::new(x1) token://x1y2z3",
        "if token == abc123",
        "token = process.env.TOKEN1",
        "use --token to pass a token",
        "Bearer authentication is used; basic usage",
        "https://example.org:8080/a@b",
        "ssh://git@github.com/x",
        "password://«redacted:url_password»@host",
        "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
    ] {
        assert_eq!(secrets(text), text);
    }
}

#[test]
fn urls_bearers_jwts_and_pem() {
    assert_eq!(
        secrets("postgres://me:pa:ss@w@db:5432/x?y"),
        "postgres://me:«redacted:url_password»@db:5432/x?y"
    );
    assert_eq!(
        secrets("https://a1b2c3d4e5f6a1b2c3d4@host/x"),
        "https://«redacted:url_password»@host/x"
    );
    assert_eq!(
        secrets("curl with Bearer abcd1234"),
        "curl with Bearer «redacted:bearer_token»"
    );
    assert_eq!(
        secrets("Basic dXNlcjpwYXNz!"),
        "Basic «redacted:basic_credentials»!"
    );
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
    assert_eq!(secrets(jwt), "«redacted:jwt»");
    assert_eq!(secrets(&format!("a {jwt} b")), "a «redacted:jwt» b");
    let pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIab+/=\n-----END RSA PRIVATE KEY-----";
    assert_eq!(secrets(&format!("x{pem}y")), "x«redacted:private_key»y");
    assert_eq!(
        secrets(&format!("{{\"k\":\"{}\"}}", pem.replace('\n', "\\n"))),
        "{\"k\":\"«redacted:private_key»\"}"
    );
    assert_eq!(
        secrets("-----BEGIN PRIVATE KEY-----\nMIIabc\nMIIdef «rest»"),
        "«redacted:private_key»«rest»"
    );
}

#[test]
fn command_lines() {
    let masked = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|&a| a.to_owned()).collect();
        command_line(&args).join(" ")
    };
    assert_eq!(
        masked(&[
            "x",
            "--api-key",
            "correcthorse",
            "--token=a,b)c",
            "--token-file",
            "/t",
            "--verbose"
        ]),
        "x --api-key «redacted:api_key» --token=«redacted:token» --token-file /t --verbose"
    );
    assert_eq!(
        masked(&[
            "docker",
            "run",
            "-e",
            "API_KEY=abc",
            "-e",
            "TOKEN",
            "-u",
            "1000:1000",
            "img"
        ]),
        "docker run -e API_KEY=«redacted:api_key» -e TOKEN -u 1000:1000 img"
    );
    assert_eq!(
        masked(&[
            "curl",
            "-H",
            "X-Api-Key: abc def",
            "-u",
            "me:geheim",
            "--header",
            "Accept: x"
        ]),
        "curl -H X-Api-Key: «redacted:api_key» -u me:«redacted:password» --header Accept: x"
    );
    assert_eq!(
        masked(&["sh", "-c", "TOKEN=abc npx foo --api-key k3y"]),
        "sh -c TOKEN=«redacted:token» npx foo --api-key k3y"
    );
    assert_eq!(
        masked(&[
            "x",
            KEY,
            "/nix/store/0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P-x",
            "--password",
            "--all"
        ]),
        "x «redacted:opaque» /nix/store/0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P-x --password --all"
    );
    assert_eq!(
        masked(&["mcp-remote", "--header", "Authorization:${AUTH}"]),
        "mcp-remote --header Authorization:${AUTH}"
    );
    assert_eq!(
        masked(&["--header", "Authorization: Bearer xyz"]),
        "--header Authorization: «redacted:credential»"
    );
}

#[test]
fn hostile_megabytes_take_linear_time() {
    const SIZE: usize = 1 << 20;
    let pieces = [
        "sk-",
        "sk- ",
        "-sk-",
        "eyJ.",
        "eyJ",
        ".eyJ",
        "-eyJ-",
        "://",
        "a://b:c",
        "a://:@",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----!",
        "-----BEGIN ",
        "password=\"",
        "password=",
        "password:\\\"",
        "token='${",
        "Authorization: ",
        "authorization:a",
        "bearer ",
        "basic a",
        "basic aaaaaaaaaaaaaaaa",
        "<token>",
        "password=«redacted:",
        "password=«",
        "authorization:«",
        "cookie:a",
        "pwd=/",
        "token:process.env",
        "password:\"«redacted:",
        "--token ",
        "key",
        "keykey=",
        "\\",
        "\"",
        " ",
        "AKIA",
        "ghp_",
        "xoxb-",
        "hvs.",
        "ATATT3",
        "password=\"string\"",
        "\\\"token\\\":\\\\\\\"",
    ];
    for piece in pieces {
        let text = piece.repeat(SIZE / piece.len());
        let start = Instant::now();
        let clean = secrets(&text).into_owned();
        let took = start.elapsed();
        assert!(took.as_secs() < 4, "{piece:?} took {took:?} for 1 MiB");
        assert_eq!(secrets(&clean), clean, "{piece:?} is not stable");
    }
}

/// Text of the kind that trips scanners: anchors, separators, quotes, letters.
fn tricky() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "password",
            "token",
            "api_key",
            "Authorization",
            "Cookie",
            "bearer ",
            "basic ",
            "://",
            "@",
            "eyJ",
            "AKIA",
            "ghp_",
            "sk-",
            "-----BEGIN PRIVATE KEY-----",
            "-----END",
            "=",
            ":",
            " ",
            "\"",
            "\\",
            "'",
            "<",
            ">",
            "\n",
            "«redacted:",
            "»",
            "${",
            "}",
            "é",
            "--",
            "&",
            ",",
            "abc1",
            ".",
        ])
        .prop_map(str::to_owned),
        "[a-zA-Z0-9]{1,40}",
        ".",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

#[test]
fn what_was_masked_within_an_address_stays_as_it_is() {
    for user in ["a", "a:b", "a1"] {
        let once = secrets(&format!("x://{user}-----BEGIN PRIVATE KEY-----@")).into_owned();
        assert!(once.contains("private_key"), "{once}");
        assert_eq!(secrets(&once), once);
    }
}

proptest! {
    #[test]
    fn never_panics_and_hits_are_ordered(text in prop_oneof![tricky(), any::<String>()]) {
        let mut last = 0;
        for hit in find(&text) {
            prop_assert!(last <= hit.start && hit.start < hit.end);
            prop_assert!(text.get(hit.start..hit.end).is_some());
            last = hit.end;
        }
    }

    #[test]
    fn redaction_is_stable(text in tricky()) {
        let once = secrets(&text).into_owned();
        prop_assert_eq!(secrets(&once), once.as_str());
    }

    #[test]
    fn a_secret_never_comes_through(
        before in "[ a-z,.\\n]{0,20}",
        after in "[ ,.\\n][ a-z,.\\n]{0,20}",
        n in 0usize..FORMATS.len(),
        seed in "[A-Z0-9]{60}",
    ) {
        let format = &FORMATS[n];
        let body = format!("{}7", &seed[..format.max.min(format.min.max(24)) - 1]);
        let text = format!("{before} {}{body}{after}", format.prefix);
        let clean = secrets(&text);
        for window in body.as_bytes().windows(5) {
            prop_assert!(!clean.contains(std::str::from_utf8(window).unwrap()), "{} → {}", text, clean);
        }
    }

    #[test]
    fn an_assigned_secret_never_comes_through(
        name in prop::sample::select(vec!["password", "DB_PASSWORD", "apiKey", "client-secret", "GITHUB_TOKEN"]),
        tie in prop::sample::select(vec!["=", ": ", "=\"", "\": \"", "\\\": \\\""]),
        value in "[a-z]{3}[0-9]{6}[A-Z!]{0,20}",
    ) {
        let quote = if tie.ends_with("\\\"") { "\\\"" } else if tie.ends_with('"') { "\"" } else { "" };
        let text = format!("x {name}{tie}{value}{quote} y");
        prop_assert!(!secrets(&text).contains(&value[..5]), "{}", text);
        let args = vec!["x".to_owned(), format!("--{name}"), value.clone(), format!("{name}={value}")];
        prop_assert!(!command_line(&args).join(" ").contains(&value[..5]));
    }
}
