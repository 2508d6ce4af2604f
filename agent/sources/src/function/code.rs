//! A function's code: the best place of a probe at its entry, and its exits.
//!
//! A probe stands at each return, none that catches returns: see the kernel side's `probes/function.rs`. The
//! bytes may be anybody's; they are read once, up to a length.

use std::{fs::File, os::unix::fs::FileExt as _};

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::{found::Found, golang};

/// Most bytes of a function: the largest of PyTorch's and of the Linux kernel have less.
pub(super) const MOST_BYTES: u64 = 1 << 20;
/// Most exits of a function.
const MOST_EXITS: usize = 64;
/// `endbr64`, where indirect calls may land. The kernel single-steps it by an exception of its own; the next
/// instruction (`push`, mostly) it emulates.
const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// The 5-byte nop, by which compilers reserve room. 6.18 turns one under a probe into a call, which kills
/// forked children (see `probes/phase.rs`).
const ROOM: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
/// Bytes of a function that are looked at for a cheap place.
const MOST_BEGIN: usize = 32;
/// arm64: `ret`, `retaa` and `retab`.
const RETURNS_ARM64: [u32; 3] = [0xd65f_03c0, 0xd65f_0bff, 0xd65f_0fff];

/// Entry and exits of a function, by offsets in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ways {
    pub(super) entry: u64,
    pub(super) exits: Vec<u64>,
}

/// Why entry and exits are not known.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum CodeError {
    #[error("cannot be read: {0}")]
    Read(std::io::ErrorKind),
    #[error("does not say how long the function is")]
    NoLength,
    #[error("has a function of more than {MOST_BYTES} bytes there")]
    TooLong,
    #[error("has something else than code in the function")]
    NotCode,
    #[error("has a function there that never returns")]
    NoReturn,
    #[error("has a function there with more than {MOST_EXITS} returns")]
    TooMany,
    #[error("has a function there that does nothing")]
    Empty,
}

/// A piece of code at its offset in the file.
struct Piece {
    offset: u64,
    bytes: Vec<u8>,
}

impl Piece {
    fn read(file: &File, offset: u64, length: u64) -> Result<Self, CodeError> {
        if length == 0 {
            return Err(CodeError::NoLength);
        }
        if length > MOST_BYTES {
            return Err(CodeError::TooLong);
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, offset).map_err(|error| CodeError::Read(error.kind()))?;
        Ok(Self { offset, bytes })
    }

    fn has(&self, offset: u64) -> bool {
        offset.checked_sub(self.offset).is_some_and(|within| within < self.bytes.len() as u64)
    }
}

/// Entry and exits of the function.
pub(super) fn ways(file: &File, found: &Found) -> Result<Ways, CodeError> {
    let own = Piece::read(file, found.offset, found.bytes)?;
    let cold = found.cold.and_then(|(offset, bytes)| Piece::read(file, offset, bytes).ok());
    let ways =
        if cfg!(target_arch = "aarch64") { ways_arm64(&own)? } else { ways_x86_64(&own, cold.as_ref())? };
    let entry = if found.is_go { golang::entry(&own.bytes, own.offset) } else { ways.entry };
    checked(Ways { entry, ..ways })
}

fn ways_x86_64(own: &Piece, cold: Option<&Piece>) -> Result<Ways, CodeError> {
    let is_inside = |offset: u64| own.has(offset) || cold.is_some_and(|cold| cold.has(offset));
    let (mut exits, mut perhaps, mut targets) = (Vec::new(), Vec::new(), Vec::new());
    for piece in [Some(own), cold].into_iter().flatten() {
        // Offsets in the file serve as addresses: both pieces are in one segment, in which distances are the
        // same.
        let mut decoder = Decoder::with_ip(64, &piece.bytes, piece.offset, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                return Err(CodeError::NotCode);
            }
            let target = instruction.near_branch_target();
            targets.push(target);
            if leaves(&instruction, &is_inside) {
                exits.push(instruction.ip());
            } else if instruction.flow_control() == FlowControl::IndirectBranch {
                perhaps.push(instruction.ip());
            }
        }
    }
    // If there is no other exit, this is one.
    if exits.is_empty() {
        exits = perhaps;
    }
    let entry = entry(own, &targets);
    checked(Ways { entry, exits })
}

