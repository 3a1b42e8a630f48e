use super::*;

/// `cmp rsp, [r14 + 16]`, a jump, `ret`, the call for more stack, the jump back.
const SMALL: &[u8] = &[
    0x49, 0x3b, 0x66, 0x10, 0x76, 0x01, 0xc3, 0xe8, 0, 0, 0, 0, 0xeb, 0xf2, 0xcc, 0xcc,
];
/// `lea r12, [rsp - 8]`, `cmp r12, [r14 + 16]`, `ret`, `ret`.
const LARGE: &[u8] = &[
    0x4c, 0x8d, 0x64, 0x24, 0xf8, 0x4d, 0x3b, 0x66, 0x10, 0xc3, 0xc3, 0xcc,
];
const ADDRESS: u64 = 0x40_1000;
const TABLE_AT: usize = 0x1000;

/// A program in a file: its code, the table of its functions, and how it was built.
struct Program {
    functions: Vec<(&'static str, &'static [u8])>,
    version: &'static str,
    settings: &'static str,
    /// Where the code begins according to the table.
    start: u64,
}

impl Default for Program {
    fn default() -> Self {
        Self {
            functions: vec![
                ("main.main", SMALL),
                ("crypto/tls.(*Conn).Read", LARGE),
                ("crypto/tls.(*Conn).ReadFrom", SMALL),
                ("crypto/tls.(*Conn).Write", SMALL),
                ("crypto/tls.(*Conn).clientHandshake", SMALL),
            ],
            version: "go1.25.5",
            settings: "path\tmain\nbuild\t-compiler=gc\n",
            start: ADDRESS,
        }
    }
}

impl Program {
    fn file(&self) -> (Vec<u8>, Image) {
        let mut code = Vec::new();
        let (mut names, mut entries) = (Vec::new(), Vec::new());
        for (name, bytes) in &self.functions {
            entries.push((code.len() as u32, names.len() as u32));
            names.extend(name.bytes().chain([0]));
            code.extend(*bytes);
        }
        let names_at = 72_u64;
        let names_end = names_at + names.len() as u64;
        let mut table = 0x0801_0000_ffff_fff1_u64.to_le_bytes().to_vec();
        for word in [
            entries.len() as u64,
            1,
            self.start,
            names_at,
            names_end,
            names_end,
            names_end,
            names_end,
        ] {
            table.extend(word.to_le_bytes());
        }
        table.extend(names);
        let records = entries.len() as u32 * 8 + 4;
        for (number, (entry, _)) in entries.iter().enumerate() {
            table.extend(entry.to_le_bytes());
            table.extend((records + number as u32 * 8).to_le_bytes());
        }
        table.extend((code.len() as u32).to_le_bytes());
        for (entry, name) in &entries {
            table.extend(entry.to_le_bytes());
            table.extend(name.to_le_bytes());
        }
        let mut info = b"\xff Go buildinf:\x08\x02".to_vec();
        info.resize(32, 0);
        for text in [self.version, self.settings] {
            info.push(text.len() as u8);
            info.extend(text.bytes());
        }
        let mut file = code.clone();
        file.resize(TABLE_AT, 0);
        file.extend(&table);
        let info_at = file.len() as u64;
        file.extend(&info);
        let image = Image {
            machine: Machine::X86,
            code: vec![Segment {
                address: ADDRESS,
                part: Part {
                    offset: 0,
                    length: code.len() as u64,
                },
            }],
            starts: vec![],
            functions: Part {
                offset: TABLE_AT as u64,
                length: table.len() as u64,
            },
            build_info: Part {
                offset: info_at,
                length: info.len() as u64,
            },
        };
        (file, image)
    }

    fn functions(&self) -> Result<TlsFunctions, Refusal> {
        let (file, image) = self.file();
        tls_functions(file.as_slice(), &image)
    }
}

fn expected() -> TlsFunctions {
    TlsFunctions {
        read: Function {
            entry: 16,
            returns: vec![25, 26],
        },
        write: Function {
            entry: 44,
            returns: vec![50],
        },
        handshakes: vec![60],
    }
}

#[test]
fn functions_and_their_returns_are_found_by_the_table_alone() {
    assert_eq!(Program::default().functions().unwrap(), expected());
}

#[test]
fn where_the_code_begins_may_have_to_be_tried() {
    let program = Program {
        start: 0,
        ..Program::default()
    };
    assert_eq!(program.functions(), Err(Refusal::Unknown));
    let (file, mut image) = program.file();
    image.starts = vec![ADDRESS + 2, ADDRESS];
    assert_eq!(tls_functions(file.as_slice(), &image).unwrap(), expected());
}

