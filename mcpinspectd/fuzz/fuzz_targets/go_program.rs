//! Whatever a program in Go is made of, the places for probes that are found in it are within its code, each
//! function's before those where it returns.
#![cfg_attr(fuzzing, no_main)]

use arbitrary::Arbitrary;
use mcpinspect_capture::golang::{Function, Image, Machine, Part, Segment, tls_functions};
use mcpinspectd_fuzz::{arbitrary, fuzz_target};

const NAMES: [&str; 4] = ["Read", "Write", "clientHandshake", "serverHandshake"];
const INFO: &[u8] = b"\xff Go buildinf:\x08\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x08go1.25.5\0";

#[derive(Arbitrary, Debug)]
struct Program<'a> {
    is_arm: bool,
    /// The code of the functions behind its usual beginning.
    code: [&'a [u8]; 4],
    /// Bytes of the file that are other ones.
    edits: Vec<(u16, u8)>,
    /// What is cut off at its end, rarely anything.
    cut: u16,
    address: u64,
    start: u64,
}

impl Program<'_> {
    fn file(&self) -> (Vec<u8>, Image) {
        let machine = if self.is_arm {
            Machine::Arm
        } else {
            Machine::X86
        };
        let beginning: &[u8] = match machine {
            Machine::Arm => &[0x90, 0x0b, 0x40, 0xf9],
            Machine::X86 => &[0x49, 0x3b, 0x66, 0x10],
        };
        let (mut file, mut names, mut records) = (Vec::new(), Vec::new(), Vec::new());
        for (name, code) in NAMES.iter().zip(self.code) {
            records.push((file.len() as u32, names.len() as u32));
            names.extend(b"crypto/tls.(*Conn).");
            names.extend(name.bytes().chain([0]));
            file.extend(beginning);
            file.extend(code);
            file.extend(
                [0xc0, 0x03, 0x5f, 0xd6]
                    .iter()
                    .take(4 * usize::from(self.is_arm)),
            );
            file.extend([0xc3].iter().take(usize::from(!self.is_arm)));
        }
        let code = file.len() as u64;
        let end = 72 + names.len() as u64;
        let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        for word in [4, 1, self.start, 72, end, end, end, end] {
            table.extend(word.to_le_bytes());
        }
        table.extend(names);
        for (number, (entry, _)) in records.iter().enumerate() {
            table.extend(entry.to_le_bytes());
            table.extend((36 + 8 * number as u32).to_le_bytes());
        }
        table.extend((code as u32).to_le_bytes());
        for (entry, name) in records {
            table.extend(entry.to_le_bytes());
            table.extend(name.to_le_bytes());
        }
        let part = |offset, bytes: &[u8]| Part {
            offset,
            length: bytes.len() as u64,
        };
        let functions = part(code, &table);
        let build_info = part(code + functions.length, INFO);
        file.extend(table);
        file.extend(INFO);
        for (at, byte) in &self.edits {
            if let Some(edited) = file.get_mut(usize::from(*at)) {
                *edited = *byte;
            }
        }
        if self.cut > 0xff00 {
            file.truncate(file.len().saturating_sub(usize::from(self.cut & 0xff)));
        }
        let segment = Segment {
            address: self.address,
            part: Part {
                offset: 0,
                length: code,
            },
        };
        let image = Image {
            machine,
            code: vec![segment],
            starts: vec![self.address],
            functions,
            build_info,
        };
        (file, image)
    }
}

fuzz_target!(|program: Program<'_>| {
    let (file, image) = program.file();
    let Ok(found) = tls_functions(file.as_slice(), &image) else {
        return;
    };
    let length = image.code[0].part.length;
    let is_sound = |function: &Function| {
        let mut returns = function.returns.iter();
        returns.all(|at| (function.entry..length).contains(at))
    };
    assert!(is_sound(&found.read) && is_sound(&found.write), "{found:?}");
    assert!(found.handshakes.iter().all(|at| *at < length), "{found:?}");
});
