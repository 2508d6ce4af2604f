//! Reading tasks, the running one among them, and the way from a task to its ledger.
//!
//! A task is read as its pointer came (see `memory.rs`): with a type from a tp_btf argument, without one from
//! a raw tracepoint and in uprobes on old kernels. Nothing here follows a pointer that came out of a map.

use core::marker::PhantomData;

use aya_ebpf::{
    Global,
    helpers::{
        bpf_get_current_pid_tgid, bpf_probe_read_kernel, bpf_probe_read_kernel_buf,
        generated::{bpf_get_current_comm, bpf_get_current_task, bpf_get_current_task_btf},
    },
};
use guestscope_contract::{
    COMM_BYTES,
    ledger::{Ledger, Stamps},
    waker,
};

use crate::{
    maps::{
        BY_NUMBER, HAS_TYPED_HELPERS, LEDGERS, OFFSET_TASK_COMM, OFFSET_TASK_EXEC, OFFSET_TASK_EXEC_BEFORE,
        OFFSET_TASK_LAST_ARRIVAL, OFFSET_TASK_MAJ_FLT, OFFSET_TASK_MIN_FLT, OFFSET_TASK_PID,
        OFFSET_TASK_RUN_DELAY, OFFSET_TASK_STACK, OFFSET_TASK_TGID, SLOT_OF, TYPE_TASK,
    },
    memory::{Memory, Plain, Typed, follow, load},
};

/// A task by its number, its process and its address.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) tid: u32,
    pub(crate) tgid: u32,
    pub(crate) address: u64,
}

/// A `task_struct`.
#[derive(Clone, Copy)]
pub(crate) struct Task<M>(*const u8, PhantomData<M>);

impl Task<Typed> {
    /// The running task, only where the kernel has the BPF helper for it: see [`Current`].
    #[inline(always)]
    pub(crate) fn current() -> Self {
        // SAFETY: the BPF helper has no preconditions.
        Task::at(unsafe { bpf_get_current_task_btf() } as *const u8)
    }
}

impl<M: Memory> Task<M> {
    /// The task at this address.
    #[inline(always)]
    pub(crate) fn at(address: *const u8) -> Self {
        Task(address, PhantomData)
    }

    /// Address of the task.
    #[inline(always)]
    pub(crate) fn address(self) -> *const u8 {
        self.0
    }

    /// Reads a member.
    ///
    /// # Safety
    /// The global must hold the offset of a `T`.
    #[inline(always)]
    pub(crate) unsafe fn load<T: Copy>(self, offset: &Global<u32>) -> T {
        // SAFETY: the caller's, and it is a task.
        unsafe { load::<M, T>(self.0, offset) }
    }

    /// Reads a member that points to a structure.
    ///
    /// # Safety
    /// The global must hold the offset of such a member.
    #[inline(always)]
    pub(crate) unsafe fn follow(self, offset: &Global<u32>) -> *const u8 {
        // SAFETY: the caller's, and it is a task.
        unsafe { follow::<M>(self.0, &TYPE_TASK, offset) }
    }

    /// Thread number in the initial namespace.
    #[inline(always)]
    pub(crate) fn tid(self) -> u32 {
        // SAFETY: the agent resolved the offset of `pid`, a pid_t.
        unsafe { self.load(&OFFSET_TASK_PID) }
    }

    /// Process number in the initial namespace.
    #[inline(always)]
    pub(crate) fn tgid(self) -> u32 {
        // SAFETY: the agent resolved the offset of `tgid`, a pid_t.
        unsafe { self.load(&OFFSET_TASK_TGID) }
    }

    /// Minor and major faults so far.
    #[inline(always)]
    pub(crate) fn faults(self) -> (u64, u64) {
        // SAFETY: the agent resolved the offsets of two unsigned longs.
        unsafe { (self.load(&OFFSET_TASK_MIN_FLT), self.load(&OFFSET_TASK_MAJ_FLT)) }
    }

    /// The kernel's own stamps of its stay on its CPU; zeros where it keeps none.
    #[inline(always)]
    pub(crate) fn stamps(self) -> Stamps {
        if OFFSET_TASK_LAST_ARRIVAL.load() == 0 || OFFSET_TASK_RUN_DELAY.load() == 0 {
            return Stamps::default();
        }
        // SAFETY: the agent resolved the offsets of two 8-byte members.
        unsafe {
            Stamps {
                arrived: self.load(&OFFSET_TASK_LAST_ARRIVAL),
                queued_ns: self.load(&OFFSET_TASK_RUN_DELAY),
            }
        }
    }

    /// Length of its last stay on a CPU by the kernel's own sums, which leave out stolen time; 0 where they
    /// are unknown. Only the fair class records when a stay begins; the result is at most the time on CPUs
    /// beyond `seen_ns`.
    #[inline(always)]
    pub(crate) fn last_stay_ns(self, seen_ns: u64) -> u64 {
        if OFFSET_TASK_EXEC.load() == 0 || OFFSET_TASK_EXEC_BEFORE.load() == 0 {
            return 0;
        }
        // SAFETY: the agent resolved the offsets of two 8-byte members.
        let (all_ns, before_ns): (u64, u64) =
            unsafe { (self.load(&OFFSET_TASK_EXEC), self.load(&OFFSET_TASK_EXEC_BEFORE)) };
        let (stay_ns, unseen_ns) = (all_ns.saturating_sub(before_ns), all_ns.saturating_sub(seen_ns));
        if stay_ns < unseen_ns { stay_ns } else { unseen_ns }
    }

