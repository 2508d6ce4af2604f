//! The kernel's numbers for a thread at an edge: two clocks, its waits for a CPU, its switches and faults.
//!
//! Yields the words of a record for `ring`. They come from system calls, about 3 us in all (6.18, AMD Zen 4
//! in a microVM), and are read only where an agent has passed a ring. It deliberately keeps no descriptor
//! open: a program may close or count descriptors that it did not open, and a library cannot tell whether a
//! number is still its own. Opening /proc each time is 2.4 us of the 3.

use crate::{edge, ring, syscall};

/// A reading that took longer was interrupted: its parts are of different instants.
const INTERRUPTED_NS: u64 = 500_000;
/// Tries for an uninterrupted reading.
const TRIES: u32 = 3;

/// A thread by its own numbers: process and thread number in its own PID namespace, and the time at which it
/// first met the library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Myself {
    pub(crate) tgid: u32,
    pub(crate) tid: u32,
    pub(crate) born_ns: u64,
}

/// One reading.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    time_ns: u64,
    cpu_ns: u64,
    run_delay_ns: u64,
    usage: Usage,
}

/// Switches and faults of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    voluntary: u64,
    involuntary: u64,
    minor_faults: u64,
    major_faults: u64,
}

/// The words of an edge's record: head, token, four arguments, time and CPU time, the wait for CPUs (all ns),
/// process and thread, switches, minor and major faults, program, birth, one that is zero, eight of the name.
///
/// # Safety
/// Where the operation has a name, the first two arguments are null or one that can be read, and its length.
pub(crate) unsafe fn record(
    head: u64,
    [token, a2, a3, a4, a5]: [u64; 5],
    myself: Myself,
) -> [u64; ring::RECORD_WORDS] {
    let operation = head as u8;
    // The cost of an edge must not lie within the phase, so the clocks come last where one begins.
    let clocks_last =
        [edge::Operation::Begin, edge::Operation::Request, edge::Operation::Enter].map(|one| one as u8);
    let now = reading(clocks_last.contains(&operation));
    let has_name = [
        edge::Operation::Begin,
        edge::Operation::Request,
        edge::Operation::Mark,
        edge::Operation::Rename,
        edge::Operation::Tell,
    ];
    let mut name = [0; 8];
    if has_name.map(|one| one as u8).contains(&operation) {
        // SAFETY: promised by the caller.
        unsafe { copy_name(a2, a3, &mut name) };
    }
    let Usage { voluntary, involuntary, minor_faults, major_faults } = now.usage;
    let [n0, n1, n2, n3, n4, n5, n6, n7] = name;
    [
        head,
        token,
        a2,
        a3,
        a4,
        a5,
        now.time_ns,
        now.cpu_ns,
        now.run_delay_ns,
        u64::from(myself.tgid) | u64::from(myself.tid) << 32,
        voluntary & 0xffff_ffff | involuntary << 32,
        minor_faults,
        major_faults,
        ring::image(),
        myself.born_ns,
        0,
        n0,
        n1,
        n2,
        n3,
        n4,
        n5,
        n6,
        n7,
    ]
}

/// # Safety
/// `name` is null or the address of `length` readable bytes.
unsafe fn copy_name(name: u64, length: u64, words: &mut [u64; 8]) {
    let from = core::ptr::with_exposed_provenance::<u8>(name as usize);
    if from.is_null() {
        return;
    }
    let length = (edge::length(length) as usize).min(edge::NAME_BYTES_READ);
    // SAFETY: as many bytes can be read, and the words have room for 64.
    unsafe { core::ptr::copy_nonoverlapping(from, words.as_mut_ptr().cast::<u8>(), length) };
}

fn reading(clocks_last: bool) -> Reading {
    let mut now = Reading::default();
    for _ in 0..TRIES {
        let begun_ns = syscall::monotonic_ns();
        if clocks_last {
            now.read_kernel();
            now.read_clocks(syscall::monotonic_ns());
            if now.time_ns.wrapping_sub(begun_ns) < INTERRUPTED_NS {
                break;
            }
        } else {
            now.read_clocks(begun_ns);
            now.read_kernel();
            if syscall::monotonic_ns().wrapping_sub(begun_ns) < INTERRUPTED_NS {
                break;
            }
        }
    }
    now
}

impl Reading {
    fn read_clocks(&mut self, now_ns: u64) {
        self.time_ns = now_ns;
        self.cpu_ns = syscall::thread_cpu_ns();
    }

    fn read_kernel(&mut self) {
        self.run_delay_ns = run_delay_ns().unwrap_or(ring::UNKNOWN);
        self.usage = usage();
    }
}

/// Time that the thread has waited for a CPU so far: the second number of its `schedstat`, which is exact
/// where a thread reads its own. The first one is not: it lags behind the thread's clock by up to a tick.
fn run_delay_ns() -> Option<u64> {
    let mut text = [0; 96];
    let length = syscall::read_file(c"/proc/thread-self/schedstat", &mut text)?;
    second_number(text.get(..length)?)
}

fn second_number(text: &[u8]) -> Option<u64> {
    let mut digits = text.split(|byte| *byte == b' ' || *byte == b'\n').nth(1)?.iter();
    let first = digits.next()?.wrapping_sub(b'0');
    digits.try_fold(u64::from(first), |number, digit| {
        let digit = digit.wrapping_sub(b'0');
        (digit < 10).then(|| number.wrapping_mul(10).wrapping_add(u64::from(digit)))
    })
}

/// Numbers of getrusage(2) for the thread; zeros where it fails.
fn usage() -> Usage {
    const THREAD: usize = 1;
    // `struct rusage`: two times of two words each and 14 numbers.
    let mut all = [0_u64; 18];
    // SAFETY: the kernel writes 18 words.
    unsafe { syscall::call(syscall::GETRUSAGE, [THREAD, (&raw mut all) as usize, 0, 0, 0, 0]) };
    let [_, _, _, _, _, _, _, _, minor_faults, major_faults, _, _, _, _, _, _, voluntary, involuntary] = all;
    Usage { voluntary, involuntary, minor_faults, major_faults }
}

/// A number that changes when the process executes another program: the auxiliary vector that the kernel gave
/// this one holds addresses that it randomizes each time. All copies of the library in a program find the
/// same number.
pub(crate) fn image() -> u64 {
    let mut told = [0_u8; 512];
    let length = syscall::read_file(c"/proc/self/auxv", &mut told).unwrap_or(0);
    told.iter()
        .take(length)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_schedstat() {
        let number = |text: &[u8]| second_number(text);
        assert_eq!(number(b"114615 2979009 2\n"), Some(2_979_009));
        assert_eq!(number(b"0 0 0\n"), Some(0));
        assert_eq!(
            [number(b""), number(b"1"), number(b"1 "), number(b"1 x2 3\n")].iter().flatten().count(),
            1
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_reading_is_of_this_thread() {
        let before = reading(true);
        let until_ns = before.cpu_ns + 20_000_000;
        while syscall::thread_cpu_ns() < until_ns {}
        let after = reading(false);
        assert!(after.cpu_ns >= until_ns && after.time_ns - before.time_ns >= after.cpu_ns - before.cpu_ns);
        // Memory that was never touched.
        drop(std::hint::black_box(vec![1_u8; 4 << 20]));
        let faults = |reading: Reading| reading.usage.minor_faults + reading.usage.major_faults;
        assert!(faults(reading(false)) > faults(before), "{before:?}");
        assert_eq!((image(), image() == 0), (image(), false));
    }
}
