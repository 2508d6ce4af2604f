//! What a process has once: the random seed of its ids and a generation that changes when it forks.
//! Yields both for the price of two loads. They lie on a page that the kernel clears in a forked child, so that a
//! fork is noticed without a system call per edge; where the kernel cannot clear (before 4.14, gVisor), the
//! process number is compared at every edge instead.
//! It deliberately registers nothing with libc: no fork handler, no exit handler.

use core::{
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU32, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use crate::{ids, rendezvous, syscall};

/// Generation of a process, or of a forked child, in which the library has not been called yet.
const FRESH: u32 = 0;
/// One thread is preparing the process.
const BUSY: u32 = 1;
/// Longest wait for another thread's preparation: its rendezvous is bounded by 2 s, and then some.
const PATIENCE_NS: u64 = 3_000_000_000;

struct Shared {
    generation: AtomicU32,
    process: AtomicU32,
    seed: [AtomicU64; 2],
}

static FALLBACK: Shared = Shared {
    generation: AtomicU32::new(FRESH),
    process: AtomicU32::new(0),
    seed: [AtomicU64::new(0), AtomicU64::new(0)],
};

/// The fallback, or a page that the kernel clears in a forked child.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new((&raw const FALLBACK).cast_mut());

fn shared() -> &'static Shared {
    // SAFETY: the pointer is that of a static or of a page that is never unmapped; both hold a `Shared`, for which
    // all bits zero is a valid value.
    unsafe { &*SHARED.load(Acquire) }
}

/// The generation of this process. A thread that knows another one calls `prepare`.
#[inline]
pub(crate) fn generation() -> u32 {
    let shared = shared();
    if ptr::eq(shared, &raw const FALLBACK) { fallback_generation() } else { shared.generation.load(Acquire) }
}

/// Notices a fork where the kernel does not: by a system call per edge, which is what such a kernel costs.
#[cold]
fn fallback_generation() -> u32 {
    let known = FALLBACK.generation.load(Acquire);
    if known <= BUSY || FALLBACK.process.load(Relaxed) == syscall::process_number() {
        return known;
    }
    // Lost only to another thread of the same child that noticed first.
    let _ = FALLBACK.generation.compare_exchange(known, FRESH, AcqRel, Relaxed);
    FALLBACK.generation.load(Acquire)
}

/// The seed of this process's ids.
pub(crate) fn seed() -> [u64; 2] {
    let seed = &shared().seed;
    [seed[0].load(Relaxed), seed[1].load(Relaxed)]
}

/// The number of this process in its own namespace, looked up at its first call.
pub(crate) fn number() -> u32 {
    shared().process.load(Relaxed)
}

/// Brings the process up at its first call: seed, rendezvous with the agent, generation. Other threads that call
/// meanwhile wait, so that no edge is fired before the agent has had its chance to attach.
#[cold]
pub(crate) fn prepare() -> u32 {
    map_page();
    let shared = shared();
    let mut waited_since_ns = None;
    loop {
        match shared.generation.compare_exchange(FRESH, BUSY, AcqRel, Acquire) {
            Ok(_) => {
                let generation = initialise(shared);
                rendezvous::meet();
                shared.generation.store(generation, Release);
                syscall::wake_all(&shared.generation);
                return generation;
            }
            Err(BUSY) => {
                let now_ns = syscall::monotonic_ns();
                if now_ns.saturating_sub(*waited_since_ns.get_or_insert(now_ns)) > PATIENCE_NS {
                    // The preparing thread was lost (a fork without page clearing, a debugger): do without it.
                    let _ = shared.generation.compare_exchange(BUSY, FRESH, AcqRel, Relaxed);
                }
                // A thousand of them must not keep the agent from its CPU.
                syscall::wait_while(&shared.generation, BUSY);
            }
            Err(generation) => return generation,
        }
    }
}

fn initialise(shared: &Shared) -> u32 {
    let mut seed = [0; 2];
    if !syscall::random(&mut seed) {
        // Good enough to be unique: the clock to the nanosecond, the process, and where things were loaded.
        let place = (&raw const seed) as u64 ^ (&raw const FALLBACK as u64).rotate_left(32);
        seed[0] = ids::mix(syscall::monotonic_ns() ^ place);
        seed[1] = ids::mix(u64::from(syscall::process_number()) ^ seed[0]);
    }
    shared.seed[0].store(seed[0], Relaxed);
    shared.seed[1].store(seed[1], Relaxed);
    shared.process.store(syscall::process_number(), Relaxed);
    // Random, so that a child never takes a thread of its parent for prepared; neither FRESH nor BUSY nor UNKNOWN.
    (ids::mix(seed[0] ^ seed[1]) as u32 & 0x7fff_ffff) | 0x4000_0000
}

/// Puts the shared state on a page of its own, once; where that fails the static stays in use.
fn map_page() {
    const PAGE: usize = 4096;
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS: usize = 0x22;
    const WIPE_ON_FORK: usize = 18;
    let fallback = (&raw const FALLBACK).cast_mut();
    if SHARED.load(Acquire) != fallback || FALLBACK.generation.load(Acquire) != FRESH {
        return;
    }
    let nothing = usize::MAX;
    // SAFETY: a new private mapping at an address that the kernel chooses touches no existing memory.
    let page = unsafe { syscall::call(syscall::MMAP, [0, PAGE, READ_WRITE, PRIVATE_ANONYMOUS, nothing, 0]) };
    if page <= 0 {
        return;
    }
    let page = page as usize;
    // SAFETY: the page is ours, and what changes is only its content in a forked child.
    let wiped = unsafe { syscall::call(syscall::MADVISE, [page, PAGE, WIPE_ON_FORK, 0, 0, 0]) } == 0;
    let shared = ptr::with_exposed_provenance_mut::<Shared>(page);
    if !wiped || SHARED.compare_exchange(fallback, shared, AcqRel, Relaxed).is_err() {
        // SAFETY: the page is ours and no pointer to it was published.
        unsafe { syscall::call(syscall::MUNMAP, [page, PAGE, 0, 0, 0, 0]) };
    }
}
