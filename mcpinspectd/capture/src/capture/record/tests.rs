use mcpinspect_common::{EXEC_ANCESTORS, EXEC_NAME_MAX, EXEC_PATH_MAX};
use proptest::prelude::*;

use super::*;

/// The bytes of a plain value.
fn bytes<T: Plain>(value: &T) -> Vec<u8> {
    // SAFETY: `Plain` types are integers without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }.to_vec()
}

fn filled<const N: usize>(text: &[u8]) -> [u8; N] {
    // What follows the zero is whatever was in the ring.
    let mut filled = [b'#'; N];
    filled[..text.len()].copy_from_slice(text);
    filled[text.len()] = 0;
    filled
}

fn report() -> ExecReport {
    let none = AncestorReport {
        start_time: 0,
        tgid: 0,
        uid: 0,
        name: filled(b"swapper/0"),
    };
    let mut ancestors = [none; EXEC_ANCESTORS];
    ancestors[0] = AncestorReport {
        start_time: 20_000_000,
        tgid: 41,
        uid: 1000,
        name: filled(b"client\xff"),
    };
    ancestors[1] = AncestorReport {
        tgid: 1,
        ..ancestors[0]
    };
    ExecReport {
        stdio: [EndpointReport::default(); 2],
        start_time: 1_239_999_999,
        executable_ino: 7,
        directory_ino: 8,
        arguments_length: 0,
        name: filled(b"python"),
        executable_name: filled(b"python3.11"),
        executable_path: filled(b"/v/bin/python"),
        ancestors,
    }
}

fn record(payload: &[u8]) -> Vec<u8> {
    let mut data = bytes(&RecordHeader {
        kind: RecordKind::Exec as u8,
        len: u32::try_from(payload.len()).unwrap(),
        tgid: 42,
        aux: 1000,
        ..RecordHeader::default()
    });
    data.extend(payload);
    data
}

fn executed_of(report: &ExecReport, arguments: &[u8]) -> Executed {
    let payload = [&bytes(report), arguments].concat();
    let data = record(&payload);
    match decode(&data).unwrap() {
        (Origin { tgid: 42, .. }, KernelRecord::Exec { executed, uid, .. }) => {
            assert_eq!(uid, 1000);
            (*executed.unwrap()).clone()
        }
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn a_program_is_what_the_kernel_saw() {
    let arguments = b"python\0-m\0x\0";
    let report = ExecReport {
        arguments_length: 12,
        ..report()
    };
    let executed = executed_of(&report, arguments);
    let expected = Executed {
        start_time: 123,
        uid: 1000,
        name: "python".to_owned(),
        executable: "/v/bin/python3.11".to_owned(),
        executable_ino: 7,
        directory_ino: 8,
        arguments: Some(arguments.to_vec().into()),
        ancestors: [41, 1]
            .map(|pid| ExecutedBy {
                pid: Pid(pid),
                start_time: 2,
                uid: 1000,
                name: "client\u{fffd}".to_owned(),
            })
            .to_vec(),
    };
    assert_eq!(executed, expected);
    assert!(
        !format!("{executed:?}").contains("-m"),
        "arguments are secret"
    );
}

#[test]
fn arguments_that_could_not_be_read_are_unknown() {
    let unread = ExecReport {
        arguments_length: 12,
        ..report()
    };
    assert_eq!(executed_of(&unread, b"").arguments, None);
    assert_eq!(executed_of(&report(), b"").arguments, Some(Box::default()));
}

#[test]
fn an_executable_has_the_name_that_it_has_without_links() {
    for (path, name, expected) in [
        ("/usr/bin/python", "python3.11", "/usr/bin/python3.11"),
        ("./server", "server", "./server"),
        ("server", "server", "server"),
        ("/dev/fd/7", "memfd:x", "/dev/fd/memfd:x"),
        ("/usr/bin/x", "", "/usr/bin/x"),
        ("", "x", "x"),
    ] {
        assert_eq!(executable(path, name), expected);
    }
}

#[test]
fn a_kernel_that_says_nothing_reports_the_endpoints() {
    let stdio = [EndpointReport::default(); 2];
    let payload = stdio.map(|report| bytes(&report)).concat();
    for more in [0, 1, size_of::<ExecReport>() - payload.len() - 1] {
        let data = record(&[payload.clone(), vec![0; more]].concat());
        let (_, decoded) = decode(&data).unwrap();
        let expected = KernelRecord::Exec {
            input: stdio[0],
            output: stdio[1],
            uid: 1000,
            executed: None,
        };
        assert_eq!(decoded, expected);
    }
    assert_eq!(decode(&record(&payload[1..])), Err(DecodeError::Short));
}

#[test]
fn text_without_an_end_ends_with_its_field() {
    let report = ExecReport {
        name: [b'n'; 16],
        executable_name: [b'e'; EXEC_NAME_MAX],
        executable_path: [b'/'; EXEC_PATH_MAX],
        ..report()
    };
    let executed = executed_of(&report, b"");
    assert_eq!(executed.name.len(), 16);
    assert_eq!(executed.executable.len(), EXEC_PATH_MAX + EXEC_NAME_MAX);
}

proptest! {
    #[test]
    fn any_bytes_decode_or_do_not(data in prop::collection::vec(any::<u8>(), 0..900)) {
        let _ = decode(&data);
    }

    #[test]
    fn any_report_decodes_within_its_bounds(
        kind in 0..8u8,
        payload in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        let mut data = record(&payload);
        data[0] = kind;
        if let Ok((_, KernelRecord::Exec { executed: Some(executed), .. })) = decode(&data) {
            prop_assert!(executed.ancestors.len() <= EXEC_ANCESTORS);
            prop_assert!(executed.ancestors.iter().all(|ancestor| ancestor.pid.0 != 0));
            prop_assert!(executed.arguments.as_ref().is_none_or(|arguments| arguments.len() <= payload.len()));
        }
    }
}
