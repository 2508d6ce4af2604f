//! The last turns on each CPU, and whose they were while a tracked thread was queued.
//!
//! A turn is kept when it ends if another thread is queued on that CPU, or if a tracked thread comes next
//! that has waited for long: so a switch on a CPU that nobody waits for costs one look at the queue's length.
//! Of short turns only the length is added up; when the sum is worth a turn, the thread whose turn ends has
//! all of it. As with samples, each process gets its share of many. Times are those of the run queue's clock,
//! which the kernel has read for this switch already. Only where the kernel's types are known: without them
//! each of some ten reads is a call.

use core::hint::cold_path;

use aya_ebpf::helpers::bpf_get_smp_processor_id;
use guestscope_contract::{
    Account, Header, Kind, SHORT_NS, TURNS, Turn, Turns, USERS,
    ledger::{Ledger, RUNNING},
};

use crate::{
    emit,
    maps::{
        LAST_TURNS, OFFSET_RUNQUEUE_CLOCK, OFFSET_RUNQUEUE_LENGTH, OFFSET_TASK_COMM,
        OFFSET_TASK_LAST_ARRIVAL, OFFSET_TASK_LEADER, QUEUE,
    },
    memory::{Memory, load},
    runqueue,
    task::Task,
    wait, words,
};

/// Whether turns are kept.
#[inline(always)]
fn are_kept<M: Memory>() -> bool {
    M::IS_TYPED
        && runqueue::is_known()
        && OFFSET_RUNQUEUE_LENGTH.load() != 0
        && OFFSET_RUNQUEUE_CLOCK.load() != 0
        && OFFSET_TASK_LAST_ARRIVAL.load() != 0
}

/// The turn of this task on the CPU of this run queue ends; `is_awaited`: a tracked thread comes next that
/// has waited for long.
///
/// # Safety
/// It must be the run queue, whose lock is held, or null.
#[inline(always)]
pub(crate) unsafe fn ends<M: Memory>(prev: Task<M>, runqueue: *const u8, is_awaited: bool) {
    if !are_kept::<M>() || prev.tid() == 0 {
        return;
    }
    // SAFETY: a task and its run queue, at offsets of members of these sizes that the agent resolved; the
    // turns are a value of a map, which this CPU alone writes, under the lock of its run queue.
    unsafe {
        if !is_awaited && load::<M, u32>(runqueue, &OFFSET_RUNQUEUE_LENGTH) < 2 {
            return;
        }
        cold_path();
        let Some(kept) = LAST_TURNS.get_ptr_mut(bpf_get_smp_processor_id()) else { return };
        let until_ns = load::<M, u64>(runqueue, &OFFSET_RUNQUEUE_CLOCK);
        let since_ns: u64 = prev.load(&OFFSET_TASK_LAST_ARRIVAL);
        let mut ns = until_ns.wrapping_sub(since_ns);
        if ns < SHORT_NS {
            ns = ns.wrapping_add((*kept).short_ns);
            (*kept).short_ns = ns;
            if ns < SHORT_NS {
                return;
            }
            (*kept).short_ns = 0;
        }
        let turn = turn(kept, (*kept).count);
        (*turn).since_ns = until_ns.wrapping_sub(ns);
        (*turn).until_ns = until_ns;
        (*turn).tid = prev.tid();
        (*turn).tgid = prev.tgid();
        // The process's name: threads have names of their own. Two words instead of a call.
        let has_leader = OFFSET_TASK_LEADER.load() != 0;
        let leader = if has_leader { prev.follow(&OFFSET_TASK_LEADER) } else { prev.address() };
        let comm = leader.add(OFFSET_TASK_COMM.load() as usize);
        let into: *mut u64 = (&raw mut (*turn).comm).cast();
        core::ptr::write_volatile(into, M::read(comm));
        core::ptr::write_volatile(into.add(1), M::read(comm.add(8)));
        (*kept).count += 1;
    }
}

/// The place of a turn.
///
/// # Safety
/// The pointer must be to a value of the map.
#[inline(always)]
unsafe fn turn(kept: *mut Turns, number: u64) -> *mut Turn {
    let mut index = number & (TURNS as u64 - 1);
    // SAFETY: an empty instruction, so that the compiler keeps the mask, the verifier's bound, with the use;
    // the index is inside the array.
    unsafe {
        core::arch::asm!("{index} &= 255", index = inout(reg) index, options(nomem, nostack));
        (&raw mut (*kept).turns).cast::<Turn>().add(index as usize)
    }
}

/// Hands over who used the CPU for which the thread of this ledger was queued until now, for long. `prev`
/// leaves it to that thread, which was on `left_cpu` before.
///
/// # Safety
/// As for [`ends`].
#[inline(always)]
pub(crate) unsafe fn tell<M: Memory>(
    prev: Task<M>,
    runqueue: *const u8,
    ledger: &Ledger,
    left_cpu: u16,
    now_ns: u64,
) {
    if !are_kept::<M>() || ledger.state != RUNNING {
        return;
    }
    let queued_ns = now_ns.wrapping_sub(ledger.ready_ns).wrapping_sub(ledger.wait_throttled_ns());
    if !wait::is_reported(queued_ns) {
        return;
    }
    // A thread that an idle CPU took over was queued elsewhere; so was, mostly, one that could run all along.
    let was_blocked = ledger.account != Account::Runq as u8;
    let is_elsewhere = prev.tid() == 0 || !was_blocked;
    let cpu = if is_elsewhere { left_cpu } else { ledger.cpu };
    let Some(kept) = LAST_TURNS.get_ptr(u32::from(cpu)) else { return };
    let Some(record) = QUEUE.get_ptr_mut(0) else { return };
    // SAFETY: a task's run queue, at an offset that the agent resolved; the others are values of maps. The
    // record is this CPU's, under the lock of its run queue.
    unsafe {
        let clock_ns: u64 = load::<M, _>(runqueue, &OFFSET_RUNQUEUE_CLOCK);
        let from_ns = clock_ns.wrapping_sub(queued_ns);
        words::clear(record);
        (*record).header = Header { kind: Kind::Queue as u32, flags: 0, time_ns: now_ns };
        (*record).born_ns = ledger.born_ns;
        (*record).tid = ledger.tid;
        (*record).tgid = ledger.tgid;
        let count = core::ptr::read_volatile(&raw const (*kept).count);
        let mut back = 1;
        while back <= TURNS as u64 {
            if add_turn(u32::from(cpu), count.wrapping_sub(back), from_ns) == 0 {
                break;
            }
            back += 1;
        }
        emit::queue(record);
    }
}

/// Adds a turn of a CPU to this CPU's record; 0 if it ended before the wait began.
///
/// A function that the verifier checks once, not at each call (5.6 and later): inlined, 64 took more than
/// 100 s. So it takes numbers alone; pointers would need 5.12.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn add_turn(cpu: u32, number: u64, from_ns: u64) -> u64 {
    let Some(kept) = LAST_TURNS.get_ptr_mut(cpu) else { return 0 };
    let Some(record) = QUEUE.get_ptr_mut(0) else { return 0 };
    // SAFETY: values of maps. Another CPU may write its turns meanwhile: then one may be missing or mixed up.
    unsafe {
        let turn = &*turn(kept, number);
        let ns = turn.within(from_ns);
        if ns == 0 {
            return 0;
        }
        let mut place = 0;
        while place < USERS {
            if (*record).users[place].takes(turn, ns) {
                return 1;
            }
            place += 1;
        }
        (*record).others_ns = (*record).others_ns.wrapping_add(ns);
    }
    1
}

// The mask of `turn`.
const _: () = assert!(TURNS == 256);
