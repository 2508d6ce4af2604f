//! Go's functions: the instruction after which a call cannot restart, the registers of its arguments, and the
//! probes on Go's scheduler that follow goroutines over threads.
//!
//! A function of Go's first checks that its stack has room, and restarts on another stack if not: a probe at
//! its entry would see that call twice. Go 1.17 and later pass arguments in registers and keep the running
//! goroutine in one (Go's `src/cmd/compile/abi-internal.md`).

use std::{fs::File, os::unix::fs::FileExt as _};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use object::{LittleEndian, read::elf::SectionHeader as _};

use super::{found::SymbolError, registers::Registers};
use crate::probes::phase::{self, Tables};

/// A thread gives its goroutine up and looks for another one.
pub(super) const SCHEDULE: &str = "runtime.schedule";
/// Registers of a call's words: x86-64's ax, bx, cx, di, si, r8, r9, r10, r11; arm64's x0 to x15.
pub(super) const ARGUMENTS: Registers =
    Registers { x86_64: &[80, 40, 88, 112, 104, 72, 64, 56, 48], arm64: 16 };
/// Most instructions up to the stack check.
const BEGIN_INSTRUCTIONS: usize = 8;
/// Offset of the stack guard in `runtime.g`: its third word, in all versions.
const GUARD: u64 = 16;
/// arm64: `ldr x16, [x28, #16]`.
const LOAD_GUARD_ARM64: u32 = 0xf940_0b90;
/// Beginning of the section `.go.buildinfo`.
const MAGIC: &[u8] = b"\xff Go buildinf:";
/// Flag of 1.18 and later: the structure contains the version itself, not a pointer to it.
const HAS_TEXT: u8 = 2;

/// File offset of the instruction after the stack check, if there is one among the first instructions: a call
/// cannot restart from there.
pub(super) fn entry(bytes: &[u8], offset: u64) -> u64 {
    if cfg!(target_arch = "aarch64") { entry_arm64(bytes, offset) } else { entry_x86_64(bytes, offset) }
}

