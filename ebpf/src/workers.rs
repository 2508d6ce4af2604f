//! Kernel threads inside a process that carry out io_uring's work (`iou-sqp-*`, `iou-wrk-*`): each works for
//! the thread that made it, and what it asks of block devices is that thread's.
//!
//! They are not tracked: they have no ledger. What they submit is added to their thread's ledger at its next
//! edge, by that thread itself, since nobody else may write it.

use aya_ebpf::{macros::map, maps::HashMap};
use guestscope_contract::{Counter, IO_OF_RING, ledger::Ledger};

use crate::{
    emit,
    maps::FLIGHTS,
    memory::{Memory, add},
    pending::{Owner, flight_of},
    task::{Current, Task},
};

/// A worker.
#[derive(Clone, Copy)]
#[repr(C)]
struct Worker {
    /// Its task: a number is used again.
    task: u64,
    owner: Owner,
}

/// Most workers at once: a ring has one that polls it, and a thread as many others as it has I/Os that block.
const WORKERS_MOST: u32 = 1024;

/// Workers by their thread numbers.
#[map]
static WORKERS: HashMap<u32, Worker> = HashMap::with_max_entries(WORKERS_MOST, 0);

/// Whether there ever was a worker: most programs have none, and then nobody looks any up.
#[unsafe(no_mangle)]
static mut HAS_WORKERS: u32 = 0;

#[inline(always)]
fn has_workers() -> bool {
    // SAFETY: a word of a map value, which only ever becomes 1.
    unsafe { core::ptr::read_volatile(&raw const HAS_WORKERS) != 0 }
}

/// The thread of this ledger makes a worker.
#[inline(always)]
pub(crate) fn born<M: Memory>(parent: *const Ledger, worker: Task<M>) {
    let owner = Owner::of(parent, IO_OF_RING);
    if flight_of(owner.slot, owner.born_ns).is_some() {
        join(owner, worker);
    }
}

/// The running task, which is not tracked, makes another one: a worker may make workers.
#[inline(always)]
pub(crate) fn born_of_worker<M: Memory>(current: Current, worker: Task<M>) {
    if let Some(owner) = served_by(current) {
        join(owner, worker);
    }
}

#[inline(always)]
fn join<M: Memory>(owner: Owner, worker: Task<M>) {
    // SAFETY: a word of a map value.
    unsafe { core::ptr::write_volatile(&raw mut HAS_WORKERS, 1) };
    if WORKERS.insert(worker.tid(), Worker { task: worker.address() as u64, owner }, 0).is_err() {
        emit::count(Counter::LostIo);
    }
}

/// A task is freed.
#[inline(always)]
pub(crate) fn freed<M: Memory>(task: Task<M>) {
    if has_workers() {
        let _ = WORKERS.remove(task.tid());
    }
}

/// The thread that the running task works for, if it is a worker.
#[inline(always)]
pub(crate) fn served_by(current: Current) -> Option<Owner> {
    if !has_workers() {
        return None;
    }
    // SAFETY: the value is copied at once.
    let worker = unsafe { WORKERS.get(current.tid) }?;
    if worker.task == current.address { Some(worker.owner) } else { None }
}

/// A worker has submitted this for its thread.
#[inline(always)]
pub(crate) fn submitted(owner: &Owner, device: u32, is_write: bool, bytes: u64) {
    let Some(flight) = FLIGHTS.get_ptr_mut(owner.slot) else { return };
    // SAFETY: a value of a map; the numbers are added to by one instruction each.
    unsafe {
        if (*flight).born_ns != owner.born_ns {
            return;
        }
        (*flight).device = device;
        (*flight).is_write = u32::from(is_write);
        let (number, sum) = if is_write {
            (&raw mut (*flight).writes, &raw mut (*flight).write_bytes)
        } else {
            (&raw mut (*flight).reads, &raw mut (*flight).read_bytes)
        };
        add(number, 1);
        add(sum, bytes);
    }
}
