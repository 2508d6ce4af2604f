//! Go's functions: behind which instruction a call has begun for good, in which registers its arguments lie, and
//! where Go's scheduler has to be probed so that goroutines are followed over threads.
//!
//! A function of Go's first asks whether its stack has room, and is begun anew on another one if it has not: a
//! probe at its entry would see that call twice. Go 1.17 and later pass arguments in registers and keep the running
//! goroutine in one (Go's `src/cmd/compile/abi-internal.md`).

use std::{fs::File, io::BufReader, os::unix::fs::FileExt as _};

use guestscope_ebpf::calls::{Argument, GO_EXECUTE, GO_EXIT, GO_SCHEDULE};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use object::{
    LittleEndian,
    read::{ReadCache, elf::SectionHeader as _},
};

use super::{
    placed::{On, Place},
    symbols::{self, Found},
};
use crate::{loader::functions::Spot, probes::phase::Tables, untrusted::Untrusted};

/// Functions of the runtime that move goroutines, and what each of them tells.
pub(super) const SCHEDULER: [(&str, u64); 3] =
    [("runtime.schedule", GO_SCHEDULE), ("runtime.execute", GO_EXECUTE), ("runtime.goexit0", GO_EXIT)];
/// Where the words of a call's arguments lie in x86-64's `pt_regs`: ax, bx, cx, di, si, r8, r9, r10, r11.
const ARGUMENTS_X86_64: [u32; 9] = [80, 40, 88, 112, 104, 72, 64, 56, 48];
/// Instructions up to the question for room, at most.
const BEGIN_INSTRUCTIONS: usize = 8;
/// Where the stack's guard lies in `runtime.g`: its third word, in all versions.
const GUARD: u64 = 16;
/// arm64: `ldr x16, [x28, #16]`.
const LOAD_GUARD_ARM64: u32 = 0xf940_0b90;
/// How a section `.go.buildinfo` begins.
const MAGIC: &[u8] = b"\xff Go buildinf:";
/// Its flag of 1.18 and later: the version stands in it, and is not pointed to.
const HAS_TEXT: u8 = 2;

/// Where in the file a call has begun for good: behind the question for room, if there is one among the first
/// instructions.
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
        match instruction.flow_control() {
            FlowControl::ConditionalBranch if has_asked => return instruction.next_ip(),
            // A large frame: whether the address of its end is one at all.
            FlowControl::ConditionalBranch | FlowControl::Next => {}
            _ => break,
        }
        let is_of_goroutine = instruction.op1_kind() == OpKind::Memory
            && instruction.memory_base() == Register::R14
            && instruction.memory_displacement64() == GUARD;
        has_asked |= instruction.mnemonic() == Mnemonic::Cmp && is_of_goroutine;
    }
    offset
}

fn entry_arm64(bytes: &[u8], offset: u64) -> u64 {
    // `b.cond`.
    const BRANCH: u32 = 0x54;
    let mut has_asked = false;
    for (at, word) in bytes.chunks_exact(4).take(BEGIN_INSTRUCTIONS).enumerate() {
        let word = u32::from_le_bytes(word.try_into().unwrap_or_default());
        if has_asked && word >> 24 == BRANCH {
            return offset + 4 * (at as u64 + 1);
        }
        has_asked |= word == LOAD_GUARD_ARM64;
    }
    offset
}

/// Where a word of the arguments, 1 for the first, lies among the registers that a probe is handed.
pub(super) fn register(number: u8) -> u32 {
    let place = usize::from(number.saturating_sub(1));
    if cfg!(target_arch = "aarch64") {
        place as u32 * 8
    } else {
        ARGUMENTS_X86_64.get(place).copied().unwrap_or_default()
    }
}

/// Where the scheduler of this program is probed.
pub(super) fn scheduler(file: &File) -> anyhow::Result<Place> {
    let mut begins = Vec::new();
    for (name, _) in SCHEDULER {
        for found in symbols::find(file, name)? {
            let begin = begin_of(file, &found)?;
            begins.push(Spot { offset: entry(&begin, found.offset), ..Spot::default() });
        }
    }
    let name = Untrusted::from("goroutines");
    Ok(Place { name, begins, ends: Vec::new(), on: On::Scheduler, argument: Argument::default() })
}

fn begin_of(file: &File, found: &Found) -> std::io::Result<Vec<u8>> {
    /// An instruction has 15 bytes at most.
    const MOST: u64 = 15 * BEGIN_INSTRUCTIONS as u64;
    let mut begin = vec![0; found.bytes.min(MOST) as usize];
    file.read_exact_at(&mut begin, found.offset)?;
    Ok(begin)
}

/// Whether it is a Go program.
pub(super) fn is_program(file: &File) -> bool {
    let cache = file.try_clone().map(|opened| ReadCache::new(BufReader::new(opened)));
    cache.is_ok_and(|cache| Tables::read(&cache).is_some_and(|tables| is_of_go(&tables)))
}

pub(super) fn is_of_go(tables: &Tables<'_>) -> bool {
    tables.section(".gopclntab").is_some() || tables.section(".note.go.buildid").is_some()
}

/// Whether a Go program is of a version whose goroutines can be followed.
pub(super) fn is_followed(file: &File, tables: &Tables<'_>) -> bool {
    let mut head = [0; 16];
    let at = tables.section(".go.buildinfo").and_then(|section| section.file_range(LittleEndian));
    let is_read = at.is_some_and(|(offset, _)| file.read_exact_at(&mut head, offset).is_ok());
    is_read && head.starts_with(MAGIC) && head[15] & HAS_TEXT != 0
}
