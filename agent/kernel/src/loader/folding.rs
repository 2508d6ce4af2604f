//! Makes constants of loads from read-only globals, and takes out the branches that they decide.
//!
//! The verifier knows such values, and yet leaves each load as it is, and each branch whose other side is
//! reached from elsewhere too: three instructions for the address, the value and the branch, some 60 times at
//! a switch of a tracked thread. Nothing is moved: what is taken out becomes a jump to the next instruction,
//! which the kernel removes (5.0 and later). The verifier refuses instructions that no path leads to, so a
//! branch stays where the code behind it would be one.

/// Bytes of an instruction.
const INSTRUCTION: usize = 8;
/// `lddw`: a 64-bit constant or an address, in two instructions.
const LOAD_ADDRESS: u8 = 0x18;
/// `ldxw`, `ldxh`, `ldxb`, `ldxdw`, and how many bytes each reads.
const LOADS: [(u8, usize); 4] = [(0x61, 4), (0x69, 2), (0x71, 1), (0x79, 8)];
/// `w = constant`, which clears the upper half.
const CONSTANT_32: u8 = 0xb4;
/// `r = constant`, which extends the sign.
const CONSTANT_64: u8 = 0xb7;
/// `w = w` and `r = r`.
const COPY_32: u8 = 0xbc;
const COPY_64: u8 = 0xbf;
/// A jump to the next instruction.
const NOTHING: [u8; INSTRUCTION] = [0x05, 0, 0, 0, 0, 0, 0, 0];
const EXIT: u8 = 0x95;

/// An instruction that loads the address of a global.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    /// Place of the instruction in its section, in bytes.
    pub(super) at: usize,
    /// Place of the global in .rodata, in bytes.
    pub(super) symbol: usize,
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct One([u8; INSTRUCTION]);

impl One {
    const fn code(self) -> u8 {
        self.0[0]
    }

    /// The register that is written, or compared.
    const fn target(self) -> u8 {
        self.0[1] & 15
    }

    const fn source(self) -> u8 {
        self.0[1] >> 4
    }

    const fn offset(self) -> i16 {
        i16::from_le_bytes([self.0[2], self.0[3]])
    }

    const fn number(self) -> i32 {
        i32::from_le_bytes([self.0[4], self.0[5], self.0[6], self.0[7]])
    }

    /// How many places it takes.
    const fn slots(self) -> usize {
        if self.0[0] == LOAD_ADDRESS { 2 } else { 1 }
    }

    /// Jumps, calls and exits.
    const fn is_jump(self) -> bool {
        matches!(self.0[0] & 7, 5 | 6)
    }

    /// Jumps with a condition.
    const fn is_conditional(self) -> bool {
        matches!((self.0[0] & 7, self.0[0] >> 4), (5 | 6, 1..=7 | 10..=13))
    }

    const fn is_nothing(self) -> bool {
        matches!(self.0, NOTHING)
    }

    /// How far a jump leads, from the next instruction; none for calls, exits and all else.
    fn distance(self) -> Option<isize> {
        match (self.0[0] & 7, self.0[0] >> 4) {
            (5 | 6, 8 | 9) => None,
            (6, 0) => Some(self.number() as isize),
            (5 | 6, _) => Some(isize::from(self.offset())),
            _ => None,
        }
    }

    /// Whether the next instruction can follow.
    const fn goes_on(self) -> bool {
        self.0[0] != EXIT && !matches!((self.0[0] & 7, self.0[0] >> 4), (5 | 6, 0))
    }

    /// Atomic operations, some of which also load.
    const fn is_atomic(self) -> bool {
        self.0[0] & 0xe7 == 0xc3
    }

    /// Whether what is known of a register is not followed behind it.
    const fn is_end(self) -> bool {
        self.is_atomic() || self.is_jump() && !self.is_nothing()
    }