    /// The task's ledger, if it is tracked.
    #[inline(always)]
    pub(crate) fn ledger(self) -> Option<*mut Ledger> {
        ledger(self.tid(), self.0 as u64)
    }
}

/// Stands for a task's address where tasks are known by their numbers alone.
pub(crate) const SOMEBODY: u64 = 1;

/// The running task, on kernels of any age: a typed task where possible, otherwise its address.
#[derive(Clone, Copy)]
pub(crate) struct Current {
    pub(crate) tid: u32,
    pub(crate) address: u64,
}

impl Current {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        if HAS_TYPED_HELPERS.load() != 0 {
            let task = Task::current();
            return Current { tid: task.tid(), address: task.address() as u64 };
        }
        // SAFETY: the BPF helper has no preconditions.
        let address = if BY_NUMBER.load() != 0 { SOMEBODY } else { unsafe { bpf_get_current_task() } };
        Current { tid: bpf_get_current_pid_tgid() as u32, address }
    }

    /// The running task with its type.
    #[inline(always)]
    pub(crate) fn task() -> Option<Task<Typed>> {
        if HAS_TYPED_HELPERS.load() != 0 { Some(Task::current()) } else { None }
    }

    /// The task's ledger, if it is tracked.
    #[inline(always)]
    pub(crate) fn ledger(self) -> Option<*mut Ledger> {
        ledger(self.tid, self.address)
    }

    /// Minor and major faults so far.
    #[inline(always)]
    pub(crate) fn faults(self) -> (u64, u64) {
        match Self::task() {
            Some(task) => task.faults(),
            None => faults_at(self.address),
        }
    }

    /// The same without the system call.
    #[inline(always)]
    pub(crate) fn alone(self) -> u32 {
        waker::pack(self.tid, -1)
    }

    /// Start of its stack. The agent has resolved the offset.
    #[inline(always)]
    pub(crate) fn stack(self) -> u64 {
        // SAFETY: the running task, and the offset of a pointer.
        unsafe {
            match Self::task() {
                Some(task) => task.load(&OFFSET_TASK_STACK),
                None => Task::<Plain>::at(self.pointer()).load(&OFFSET_TASK_STACK),
            }
        }
    }

    /// Address of the task, without a type.
    #[inline(always)]
    pub(crate) fn pointer(self) -> *const u8 {
        self.address as *const u8
    }
}

/// The ledger of the thread with this number, if the task at this address is the tracked one.
#[inline(always)]
pub(crate) fn ledger(tid: u32, address: u64) -> Option<*mut Ledger> {
    let slots = SLOT_OF.get_ptr(tid >> 2)?;
    // SAFETY: the pointer is to four slots of a map value, and the index is at most 3.
    let slot = unsafe { core::ptr::read_volatile(slots.cast::<u16>().add((tid & 3) as usize)) };
    if slot == 0 {
        return None;
    }
    let ledger = LEDGERS.get_ptr_mut(u32::from(slot))?;
    // A tid that was used again, or exchanged by an exec from another thread, must not write here.
    // SAFETY: a ledger in a map value.
    if unsafe { (*ledger).task } != address {
        return None;
    }
    Some(ledger)
}

/// Points a thread number to a slot.
#[inline(always)]
pub(crate) fn set_slot(tid: u32, slot: u16) {
    if let Some(slots) = SLOT_OF.get_ptr_mut(tid >> 2) {
        // SAFETY: as in `ledger`; the store is of one aligned u16, neighbours are not touched.
        unsafe { core::ptr::write_volatile(slots.cast::<u16>().add((tid & 3) as usize), slot) };
    }
}

/// The slot that a thread number points to, whichever thread holds it.
#[inline(always)]
pub(crate) fn slot_of(tid: u32) -> u16 {
    match SLOT_OF.get_ptr(tid >> 2) {
        // SAFETY: as in `ledger`.
        Some(slots) => unsafe { core::ptr::read_volatile(slots.cast::<u16>().add((tid & 3) as usize)) },
        None => 0,
    }
}

/// Minor and major faults of the task at this address: without a typed pointer, at 25 ns a read.
#[inline(always)]
pub(crate) fn faults_at(address: u64) -> (u64, u64) {
    if BY_NUMBER.load() != 0 {
        return (0, 0);
    }
    // SAFETY: the BPF helper checks the memory; what cannot be read is 0.
    unsafe {
        let minor = bpf_probe_read_kernel((address + u64::from(OFFSET_TASK_MIN_FLT.load())) as *const u64);
        let major = bpf_probe_read_kernel((address + u64::from(OFFSET_TASK_MAJ_FLT.load())) as *const u64);
        (minor.unwrap_or(0), major.unwrap_or(0))
    }
}

/// Name of a task by its address; where that is unknown, of the running task, the subject of all records.
#[inline(always)]
pub(crate) fn comm(address: u64, into: &mut [u8; COMM_BYTES]) {
    if BY_NUMBER.load() != 0 {
        // SAFETY: the BPF helper writes into the whole buffer and no further.
        unsafe { bpf_get_current_comm(into.as_mut_ptr().cast(), COMM_BYTES as u32) };
        return;
    }
    // SAFETY: the BPF helper checks the memory; on failure it zeroes the buffer.
    let _ = unsafe {
        bpf_probe_read_kernel_buf((address + u64::from(OFFSET_TASK_COMM.load())) as *const u8, into)
    };
}