/// Whether the function is left there: by a return, or by a jump to another function (a tail call). Jumps by
/// a register are unknown; most use the table of a `switch`.
fn leaves(instruction: &Instruction, is_inside: &impl Fn(u64) -> bool) -> bool {
    match instruction.flow_control() {
        FlowControl::Return => true,
        FlowControl::UnconditionalBranch => !is_inside(instruction.near_branch_target()),
        FlowControl::IndirectBranch => {
            instruction.op0_kind() == OpKind::Memory && instruction.memory_index() == Register::None
        }
        FlowControl::Next
        | FlowControl::ConditionalBranch
        | FlowControl::Call
        | FlowControl::IndirectCall
        | FlowControl::Interrupt
        | FlowControl::XbeginXabortXend
        | FlowControl::Exception => false,
    }
}

/// Offset after instructions without effect at the function's start, none of which moves the stack pointer;
/// unless a loop goes back there.
fn entry(own: &Piece, targets: &[u64]) -> u64 {
    let mut skipped = 0;
    for idle in [&LANDING[..], &ROOM[..]] {
        if own.bytes[skipped..].starts_with(idle) {
            skipped += idle.len();
        }
    }
    let entry = own.offset + skipped as u64;
    if own.has(entry) && !targets.contains(&entry) { entry } else { own.offset }
}

/// Where a probe at this function's begin costs least: behind instructions that change neither the stack
/// pointer nor an argument that is wanted, at one that the kernel emulates. Any other it lets the program
/// execute by itself, and comes back by an exception: 15 us a call instead of 2 in a virtual machine (6.18).
/// Compilers hardly let a loop lead there: a conditional jump needs the flags that the instruction before it
/// sets. In a function that does, the kernel side stops in vain, and counts one call.
pub(crate) fn cheap_entry(file: &File, offset: u64, wants_arguments: bool) -> u64 {
    let mut bytes = [0; MOST_BEGIN];
    match file.read_at(&mut bytes, offset) {
        Ok(read) if !cfg!(target_arch = "aarch64") => offset + cheap_within(&bytes[..read], wants_arguments),
        _ => offset,
    }
}

/// The same within these bytes.
fn cheap_within(bytes: &[u8], wants_arguments: bool) -> u64 {
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut first = 0;
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let is_push = matches!(instruction.code(), Code::Push_r64);
        let is_jump = instruction.is_jcc_short_or_near() || instruction.is_jmp_short_or_near();
        if is_push || is_jump || instruction.is_call_near() {
            return instruction.ip();
        }
        let is_idle = matches!(instruction.mnemonic(), Mnemonic::Endbr64 | Mnemonic::Nop);
        let compares = matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
        let loads = !wants_arguments && is_load(&instruction);
        if instruction.is_invalid() || !(is_idle || compares || loads) {
            return first;
        }
        if is_idle && first == instruction.ip() {
            first = instruction.next_ip();
        }
    }
    0
}

/// Whether it loads a register, not the stack pointer, from memory.
fn is_load(instruction: &Instruction) -> bool {
    let moves = matches!(instruction.code(), Code::Mov_r64_rm64 | Code::Mov_r32_rm32);
    let is_stack = matches!(instruction.op0_register(), Register::RSP | Register::ESP);
    moves && instruction.op1_kind() == OpKind::Memory && !is_stack
}