    /// Whether it gives the register another value: a load, or arithmetic.
    const fn writes(self, register: u8) -> bool {
        matches!(self.0[0] & 7, 0 | 1 | 4 | 7) && self.target() == register
    }

    /// Whether the register's value is read, or may be.
    const fn reads(self, register: u8) -> bool {
        match self.0[0] {
            CONSTANT_32 | CONSTANT_64 | LOAD_ADDRESS => false,
            COPY_32 | COPY_64 => self.source() == register,
            code if code & 7 == 1 => self.source() == register,
            _ => self.target() == register || self.source() == register,
        }
    }
}

/// A section's instructions.
struct Program {
    all: Vec<One>,
    /// How many jumps lead to each instruction.
    jumps: Vec<u32>,
}

/// Folds the loads from these addresses. Returns the places of the addresses that are gone, in bytes.
pub(super) fn fold(code: &mut [u8], addresses: &[Address], functions: &[usize], rodata: &[u8]) -> Vec<usize> {
    let mut program = Program::of(code);
    let mut gone = Vec::new();
    for address in addresses {
        // One stays, as a model for the relocations of those that are gone.
        if program.put_constant(*address, rodata) && gone.len() + 1 < addresses.len() {
            program.take_out(address.at / INSTRUCTION);
            gone.push(address.at);
        }
    }
    let with_branches = program.all.clone();
    program.take_out_branches();
    if !program.is_reachable(functions) {
        program.all = with_branches;
    }
    for (bytes, one) in code.chunks_exact_mut(INSTRUCTION).zip(&program.all) {
        bytes.copy_from_slice(&one.0);
    }
    gone
}

impl Program {
    fn of(code: &[u8]) -> Self {
        let (chunks, _) = code.as_chunks::<INSTRUCTION>();
        let all: Vec<One> = chunks.iter().map(|bytes| One(*bytes)).collect();
        let mut program = Self { jumps: vec![0; all.len()], all };
        for at in program.places() {
            if let Some(target) = program.target(at) {
                program.jumps[target] += 1;
            }
        }
        program
    }

    /// Places of instructions; the second half of an address is none.
    fn places(&self) -> Vec<usize> {
        let mut at = 0;
        let mut places = Vec::new();
        while let Some(one) = self.all.get(at) {
            places.push(at);
            at += one.slots();
        }
        places
    }

    /// Where a jump leads.
    fn target(&self, at: usize) -> Option<usize> {
        let target = self.all.get(at)?.distance()?.checked_add_unsigned(at + 1)?;
        usize::try_from(target).ok().filter(|target| *target < self.all.len())
    }

    fn take_out(&mut self, address: usize) {
        self.all[address..address + 2].fill(One(NOTHING));
    }

    /// Makes constants of the loads from an address that follow it. Returns whether nothing else uses it.
    fn put_constant(&mut self, address: Address, rodata: &[u8]) -> bool {
        let at = address.at / INSTRUCTION;
        let Some(head) = self.all.get(at).filter(|head| head.code() == LOAD_ADDRESS).copied() else {
            return false;
        };
        let (register, base) = (head.target(), address.symbol as i64 + i64::from(head.number()));
        let (mut is_used, mut next) = (false, at + 2);
        while let Some(one) = self.all.get(next).copied() {
            if self.jumps[next] > 0 || one.is_end() {
                return false;
            }
            let constant = (one.source() == register).then(|| constant(one, base, rodata)).flatten();
            match constant {
                Some(constant) => self.all[next] = constant,
                None => is_used |= one.reads(register),
            }
            if one.writes(register) {
                return !is_used;
            }
            next += one.slots();
        }
        false
    }

