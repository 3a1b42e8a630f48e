use proptest::prelude::*;

use super::*;

const POINTER: u32 = 2;
const CONST: u32 = 10;
/// The flag of a structure with bit fields.
const BIT_FIELDS: u32 = 1 << 31;

/// Type information as a compiler writes it, type by type.
struct Builder {
    types: Vec<u32>,
    strings: Vec<u8>,
    last: u32,
}

impl Builder {
    fn new() -> Self {
        Self {
            types: Vec::new(),
            // The first name is the empty one.
            strings: vec![0],
            last: 0,
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(name.bytes().chain([0]));
        at
    }

    /// Adds a type and returns its id. `word` is its size, or the type that it is made of.
    fn add(&mut self, kind: u32, name: &str, word: u32, extra: &[u32]) -> u32 {
        let name = self.name(name);
        self.types.extend([name, kind << 24, word]);
        self.types.extend(extra);
        self.last += 1;
        self.last
    }

    /// Adds a structure or a union, whose members have a name, a type, and an offset in bits.
    fn record(&mut self, kind: u32, name: &str, size: u32, members: &[(&str, u32, u32)]) -> u32 {
        let entries: Vec<[u32; 3]> = members
            .iter()
            .map(|(name, id, bits)| [self.name(name), *id, *bits])
            .collect();
        let head = self.types.len();
        let id = self.add(kind, name, size, entries.as_flattened());
        self.types[head + 1] |= members.len() as u32;
        if members.iter().any(|(.., bits)| bits >> 24 != 0) {
            self.types[head + 1] |= BIT_FIELDS;
        }
        id
    }

    fn build(self) -> Vec<u8> {
        let types: Vec<u8> = self
            .types
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let (length, names) = (types.len() as u32, self.strings.len() as u32);
        let mut data = MAGIC.to_ne_bytes().to_vec();
        data.extend([1, 0]);
        data.extend(
            [24, 0, length, length, names]
                .map(u32::to_ne_bytes)
                .as_flattened(),
        );
        data.extend(types);
        data.extend(self.strings);
        data
    }
}

/// A few structures like a kernel's, and at least one type of each kind that others are reached through.
fn kernel() -> Vec<u8> {
    let mut types = Builder::new();
    let int = types.add(INT, "int", 4, &[32]);
    let short = types.add(INT, "unsigned short", 2, &[16]);
    let pid = types.add(TYPEDEF, "pid_t", int, &[]);
    let constant = types.add(CONST, "", pid, &[]);
    let text = types.add(ARRAY, "", 0, &[short, int, 16]);
    let state = types.add(ENUM, "state", 4, &[]);
    let pointer = types.add(POINTER, "", 8, &[]);
    let ports = [("skc_dport", short, 0), ("skc_num", short, 16)];
    let ports = types.record(STRUCT, "", 4, &ports);
    let pair = types.record(UNION, "", 4, &[("skc_portpair", int, 0), ("", ports, 0)]);
    let common = [
        ("skc_addr", int, 0),
        ("", pair, 32),
        ("skc_family", short, 64),
    ];
    let common = types.record(STRUCT, "sock_common", 12, &common);
    let socket = [
        ("__sk_common", common, 64),
        ("sk_name", text, 160),
        ("sk_state", state, 416),
    ];
    types.record(STRUCT, "sock", 64, &socket);
    // Two bits, one bit, and a field of a whole number of bytes behind them.
    let flags = [
        ("low", int, 2 << 24),
        ("high", int, 1 << 24 | 9),
        ("tgid", constant, 32),
    ];
    types.record(STRUCT, "task_struct", 16, &flags);
    types.record(
        STRUCT,
        "file",
        16,
        &[("f_mode", int, 0), ("f_inode", pointer, 64)],
    );
    types.build()
}

#[test]
fn fields_are_found() {
    let data = kernel();
    let btf = Btf::parse(&data).unwrap();
    for (path, offset, size) in [
        ("file.f_inode", 8, 8),
        // Through a typedef and a qualifier, behind bit fields.
        ("task_struct.tgid", 4, 4),
        ("task_struct.high", 1, 4),
        ("sock", 0, 64),
        ("sock.__sk_common", 8, 12),
        ("sock.__sk_common.skc_family", 16, 2),
        // Through an anonymous union, and an anonymous structure in it.
        ("sock.__sk_common.skc_portpair", 12, 4),
        ("sock.__sk_common.skc_num", 14, 2),
        ("sock.sk_name", 20, 32),
        ("sock.sk_state", 52, 4),
    ] {
        assert_eq!(btf.field(path), Ok(Field { offset, size }), "{path}");
    }
    for path in ["", "no_such", "file.no_such", "file.f_mode.no_such", "int"] {
        assert_eq!(btf.field(path), Err(BtfError::Missing(path.into())));
    }
}

#[test]
fn types_that_lead_nowhere_are_malformed() {
    let mut types = Builder::new();
    let itself = types.last + 1;
    let typedef = types.add(TYPEDEF, "endless", itself, &[]);
    types.record(STRUCT, "chain", 8, &[("member", typedef, 0)]);
    let itself = types.last + 1;
    types.record(STRUCT, "nested", 8, &[("", itself, 0)]);
    let itself = types.last + 1;
    let array = types.add(ARRAY, "", 0, &[itself, itself, 2]);
    types.record(STRUCT, "array", 8, &[("member", array, 0)]);
    types.record(STRUCT, "dangling", 8, &[("member", 1000, 0)]);
    let data = types.build();
    let btf = Btf::parse(&data).unwrap();
    for path in [
        "chain.member",
        "nested.member",
        "array.member",
        "dangling.member",
    ] {
        let found = btf.field(path);
        assert!(
            matches!(found, Err(BtfError::Malformed(_))),
            "{path}: {found:?}"
        );
    }
}

#[test]
fn data_that_is_not_btf_is_rejected() {
    assert!(Btf::parse(b"").is_err());
    assert!(Btf::parse(b"\x7fELF").is_err());
    let data = kernel();
    for end in 0..data.len() {
        assert!(Btf::parse(&data[..end]).is_err(), "{end}");
    }
    let mut types = Builder::new();
    types.add(31, "of the future", 0, &[]);
    let unknown = BtfError::Malformed("unknown kind of type");
    assert_eq!(Btf::parse(&types.build()).err(), Some(unknown));
}

proptest! {
    #[test]
    fn never_panics(mut data: Vec<u8>, path in "[a-z_.]{0,20}") {
        if data.len() >= 2 {
            data[..2].copy_from_slice(&MAGIC.to_ne_bytes());
        }
        if let Ok(btf) = Btf::parse(&data) {
            let _ = btf.field(&path);
        }
    }

    #[test]
    fn damage_never_panics(at in any::<prop::sample::Index>(), byte: u8) {
        let mut data = kernel();
        *at.get_mut(&mut data) = byte;
        if let Ok(btf) = Btf::parse(&data) {
            for path in ["sock.__sk_common.skc_num", "task_struct.tgid", "sock.sk_name"] {
                let _ = btf.field(path);
            }
        }
    }
}