#[test]
fn a_program_that_was_built_otherwise_is_refused() {
    let refusal = |program: Program| program.functions().unwrap_err();
    for (version, shown) in [("go1.20.14", "Go 1.20"), ("go1.9", "Go 1.9")] {
        let program = Program {
            version,
            ..Program::default()
        };
        assert_eq!(refusal(program), Refusal::TooOld(shown.to_owned()));
    }
    for version in ["go1.21", "devel go1.28-0123456789 Sat", "go1.27rc1 X:none"] {
        let program = Program {
            version,
            ..Program::default()
        };
        assert!(program.functions().is_ok(), "{version}");
    }
    let program = Program {
        version: "gccgo",
        ..Program::default()
    };
    assert_eq!(refusal(program), Refusal::Unknown);
    let program = Program {
        settings: "path\tmain\nbuild\t-pgo=default.pgo\n",
        ..Program::default()
    };
    assert_eq!(refusal(program), Refusal::WithProfile);
}

#[test]
fn a_program_without_tls_is_told_from_one_that_is_not_understood() {
    let mut program = Program::default();
    program.functions.remove(1);
    assert_eq!(program.functions(), Err(Refusal::NoTls));
    let mut program = Program::default();
    // No handshake: nothing could be followed.
    program.functions.pop();
    assert_eq!(program.functions(), Err(Refusal::NoTls));
    let mut program = Program::default();
    // It does not begin like a function of Go.
    program.functions[1].1 = &[0x55, 0xc3, 0xcc, 0xcc];
    assert_eq!(program.functions(), Err(Refusal::Unknown));
    // It never returns.
    program.functions[1].1 = &SMALL[..4];
    assert_eq!(program.functions(), Err(Refusal::Unknown));
    // Its last instruction is cut off.
    program.functions[1].1 = &SMALL[..8];
    assert_eq!(program.functions(), Err(Refusal::Unknown));
}

#[test]
fn names_are_found_wherever_a_piece_of_them_ends() {
    // Names that fill the table up to where the searched pieces meet.
    let filler: &'static str = Box::leak("n".repeat((32 << 10) - 40).into_boxed_str());
    for more in 0..90 {
        let mut program = Program::default();
        let last: &'static str = Box::leak("m".repeat(more).into_boxed_str());
        program.functions.insert(0, (filler, SMALL));
        program.functions.insert(1, (last, SMALL));
        let found = program.functions();
        // The table is longer than the file's space for its code, which does not matter.
        assert_eq!(found.unwrap().handshakes, [92], "{more}");
    }
}

#[test]
fn functions_of_arm_are_found() {
    let code: Vec<u8> = [
        0xf940_0b90_u32,
        0xeb30_63ff,
        0xd65f_03c0,
        0xd503_201f,
        0xd65f_03c0,
    ]
    .iter()
    .flat_map(|word| word.to_le_bytes())
    .collect();
    assert_eq!(returns::find(Machine::Arm, &code), Some(vec![8, 16]));
    assert_eq!(returns::find(Machine::Arm, &code[4..]), None);
    assert_eq!(returns::find(Machine::Arm, &code[..19]), None);
    assert_eq!(returns::find(Machine::Arm, &code[..8]), None);
}

#[test]
fn damage_is_refused_or_leads_to_places_within_the_code() {
    let (whole, image) = Program::default().file();
    let code = &image.code[0].part;
    for at in TABLE_AT..whole.len() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut file = whole.clone();
            file[at] = byte;
            let Ok(found) = tls_functions(file.as_slice(), &image) else {
                continue;
            };
            let places = found.read.returns.iter().chain(&found.write.returns);
            let mut places = places.chain(&found.handshakes);
            assert!(places.all(|place| *place < code.length), "{at}: {found:?}");
        }
        let cut = tls_functions(&whole[..at], &image);
        assert!(cut.is_err(), "{at}");
    }
}

#[test]
fn no_more_is_read_than_the_budget_allows() {
    struct Endless;
    impl ReadAt for Endless {
        fn read_at(&self, into: &mut [u8], offset: u64) -> std::io::Result<usize> {
            // A table whose records are far apart.
            for (at, byte) in into.iter_mut().enumerate() {
                *byte = (offset.wrapping_add(at as u64) % 251) as u8;
            }
            Ok(into.len())
        }
    }
    let budget = Budget::new(1 << 20);
    let part = Part {
        offset: 0,
        length: u64::MAX,
    };
    let mut part = FilePart::new(&Endless, part, &budget);
    let read = (0..1000).take_while(|number| part.u64(number << 30).is_some());
    assert_eq!(read.count(), 16);
}
