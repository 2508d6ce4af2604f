//! State of a process: the random seed of its ids and a generation that changes when it forks. Yields both
//! for the price of two loads. They lie on a page that the kernel clears in a forked child, so that a fork is
//! noticed without a system call per edge; where the kernel cannot clear it (before 4.14, gVisor), the
//! process number is compared at every edge instead. It deliberately registers nothing with libc: no fork
//! handler, no exit handler.
//!
//! All system calls are made as the library is loaded. A forked child makes none: its seed is that of its
//! parent, changed by a number that is unique among the descendants.

use core::{
    ffi::CStr,
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU32, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use crate::{ids, rendezvous, ring, syscall};

/// Generation of a process, or of a forked child, that has not called the library yet.
const FRESH: u32 = 0;
/// Generation while one thread prepares the process.
const BUSY: u32 = 1;
/// Checks of another thread's preparation before this one sleeps: a forked child's takes less.
const LOOKS: u32 = 10_000;
/// Longest wait for another thread's preparation: its rendezvous is bounded by 2 s, and then some.
const PATIENCE_NS: u64 = 3_000_000_000;

struct Shared {
    generation: AtomicU32,
    process: AtomicU32,
    seed: [AtomicU64; 2],
}

impl Shared {
    const fn new() -> Self {
        Self {
            generation: AtomicU32::new(FRESH),
            process: AtomicU32::new(0),
            seed: [const { AtomicU64::new(0) }; 2],
        }
    }
}

static FALLBACK: Shared = Shared::new();
/// State of a process that may make no system call: not even forks are noticed.
static WITHOUT: Shared = Shared::new();

/// The seed of the process that loaded the library, which its forked children inherit.
static FAMILY: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// Counter of forked children, shared by all of them. Null before it is mapped.
static CHILDREN: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// The fallback, or a page that the kernel clears in a forked child.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new((&raw const FALLBACK).cast_mut());

fn shared() -> &'static Shared {
    // SAFETY: the pointer is that of a static or of a page that is never unmapped; both hold a `Shared`, for
    // which all bits zero is a valid value.
    unsafe { &*SHARED.load(Acquire) }
}

/// The generation of this process. A thread with a different one calls `prepare`.
#[inline]
pub(crate) fn generation() -> u32 {
    let shared = shared();
    if ptr::eq(shared, &raw const FALLBACK) { fallback_generation() } else { shared.generation.load(Acquire) }
}

/// Notices a fork by a system call per edge, where the kernel cannot clear the page.
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

/// Called as the library is loaded: all system calls are made now.
pub(crate) fn load(notify: Option<&CStr>) {
    map_pages();
    become_ready(shared(), || meet_with_seed(notify));
}

/// Called as the library is loaded under a filter that may kill for what `load` does. No agent is met: one
/// that sees the mapped library attaches to it.
pub(crate) fn do_without() {
    let seed = seed_from_file();
    SHARED.store((&raw const WITHOUT).cast_mut(), Release);
    WITHOUT.generation.store(ready_with(&WITHOUT, seed), Release);
}

/// Resets everything to the state before the library was loaded.
pub(crate) fn forget() {
    CHILDREN.store(ptr::null_mut(), Release);
    FALLBACK.generation.store(FRESH, Release);
    SHARED.store((&raw const FALLBACK).cast_mut(), Release);
}

/// Prepares a thread, or a forked child at its first call; or a process whose loader did not initialize the
/// library. Other threads that call at the same time wait, so that no edge is fired before the agent could
/// attach.
#[cold]
pub(crate) fn prepare() -> u32 {
    let children = CHILDREN.load(Acquire);
    if children.is_null() {
        map_pages();
        return become_ready(shared(), || meet_with_seed(rendezvous::place()));
    }
    if ring::is_there() {
        // A process that writes its own edges asks the kernel at each of them.
        return become_ready(shared(), || meet_with_seed(rendezvous::place()));
    }
    become_ready(shared(), || {
        // SAFETY: not null, so the shared page, which is never unmapped.
        let number = u64::from(unsafe { &*children }.fetch_add(1, Relaxed)) + 1;
        let seed = FAMILY.each_ref().map(|word| ids::mix(word.load(Relaxed) ^ number));
        ready_with(shared(), seed)
    })
}