    /// Takes out conditional jumps that a constant decides, where all code stays reachable by jumps ahead.
    fn take_out_branches(&mut self) {
        let mut entries = self.jumps.clone();
        for at in self.places() {
            if at + 1 < entries.len() && self.all[at].goes_on() {
                entries[at + 1] += 1;
            }
        }
        for at in self.places() {
            let one = self.all[at];
            let value = match one.code() {
                CONSTANT_32 => u64::from(one.number().cast_unsigned()),
                CONSTANT_64 => i64::from(one.number()).cast_unsigned(),
                _ => continue,
            };
            let mut next = at + 1;
            while let Some(branch) = self.all.get(next).copied().filter(|_| self.jumps[next] == 0) {
                if branch.is_conditional() {
                    if branch.target() == one.target() {
                        self.decide(next, branch.jumps_with(value), &mut entries);
                    }
                    if !self.all[next].is_conditional() && !self.all[next].is_nothing() {
                        break;
                    }
                } else if branch.is_end() || branch.writes(one.target()) {
                    break;
                }
                next += branch.slots();
            }
        }
    }

    /// Makes a conditional jump that is decided unconditional, or takes it out, if a way ahead is left to
    /// what it does not lead to any more.
    fn decide(&mut self, at: usize, jumps: Option<bool>, entries: &mut [u32]) {
        let (Some(jumps), Some(target)) = (jumps, self.target(at).filter(|target| *target > at)) else {
            return;
        };
        let dead = if jumps { at + 1 } else { target };
        if entries[dead] < 2 {
            return;
        }
        entries[dead] -= 1;
        let [_, _, low, high, ..] = self.all[at].0;
        if jumps {
            self.all[at] = One([NOTHING[0], 0, low, high, 0, 0, 0, 0]);
        } else {
            self.jumps[target] -= 1;
            self.all[at] = One(NOTHING);
        }
    }

    /// Whether each instruction can be reached from the start of a function, as the verifier asks.
    fn is_reachable(&self, functions: &[usize]) -> bool {
        let mut seen = vec![false; self.all.len()];
        let mut open: Vec<usize> = functions.iter().map(|at| at / INSTRUCTION).collect();
        open.push(0);
        while let Some(at) = open.pop() {
            if seen.get(at) != Some(&false) {
                continue;
            }
            seen[at] = true;
            let one = self.all[at];
            open.extend(self.target(at));
            if one.goes_on() {
                open.push(at + one.slots());
            }
        }
        self.places().into_iter().all(|at| seen[at])
    }
}

impl One {
    /// Whether a conditional jump that compares with a constant is taken with this value; none for all else.
    fn jumps_with(self, value: u64) -> Option<bool> {
        let (class, operation, is_register) = (self.0[0] & 7, self.0[0] >> 4, self.0[0] & 8 != 0);
        let other = i64::from(self.number()) as u64;
        let (value, other) = match class {
            5 => (value, other),
            6 => (value & 0xffff_ffff, other & 0xffff_ffff),
            _ => return None,
        };
        match operation {
            _ if is_register => None,
            1 => Some(value == other),
            2 => Some(value > other),
            3 => Some(value >= other),
            4 => Some(value & other != 0),
            5 => Some(value != other),
            10 => Some(value < other),
            11 => Some(value <= other),
            _ => None,
        }
    }
}

/// The constant in place of this load from .rodata at `base`; none if it is no load, or if the value does not
/// fit.
fn constant(load: One, base: i64, rodata: &[u8]) -> Option<One> {
    let (_, bytes) = LOADS.iter().find(|(code, _)| *code == load.code())?;
    let from = usize::try_from(base + i64::from(load.offset())).ok()?;
    let value = rodata.get(from..from.checked_add(*bytes)?)?;
    let value = value.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let (code, most) =
        if *bytes == 8 { (CONSTANT_64, i32::MAX as u64) } else { (CONSTANT_32, u64::from(u32::MAX)) };
    let [a, b, c, d] = u32::try_from(value).ok().filter(|_| value <= most)?.to_le_bytes();
    Some(One([code, load.target(), 0, 0, a, b, c, d]))
}

#[cfg(test)]
#[path = "folding_tests.rs"]
mod tests;
