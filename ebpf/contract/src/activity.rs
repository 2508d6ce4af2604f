//! Kinds of samples of a thread on its CPU, and what the agent passes to the sampler about each process.

use crate::{Traffic, driver::Driver};

/// Activity of a thread on its CPU at a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Activity {
    /// Code of the program.
    User = 0,
    /// In the kernel on the thread's own stack, in no system call: a page fault, or the return from an
    /// interrupt.
    Fault = 1,
    /// In the kernel, inside a system call.
    Syscall = 2,
    /// Code with which the threads of a library busy-wait.
    Spin = 3,
    /// In the kernel on another stack: softirq work, for any task. Code that runs with interrupts off is not
    /// sampled.
    Irq = 4,
}

/// Samples per second of CPU time: a prime, so that nothing periodic keeps step with it. A tick took 11 us of
/// a guest under nested virtualization, 1.3 % of its CPUs at twice the rate (`cargo xtask bench busy`), which
/// is more than the hundredth that observing may take. Five samples, that is 10 ms of `cpu`, name what lies
/// inside it.
pub const SAMPLES_PER_S: u64 = 499;

/// Number of activities, and a free place: records consist of whole words of 8 bytes.
pub const ACTIVITIES: usize = 6;

/// Most mappings of such libraries in a process; further ones count as the program's own code.
pub const SPIN_RANGES: usize = 8;

/// Code of such libraries in a process: start, end and library of each mapping, 0 for none.
pub type SpinCode = [[u64; 3]; SPIN_RANGES];

/// Most libraries that are told apart, by the numbers that the agent gives them.
pub const SPIN_LIBRARIES: u32 = 32;

/// Added to the number of a library that computes as well: there a sample is one of busy-waiting only beside
/// an instruction that pauses.
pub const COMPUTES: u64 = 1 << 32;

/// Words of code around a sample in which such an instruction is looked for, the sample in their middle.
/// Loops that wait are a few instructions long, and spend most of their time in that one.
pub const PAUSE_WORDS: usize = 8;

/// PAUSE of x86-64: two bytes.
const PAUSE: u32 = 0x90f3;
/// TPAUSE without the number of its register, in the low three bits of the last byte.
const TPAUSE: u32 = 0xf0ae_0f66;
/// YIELD, ISB and WFE of arm64.
const PAUSES_ARM64: [u32; 3] = [0xd503_203f, 0xd503_3fdf, 0xd503_205f];

/// Whether this code has an instruction with which loops wait.
#[inline]
pub fn has_pause(code: &[u64; PAUSE_WORDS], is_arm64: bool) -> bool {
    let mut at = 0;
    while at + 1 < PAUSE_WORDS {
        let mut byte = 0;
        while byte < 8 {
            let bits = 8 * byte as u32;
            // The next word shifted in two steps: by 64 would be none at all.
            let four = ((code[at] >> bits) | (code[at + 1] << 1 << (63 - bits))) as u32;
            let is_pause = if is_arm64 {
                byte % 4 == 0
                    && (four == PAUSES_ARM64[0] || four == PAUSES_ARM64[1] || four == PAUSES_ARM64[2])
            } else {
                four & 0xffff == PAUSE || four & 0xf8ff_ffff == TPAUSE
            };
            if is_pause {
                return true;
            }
            byte += 1;
        }
        at += 1;
    }
    false
}

/// Most processes with such code.
pub const SPINNERS: u32 = 1024;

/// Samples of a thread by [`Activity`], since tracking began. They wrap: take differences.
pub type Samples = [u32; ACTIVITIES];

/// Data of a thread beside its ledger. It only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Beside {
    /// Written from interrupts.
    pub samples: Samples,
    /// The thread's waits for answers over sockets.
    pub poll_net_ns: u64,
    /// Network traffic of the thread.
    pub traffic: Traffic,
    /// Its calls of graphics processors' drivers.
    pub driver: Driver,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes at a place in code that is otherwise all of one byte.
    fn code(at: usize, bytes: &[u8], fill: u8) -> [u64; PAUSE_WORDS] {
        let mut all = [fill; 8 * PAUSE_WORDS];
        all[at..at + bytes.len()].copy_from_slice(bytes);
        core::array::from_fn(|word| u64::from_le_bytes(all[word * 8..][..8].try_into().unwrap_or_default()))
    }

    #[test]
    fn an_instruction_that_pauses_is_found_wherever_it_begins() {
        for at in 0..8 * (PAUSE_WORDS - 1) {
            assert!(has_pause(&code(at, &[0xf3, 0x90], 0x48), false), "{at}");
            assert!(has_pause(&code(at, &[0x66, 0x0f, 0xae, 0xf1], 0x48), false), "{at}");
            for instruction in PAUSES_ARM64 {
                let bytes = instruction.to_le_bytes();
                assert_eq!(has_pause(&code(at, &bytes, 0), true), at % 4 == 0, "{at}");
            }
        }
    }

    #[test]
    fn other_code_does_not_pause() {
        for (bytes, is_arm64) in [
            // A vector addition, a prefetch, a fence; nop and add of arm64.
            (&[0xc5, 0xf4, 0x58, 0xc1][..], false),
            (&[0x0f, 0x18, 0x08, 0x90], false),
            (&[0x0f, 0xae, 0xf0, 0x90], false),
            (&[0x1f, 0x20, 0x03, 0xd5], true),
            (&[0xf3, 0x90, 0xf3, 0x90], true),
        ] {
            assert!(!has_pause(&code(24, bytes, 0x48), is_arm64), "{bytes:x?}");
        }
    }
}
