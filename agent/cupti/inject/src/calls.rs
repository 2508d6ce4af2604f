//! The latest calls into CUDA by their correlation numbers: which thread asked for a piece of work, and when.
//!
//! CUPTI numbers calls one after the other, and records of calls and of their work come in different buffers.
//! A call of the runtime and the driver's call inside it have the same number: the outer one counts.

use core::ptr::NonNull;

use super::system;

/// Calls that are kept, a power of two: a second of a decoder's.
const CALLS: usize = 1 << 18;

/// A call.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Call {
    pub(crate) correlation: u32,
    /// The kernel's number of the thread, in its namespace.
    pub(crate) thread: u32,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
}

/// The table; a zeroed entry is free.
pub(crate) struct Calls(NonNull<Call>);

impl Calls {
    pub(crate) fn make() -> Option<Self> {
        system::memory(CALLS * size_of::<Call>()).map(|memory| Self(memory.cast()))
    }

    fn entry(&mut self, correlation: u32) -> &mut Call {
        // SAFETY: within the memory, which is aligned to pages, zeroed and used here alone.
        unsafe { self.0.add(correlation as usize & (CALLS - 1)).as_mut() }
    }

    pub(crate) fn add(&mut self, call: Call) {
        let entry = self.entry(call.correlation);
        if entry.correlation == call.correlation && entry.begin_ns != 0 && entry.thread == call.thread {
            entry.begin_ns = entry.begin_ns.min(call.begin_ns);
            entry.end_ns = entry.end_ns.max(call.end_ns);
        } else {
            *entry = call;
        }
    }

    pub(crate) fn of(&mut self, correlation: u32) -> Option<Call> {
        let entry = *self.entry(correlation);
        (entry.correlation == correlation && entry.begin_ns != 0).then_some(entry)
    }
}
