//! What samples of a thread on its CPU are counted by, and what the agent tells the sampler of processes.

use crate::Traffic;

/// What a thread was doing on its CPU when a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Activity {
    /// Code of the program.
    User = 0,
    /// In the kernel on the thread's own stack, inside no system call: a page fault, or the way back from an interrupt.
    Fault = 1,
    /// In the kernel, inside a system call.
    Syscall = 2,
    /// Code of a runtime library whose threads busy-wait for each other.
    Spin = 3,
    /// In the kernel on another stack: what an interrupt has left to do (softirq), for whomever it is. Code that interrupts
    /// keep out of is not sampled.
    Irq = 4,
}

/// Samples per second of CPU time: a prime, so that nothing periodic keeps step with it. A tick took 11 us of a guest whose
/// hypervisor is one's guest itself, 1.3 % of its CPUs at twice the rate (`cargo xtask bench busy`), which is more than the
/// hundredth that observing may take. Five samples name what lies inside `cpu`, so 10 ms of it.
pub const SAMPLES_PER_S: u64 = 499;

/// Number of activities, and a free place: records are of whole words of 8 bytes.
pub const ACTIVITIES: usize = 6;

/// Mappings of such libraries that a process may have; more are the program's own code.
pub const SPIN_RANGES: usize = 4;

/// Where the code of such libraries lies in a process: begins and ends of mappings, 0 for none.
pub type SpinCode = [[u64; 2]; SPIN_RANGES];

/// Processes whose code is known so.
pub const SPINNERS: u32 = 1024;

/// Samples of a thread by [`Activity`], since tracking began. They wrap, take differences.
pub type Samples = [u32; ACTIVITIES];

/// What is kept of a thread beside its ledger. It only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Beside {
    /// Written from interrupts.
    pub samples: Samples,
    /// Part of account `poll`, in ns, that the thread waited for a socket, by what it read next: an estimate.
    pub poll_net_ns: u64,
    /// What its traffic over sockets went through.
    pub traffic: Traffic,
}