fn entry_x86_64(bytes: &[u8], offset: u64) -> u64 {
    let mut decoder = Decoder::with_ip(64, bytes, offset, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut has_asked = false;
    for _ in 0..BEGIN_INSTRUCTIONS {
        if !decoder.can_decode() {
            break;
        }
        decoder.decode_out(&mut instruction);
        // Before that, a large frame checks for an underflow of its end's address.
        let is_branch = instruction.flow_control() == FlowControl::ConditionalBranch;
        if is_branch && has_asked {
            return instruction.next_ip();
        }
        if !is_branch && instruction.flow_control() != FlowControl::Next {
            break;
        }
        let is_of_goroutine = instruction.op1_kind() == OpKind::Memory
            && instruction.memory_base() == Register::R14
            && instruction.memory_displacement64() == GUARD;
        has_asked |= instruction.mnemonic() == Mnemonic::Cmp && is_of_goroutine;
    }
    offset
}

fn entry_arm64(bytes: &[u8], offset: u64) -> u64 {
    // `b.ls`: other branches do not ask for room.
    const BRANCH: u32 = 0x5400_0009;
    const OPERATION: u32 = 0xff00_001f;
    let mut has_asked = false;
    for (at, word) in bytes.chunks_exact(4).take(BEGIN_INSTRUCTIONS).enumerate() {
        let word = u32::from_le_bytes(word.try_into().unwrap_or_default());
        if has_asked && word & OPERATION == BRANCH {
            return offset + 4 * (at as u64 + 1);
        }
        has_asked |= word == LOAD_GUARD_ARM64;
    }
    offset
}

/// The first instructions of a function with this offset and size.
pub(super) fn begin_of(file: &File, offset: u64, bytes: u64) -> std::io::Result<Vec<u8>> {
    /// An instruction has 15 bytes at most.
    const MOST: u64 = 15 * BEGIN_INSTRUCTIONS as u64;
    let mut begin = vec![0; bytes.min(MOST) as usize];
    file.read_exact_at(&mut begin, offset)?;
    Ok(begin)
}

/// Whether the file is a Go program.
pub(super) fn is_program(file: &File) -> bool {
    phase::cache(file).is_ok_and(|cache| Tables::read(&cache).is_some_and(|tables| is_of_go(&tables)))
}

pub(super) fn is_of_go(tables: &Tables<'_>) -> bool {
    tables.section(".gopclntab").is_some() || tables.section(".note.go.buildid").is_some()
}

/// Checks that a Go program's version is one whose goroutines can be followed.
pub(super) fn check_version(file: &File, tables: &Tables<'_>) -> Result<(), SymbolError> {
    let mut head = [0; 16];
    let at = tables.section(".go.buildinfo").and_then(|section| section.file_range(LittleEndian));
    let is_read = at.is_some_and(|(offset, _)| file.read_exact_at(&mut head, offset).is_ok());
    if !is_read || !head.starts_with(MAGIC) {
        return Err(SymbolError::UnknownGo);
    }
    if head[15] & HAS_TEXT != 0 { Ok(()) } else { Err(SymbolError::OldGo) }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use rstest::rstest;

    use super::*;

    /// Offset of the code in a file.
    const AT: u64 = 0x1000;

    #[rstest]
    // cmp rsp,[r14+16]; jbe; push rbp
    #[case::small_frame(&[0x49, 0x3b, 0x66, 0x10, 0x76, 0x20, 0x55], 6)]
    // lea r12,[rsp-64]; cmp r12,[r14+16]; jbe (near)
    #[case::frame(&[0x4c, 0x8d, 0x64, 0x24, 0xc0, 0x4d, 0x3b, 0x66, 0x10, 0x0f, 0x86, 0, 1, 0, 0, 0x55], 15)]
    // mov r12,rsp; sub r12,0x10000; jb; cmp r12,[r14+16]; jbe
    #[case::large_frame(&[
        0x49, 0x89, 0xe4, 0x49, 0x81, 0xec, 0, 0, 1, 0, 0x72, 0x20, 0x4d, 0x3b, 0x66, 0x10, 0x76, 0x18, 0x55,
    ], 18)]
    // push rbp; mov rbp,rsp; cmp rax,rbx; jbe
    #[case::never_asks(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x39, 0xd8, 0x76, 0x10, 0xc3], 0)]
    // call; cmp rsp,[r14+16]; jbe
    #[case::asks_too_late(&[0xe8, 0, 0, 0, 0, 0x49, 0x3b, 0x66, 0x10, 0x76, 0x20, 0x55], 0)]
    fn a_call_has_begun_behind_the_question_for_room(#[case] bytes: &[u8], #[case] behind: u64) {
        assert_eq!(entry_x86_64(bytes, AT) - AT, behind);
    }

    #[rstest]
    // ldr x16,[x28,#16]; cmp sp,x16; b.ls; str x30,[sp,#-32]!
    #[case::small_frame(&[LOAD_GUARD_ARM64, 0xeb30_63ff, 0x5400_0209, 0xf81e_0ffe], 12)]
    // subs x17,sp,#0x10000; b.lo; ldr x16,[x28,#16]; subs x17,x17,...; b.lo; cmp x17,x16; b.ls
    #[case::large_frame(
        &[0xf140_43f1, 0x5400_0203, LOAD_GUARD_ARM64, 0x5400_0203, 0xeb10_023f, 0x5400_0209, 0xf81e_0ffe],
        24
    )]
    #[case::never_asks(&[0xeb30_63ff, 0x5400_0209, 0xf81e_0ffe], 0)]
    fn so_it_has_on_arm64(#[case] words: &[u32], #[case] behind: u64) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(entry_arm64(&bytes, AT) - AT, behind);
    }

    proptest! {
        #[test]
        fn code_may_be_anything(bytes in vec(any::<u8>(), 0..200)) {
            let end = AT + bytes.len() as u64;
            prop_assert!((AT..=end).contains(&entry_x86_64(&bytes, AT)));
            prop_assert!((AT..=end).contains(&entry_arm64(&bytes, AT)));
        }
    }
}