/// Has one thread prepare the process; returns its generation.
fn become_ready(shared: &Shared, prepare: impl Fn() -> u32) -> u32 {
    let mut waited_since_ns = None;
    let mut looks = 0;
    loop {
        match shared.generation.compare_exchange(FRESH, BUSY, AcqRel, Acquire) {
            Ok(_) => {
                let generation = prepare();
                shared.generation.store(generation, Release);
                return generation;
            }
            Err(BUSY) if looks < LOOKS => {
                looks += 1;
                core::hint::spin_loop();
            }
            Err(BUSY) => {
                let now_ns = syscall::monotonic_ns();
                if now_ns.saturating_sub(*waited_since_ns.get_or_insert(now_ns)) > PATIENCE_NS {
                    // The preparing thread was lost (a fork without page clearing, a debugger): continue
                    // without it.
                    let _ = shared.generation.compare_exchange(BUSY, FRESH, AcqRel, Relaxed);
                }
                // A thousand waiting threads must not keep the agent from its CPU.
                syscall::wait_while(&shared.generation, BUSY);
            }
            Err(generation) => return generation,
        }
    }
}

/// Makes the seed from the kernel's random numbers, and after the agent has been met.
fn meet_with_seed(notify: Option<&CStr>) -> u32 {
    let seed = random_seed();
    for (to, from) in FAMILY.iter().zip(seed) {
        to.store(from, Relaxed);
    }
    let shared = shared();
    shared.process.store(syscall::process_number(), Relaxed);
    if let Some(path) = notify {
        rendezvous::meet(path);
    }
    ready_with(shared, seed)
}

fn random_seed() -> [u64; 2] {
    let mut seed = [0; 2];
    if !syscall::random(&mut seed) {
        // Good enough to be unique: the clock to the nanosecond, the process, and the addresses of the
        // library.
        let place = (&raw const seed) as u64 ^ (&raw const FALLBACK as u64).rotate_left(32);
        seed[0] = ids::mix(syscall::monotonic_ns() ^ place);
        seed[1] = ids::mix(u64::from(syscall::process_number()) ^ seed[0]);
    }
    seed
}

/// A seed from a file whose content the kernel makes anew for each reader; else from the addresses of the
/// library.
fn seed_from_file() -> [u64; 2] {
    let place = (&raw const FALLBACK) as u64;
    let (mut seed, mut at) = ([place, place.rotate_left(32)], 0);
    syscall::each_byte(c"/proc/sys/kernel/random/uuid", |byte| {
        seed[at & 1] = ids::mix(seed[at & 1] ^ u64::from(byte));
        at += 1;
    });
    seed
}

/// Stores the seed, and returns the generation that belongs to it.
fn ready_with(shared: &Shared, seed: [u64; 2]) -> u32 {
    shared.seed[0].store(seed[0], Relaxed);
    shared.seed[1].store(seed[1], Relaxed);
    // Random, so that a child never takes a thread of its parent for prepared; neither FRESH nor BUSY nor
    // UNKNOWN.
    (ids::mix(seed[0] ^ seed[1]) as u32 & 0x7fff_ffff) | 0x4000_0000
}

const PAGE: usize = 4096;
const PRIVATE_ANONYMOUS: usize = 0x22;
const SHARED_ANONYMOUS: usize = 0x21;

/// Maps a page at an address that the kernel chooses.
fn map(kind: usize) -> Option<usize> {
    const READ_WRITE: usize = 3;
    // SAFETY: a new mapping touches no existing memory.
    let page = unsafe { syscall::call(syscall::MMAP, [0, PAGE, READ_WRITE, kind, usize::MAX, 0]) };
    usize::try_from(page).ok().filter(|page| *page != 0)
}

/// Moves the shared state to a separate page, once; if that fails the static stays in use. The family's
/// counter gets another page.
fn map_pages() {
    const WIPE_ON_FORK: usize = 18;
    let fallback = (&raw const FALLBACK).cast_mut();
    if SHARED.load(Acquire) != fallback || FALLBACK.generation.load(Acquire) != FRESH {
        return;
    }
    let Some(page) = map(PRIVATE_ANONYMOUS) else { return };
    // SAFETY: the page is ours, and what changes is only its content in a forked child.
    let wiped = unsafe { syscall::call(syscall::MADVISE, [page, PAGE, WIPE_ON_FORK, 0, 0, 0]) } == 0;
    let shared = ptr::with_exposed_provenance_mut::<Shared>(page);
    if !wiped || SHARED.compare_exchange(fallback, shared, AcqRel, Relaxed).is_err() {
        // SAFETY: the page is ours and no pointer to it was published.
        unsafe { syscall::call(syscall::MUNMAP, [page, PAGE, 0, 0, 0, 0]) };
        return;
    }
    if let Some(page) = map(SHARED_ANONYMOUS) {
        CHILDREN.store(ptr::with_exposed_provenance_mut(page), Release);
    }
}