fn ways_arm64(own: &Piece) -> Result<Ways, CodeError> {
    const BRANCH: u32 = 0b00_0101;
    let mut exits = Vec::new();
    for (at, word) in own.bytes.chunks_exact(4).enumerate() {
        let word = u32::from_le_bytes(word.try_into().unwrap_or_default());
        let offset = own.offset + 4 * at as u64;
        // 26 bits with a sign, in words.
        let distance = i64::from((word << 6).cast_signed() >> 6) * 4;
        let is_away = word >> 26 == BRANCH && !own.has(offset.wrapping_add_signed(distance));
        if RETURNS_ARM64.contains(&word) || is_away {
            exits.push(offset);
        }
    }
    checked(Ways { entry: own.offset, exits })
}

fn checked(ways: Ways) -> Result<Ways, CodeError> {
    match ways.exits.len() {
        0 => Err(CodeError::NoReturn),
        count if count > MOST_EXITS => Err(CodeError::TooMany),
        _ if ways.exits.contains(&ways.entry) => Err(CodeError::Empty),
        _ => Ok(ways),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use rstest::rstest;

    use super::*;

    /// Offset of the code in a file.
    const AT: u64 = 0x1000;

    fn ways(bytes: &[u8]) -> Result<(u64, Vec<u64>), CodeError> {
        let own = Piece { offset: AT, bytes: bytes.to_vec() };
        let ways = ways_x86_64(&own, None)?;
        Ok((ways.entry - AT, ways.exits.iter().map(|exit| exit - AT).collect()))
    }

    #[rstest]
    // push rbx; call +0; pop rbx; ret
    #[case::ret(&[0x53, 0xe8, 0, 0, 0, 0, 0x5b, 0xc3], 0, &[7])]
    // endbr64; push rbp; pop rbp; ret
    #[case::behind_the_landing(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x5d, 0xc3], 4, &[6])]
    // endbr64; nopl; push rbp; pop rbp; ret
    #[case::behind_the_room(&[0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x1f, 0x44, 0, 0, 0x55, 0x5d, 0xc3], 9, &[11])]
    // endbr64; dec edi; jnz to the dec; ret
    #[case::a_loop_to_the_begin(&[0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0xcf, 0x75, 0xfc, 0xc3], 0, &[8])]
    // test edi,edi; je +1; ret; jmp far away
    #[case::tail_call(&[0x85, 0xff, 0x74, 1, 0xc3, 0xe9, 0, 1, 0, 0], 0, &[4, 5])]
    // mov rax,[rdi]; jmp [rax+16]
    #[case::virtual_tail_call(&[0x48, 0x8b, 0x07, 0xff, 0x60, 0x10], 0, &[3])]
    // jmp rax; ret: the table of a switch
    #[case::switch(&[0x90, 0xff, 0xe0, 0xc3], 0, &[3])]
    // mov rcx,[rdi]; jmp rcx
    #[case::tail_call_by_a_register(&[0x48, 0x8b, 0x0f, 0xff, 0xe1], 0, &[3])]
    // repz ret behind a nop
    #[case::repz(&[0x90, 0xf3, 0xc3], 0, &[1])]
    fn a_function_is_entered_and_left(#[case] bytes: &[u8], #[case] entry: u64, #[case] exits: &[u64]) {
        assert_eq!(ways(bytes), Ok((entry, exits.to_vec())));
    }

    #[rstest]
    // jmp to itself
    #[case::never(&[0xeb, 0xfe], CodeError::NoReturn)]
    #[case::empty(&[0xc3], CodeError::Empty)]
    #[case::no_code(&[0x06, 0x06], CodeError::NotCode)]
    fn what_cannot_be_followed_is_said(#[case] bytes: &[u8], #[case] expected: CodeError) {
        assert_eq!(ways(bytes), Err(expected));
    }

    /// A part that lies elsewhere: a jump there stays inside, and a return there leaves the function.
    #[test]
    fn the_cold_part_is_the_functions_own() {
        // test edi,edi; jne to the cold part (0x100 further); ret
        let own = Piece { offset: AT, bytes: vec![0x85, 0xff, 0xe9, 0xf9, 0, 0, 0, 0xc3] };
        let cold = Piece { offset: AT + 0x100, bytes: vec![0x31, 0xc0, 0xc3] };
        let ways = ways_x86_64(&own, Some(&cold)).unwrap();
        assert_eq!(ways.exits, [AT + 7, AT + 0x102]);
    }

    #[rstest]
    // cmp dword [rip+16],1; je +6; jmp [rip+32]: as functions of libcuda begin
    #[case::behind_a_comparison(&[0x83, 0x3d, 16, 0, 0, 0, 1, 0x74, 6, 0xff, 0x25, 32, 0, 0, 0], 7)]
    // endbr64; test edi,edi; jne far
    #[case::behind_a_landing(&[0xf3, 0x0f, 0x1e, 0xfa, 0x85, 0xff, 0x0f, 0x85, 0, 1, 0, 0], 6)]
    #[case::at_a_push(&[0x55, 0xc3], 0)]
    // push r15
    #[case::at_a_long_push(&[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x57], 4)]
    // endbr64; nopl; mov edi,1
    #[case::never_at_room(&[0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x1f, 0x44, 0, 0, 0xbf, 1, 0, 0, 0], 9)]
    // mov edi,1; je: an argument would be gone
    #[case::not_behind_a_move(&[0xbf, 1, 0, 0, 0, 0x74, 6], 0)]
    // sub rsp,8; je: the return address would not be on top
    #[case::not_behind_the_stack(&[0x48, 0x83, 0xec, 8, 0x74, 6], 0)]
    // cmp edi,1; jmp rax: the kernel does not emulate that
    #[case::no_jump_by_a_register(&[0x83, 0xff, 1, 0xff, 0xe0], 0)]
    #[case::nothing_in_reach(&[0x90; 32], 0)]
    #[case::no_code(&[0x06], 0)]
    fn a_cheap_place_is_found(#[case] bytes: &[u8], #[case] expected: u64) {
        assert_eq!([true, false].map(|wants_arguments| cheap_within(bytes, wants_arguments)), [expected; 2]);
    }

    #[rstest]
    // mov rax,[rip+table]; mov rdx,[rax]; mov rax,[rdx+312]; test rax,rax; je +10; jmp rax: as functions of
    // Level Zero's loader begin. The third argument is gone.
    #[case::through_a_table(&[
        0x48, 0x8b, 0x05, 9, 0x62, 3, 0, 0x48, 0x8b, 0x10, 0x48, 0x8b, 0x82, 0x38, 1, 0, 0, 0x48, 0x85, 0xc0,
        0x74, 10, 0xff, 0xe0,
    ], 20)]
    // mov rsp,[rdi]; je
    #[case::not_behind_another_stack(&[0x48, 0x8b, 0x27, 0x74, 6], 0)]
    // mov rax,rdi; je: no load
    #[case::not_behind_a_move(&[0x48, 0x89, 0xf8, 0x74, 6], 0)]
    fn loads_are_passed_where_no_argument_is_wanted(#[case] bytes: &[u8], #[case] expected: u64) {
        assert_eq!([true, false].map(|wants_arguments| cheap_within(bytes, wants_arguments)), [0, expected]);
    }

    #[test]
    fn arm64_returns_and_tail_calls_are_found() {
        let words: [u32; 4] = [0xd503_201f, 0x1400_1000, 0x1400_0001, 0xd65f_03c0];
        let own = Piece { offset: AT, bytes: words.iter().flat_map(|word| word.to_le_bytes()).collect() };
        assert_eq!(ways_arm64(&own).unwrap().exits, [AT + 4, AT + 12]);
    }

    proptest! {
        #[test]
        fn code_may_be_anything(bytes in vec(any::<u8>(), 1..300)) {
            for wants_arguments in [false, true] {
                prop_assert!(cheap_within(&bytes, wants_arguments) < bytes.len() as u64);
            }
            if let Ok((entry, exits)) = ways(&bytes) {
                prop_assert!(entry < bytes.len() as u64);
                prop_assert!(exits.iter().all(|exit| *exit < bytes.len() as u64 && *exit != entry));
            }
        }
    }
}
