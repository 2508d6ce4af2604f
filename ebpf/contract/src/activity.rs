//! Kinds of samples of a thread on its CPU, and what the agent passes to the sampler about each process.

use crate::Traffic;

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
    /// Code of a runtime library whose threads busy-wait for each other.
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
pub const SPIN_RANGES: usize = 4;

/// Code of such libraries in a process: start and end of each mapping, 0 for none.
pub type SpinCode = [[u64; 2]; SPIN_RANGES];

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
}
