//! The instructions through which a function of Go returns.

use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind, Register};

/// Most return instructions of one function.
const RETURNS_MAX: usize = 64;

/// What a program was compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// x86-64.
    X86,
    /// 64-bit ARM.
    Arm,
}

/// Where the return instructions of a function are in its machine code. `None` if this is not such a function:
/// it has to begin by comparing the stack pointer with the bound in the goroutine, whose address Go keeps in
/// a register of its own, and decode cleanly to its end.
pub(super) fn find(machine: Machine, code: &[u8]) -> Option<Vec<u64>> {
    let returns = match machine {
        Machine::X86 => x86(code),
        Machine::Arm => arm(code),
    }?;
    (1..=RETURNS_MAX)
        .contains(&returns.len())
        .then_some(returns)
}

fn x86(code: &[u8]) -> Option<Vec<u64>> {
    /// Where the bound is in a goroutine.
    const BOUND: u64 = 16;
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut returns = Vec::new();
    let mut stack = Register::RSP;
    let mut is_checked = false;
    for (number, instruction) in decoder.iter().enumerate() {
        if instruction.is_invalid() {
            return None;
        }
        if !is_checked {
            let mnemonic = instruction.mnemonic();
            // With a large frame, an address below the stack pointer is compared.
            let is_large = number == 0
                && mnemonic == Mnemonic::Lea
                && instruction.op0_register() == Register::R12
                && instruction.memory_base() == Register::RSP;
            if is_large {
                stack = Register::R12;
                continue;
            }
            is_checked = mnemonic == Mnemonic::Cmp
                && instruction.op0_register() == stack
                && instruction.op1_kind() == OpKind::Memory
                && instruction.memory_base() == Register::R14
                && instruction.memory_index() == Register::None
                && instruction.memory_displacement64() == BOUND;
            if !is_checked {
                return None;
            }
        }
        if instruction.mnemonic() == Mnemonic::Ret {
            returns.push(instruction.ip());
        }
    }
    is_checked.then_some(returns)
}

fn arm(code: &[u8]) -> Option<Vec<u64>> {
    /// `ldr x16, [x28, #16]`.
    const CHECK: u32 = 0xf940_0b90;
    /// `ret`.
    const RETURN: u32 = 0xd65f_03c0;
    let (words, []) = code.as_chunks::<4>() else {
        return None;
    };
    let mut words = words
        .iter()
        .map(|word| u32::from_le_bytes(*word))
        .enumerate();
    if words.next() != Some((0, CHECK)) {
        return None;
    }
    let returns = words.filter(|(_, word)| *word == RETURN);
    Some(returns.map(|(number, _)| number as u64 * 4).collect())
}
