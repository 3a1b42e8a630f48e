//! Whether the probes fit the stack that every kernel provides: 512 bytes for a program and all its active
//! functions (`MAX_BPF_STACK`). Newer kernels give each function a stack of its own and would not notice.
//!
//! Depths are counted as in `check_max_stack_depth` in `kernel/bpf/verifier.c`: the lowest byte of its frame that
//! a function uses, rounded up, for every chain of calls and callbacks.

use std::collections::{BTreeMap, BTreeSet};

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SymbolKind};

const STACK: u64 = 512;
/// What a frame is rounded up to; since Linux 6.8, half of that.
const ROUNDING: u64 = 32;
/// Bytes of an instruction; one that loads 64 bits takes two.
const INSTRUCTION: usize = 8;

/// A function: the number of its section, and where it begins there.
type FunctionAddress = (usize, u64);

/// What a function uses, and what it calls.
#[derive(Debug, Default)]
struct Function {
    name: String,
    depth: u64,
    calls: BTreeSet<FunctionAddress>,
}

/// All functions of an object.
fn functions(object: &[u8]) -> BTreeMap<FunctionAddress, Function> {
    let file = object::File::parse(object).unwrap();
    let bounds: BTreeMap<FunctionAddress, u64> = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
        .filter_map(|symbol| Some(((symbol.section_index()?.0, symbol.address()), symbol.size())))
        .collect();
    let text = file.section_by_name(".text").unwrap().index().0;
    let around = |section: usize, at: u64| {
        let (address, size) = bounds.range(..=(section, at)).next_back()?;
        (address.0 == section && at < address.1 + size).then_some(*address)
    };
    let mut found = BTreeMap::new();
    for symbol in file.symbols() {
        let Some(section) = symbol.section_index() else {
            continue;
        };
        let address = (section.0, symbol.address());
        let Some(size) = bounds.get(&address) else {
            continue;
        };
        let section = file.section_by_index(section).unwrap();
        let relocations: BTreeMap<u64, RelocationTarget> = section
            .relocations()
            .map(|(at, relocation)| (at, relocation.target()))
            .collect();
        // Where a call or an address leads that is `immediate` away from what its relocation names.
        let target = |at: u64, from: u64| match relocations.get(&at)? {
            RelocationTarget::Symbol(index) => {
                let symbol = file.symbol_by_index(*index).unwrap();
                let section = symbol.section_index()?.0;
                let offset = if symbol.kind() == SymbolKind::Section {
                    from
                } else {
                    0
                };
                around(section, symbol.address() + offset)
            }
            _ => None,
        };
        let code = section.data_range(address.1, *size).unwrap().unwrap();
        let mut function = Function {
            name: symbol.name().unwrap().to_owned(),
            ..Function::default()
        };
        let mut copies = BTreeSet::new();
        for (index, instruction) in code.chunks_exact(INSTRUCTION).enumerate() {
            let at = address.1 + (index * INSTRUCTION) as u64;
            let (operation, registers) = (instruction[0], instruction[1]);
            let (to, from) = (registers & 0xf, registers >> 4);
            let offset = i64::from(i16::from_le_bytes([instruction[2], instruction[3]]));
            let immediate = i32::from_le_bytes(instruction[4..].try_into().unwrap());
            const FRAME: u8 = 10;
            let used = match operation & 7 {
                // Loads, and both kinds of stores.
                1 if from == FRAME => offset,
                2 | 3 if to == FRAME => offset,
                _ => 0,
            };
            let mut depth = used.min(0).unsigned_abs();
            match operation {
                0xbf if from == FRAME => {
                    copies.insert(to);
                }
                0x07 if copies.remove(&to) && immediate < 0 => {
                    depth = u64::from(immediate.unsigned_abs());
                }
                // A call of a function of the object.
                0x85 if from == 1 => {
                    let near = at
                        .wrapping_add(INSTRUCTION as u64)
                        .wrapping_add_signed(i64::from(immediate) * INSTRUCTION as i64);
                    let from_section = ((i64::from(immediate) + 1) * INSTRUCTION as i64) as u64;
                    let called = target(at, from_section).or_else(|| around(address.0, near));
                    function.calls.extend(called);
                }
                // The address of a callback.
                0x18 => {
                    let called = target(at, u64::from(immediate.unsigned_abs()));
                    function
                        .calls
                        .extend(called.filter(|address| address.0 == text));
                }
                _ => {}
            }
            function.depth = function.depth.max(depth);
        }
        found.insert(address, function);
    }
    found
}

/// The deepest chain of calls from a function, and its depth.
fn deepest(
    address: FunctionAddress,
    all: &BTreeMap<FunctionAddress, Function>,
) -> (u64, Vec<String>) {
    let Some(function) = all.get(&address) else {
        return (0, Vec::new());
    };
    let own = function.depth.max(1).next_multiple_of(ROUNDING);
    let calls = function.calls.iter().filter(|called| **called != address);
    let (below, mut chain) = calls
        .map(|called| deepest(*called, all))
        .max_by_key(|(depth, _)| *depth)
        .unwrap_or_default();
    chain.insert(0, format!("{}: {own}", function.name));
    (own + below, chain)
}

#[test]
fn every_chain_of_calls_fits_the_stack() {
    assert_eq!(super::probes_missing(), None);
    let all = functions(super::probes::OBJECT);
    let calls: usize = all.values().map(|function| function.calls.len()).sum();
    assert!(calls > 20, "callbacks are found");
    let depths = all.keys().map(|address| deepest(*address, &all));
    let (depth, chain) = depths.max_by_key(|(depth, _)| *depth).unwrap();
    assert!(depth > 256, "depths are counted: {depth}");
    assert!(depth <= STACK, "{depth} bytes: {chain:#?}");
}
