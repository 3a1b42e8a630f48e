//! Whatever the record of a program's start holds, it decodes into bounded values, and they lead to a
//! server whose name is harmless, the same each time.
#![cfg_attr(fuzzing, no_main)]

use arbitrary::Arbitrary;
use mcpinspect_capture::capture::{KernelRecord, decode};
use mcpinspect_common::{EXEC_ANCESTORS, ExecReport, RecordHeader, RecordKind};
use mcpinspect_core::model::Pid;
use mcpinspect_process::ProcessInfo;
use mcpinspect_process::identity::{Launch, of_launch};
use mcpinspectd_fuzz::{arbitrary, fuzz_target};

#[derive(Arbitrary, Debug)]
struct Record<'a> {
    /// What is left out at the end, rarely anything.
    cut: u16,
    arguments: &'a [u8],
    ancestors: u8,
    report: &'a [u8],
}

impl Record<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut payload = self.report.to_vec();
        payload.resize(size_of::<ExecReport>(), self.ancestors);
        payload.extend(self.arguments);
        if self.cut > 0xf000 {
            payload.truncate(payload.len().saturating_sub(usize::from(self.cut & 0xfff)));
        }
        let mut data = vec![0; size_of::<RecordHeader>()];
        data[0] = RecordKind::Exec as u8;
        // The length is the fifth to eighth byte.
        data[4..8].copy_from_slice(&(payload.len() as u32).to_ne_bytes());
        data.extend(payload);
        data
    }
}

fuzz_target!(|record: Record<'_>| {
    let data = record.bytes();
    let Ok((
        _,
        KernelRecord::Exec {
            executed: Some(executed),
            ..
        },
    )) = decode(&data)
    else {
        return;
    };
    assert!(executed.ancestors.len() <= EXEC_ANCESTORS);
    let info = ProcessInfo::recorded(Pid(7), &executed);
    let party = info.to_party();
    assert!(party.command.iter().map(String::len).sum::<usize>() < 256 << 10);
    let launch = Launch::of(&info, None, Some("/home/me".to_owned()));
    let identity = of_launch(&launch);
    assert_eq!(of_launch(&launch), identity);
    let name = &*identity.server_id.0;
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    assert!(!name.is_empty() && name.len() <= 48 && name.bytes().all(is_plain));
});
