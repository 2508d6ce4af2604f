//! A thread's calls of a graphics processor's driver: functions that wait for the device, or copy memory.
//!
//! The kernel side stops at the entry and at the return of these functions. Between both, what keeps the
//! thread from running is the device, whatever system call the driver waits in; and what it does on a CPU is
//! looking whether the device is done, or copying. No names and no devices are known here.
#![expect(clippy::inline_always, reason = "a call costs a BPF program more than the body")]

/// What a function of a driver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Does {
    /// It returns when the device is done.
    Wait = 0,
    /// It copies to the device.
    CopyIn = 1,
    /// It copies from the device.
    CopyOut = 2,
    /// It copies, and its name does not tell which way.
    Copy = 3,
}

impl Does {
    /// All of them.
    pub const ALL: [Does; 4] = [Does::Wait, Does::CopyIn, Does::CopyOut, Does::Copy];
}

/// A copy that kept its thread for at least this long, ns, was one that blocks. Copies that return at once
/// took 3 to 8 us on an H100 with the launch of the copy, and those of a stub 15 us where the kernel has to
/// single-step the instruction under a probe in a virtual machine; one that waits for work of the device
/// takes as long as that.
pub const BLOCKS_NS: u64 = 50_000;

/// Sums over the calls of a thread. They only grow; counts of 32 bits wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Driver {
    /// Time on a CPU inside the functions: a part of [`crate::Account::Cpu`].
    pub cpu_ns: u64,
    /// Time from entry to return of functions that wait.
    pub waited_ns: u64,
    /// The same of functions that copy.
    pub copied_ns: u64,
    /// Bytes that were to be copied to the device.
    pub to_device_bytes: u64,
    /// Bytes from the device.
    pub from_device_bytes: u64,
    /// Calls of functions that wait.
    pub waits: u32,
    /// Calls of functions that copy.
    pub copies: u32,
    /// Those of them that kept the thread for [`BLOCKS_NS`] or longer.
    pub copies_blocking: u32,
    /// Calls of both that ended without a return.
    pub unreturned: u32,
}

/// Most bytes that a call is counted with: a program may ask for any number.
const MOST_BYTES: u64 = 1 << 40;

/// The open call of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct DriverCall {
    /// End of the caller's frame: at the return the stack pointer is here. 0: no call.
    pub frame: u64,
    /// Entry, ns of `CLOCK_MONOTONIC`.
    pub entered_ns: u64,
    /// [`crate::Account::Cpu`] up to which the call is in the sums.
    pub cpu_ns: u64,
    /// When that was, ns of `CLOCK_MONOTONIC`.
    pub settled_ns: u64,
    /// The [`Does`] of the function.
    pub does: u32,
    /// The ledger's number of transitions then.
    pub sequence: u32,
}

/// A thread's ledger at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Instant {
    /// The clock, ns of `CLOCK_MONOTONIC`.
    pub now_ns: u64,
    /// The thread's time on CPUs by then, ns. What it ran for since a switch that was not seen is missing
    /// where the kernel has no stamps of it.
    pub cpu_ns: u64,
    /// The ledger's number of transitions.
    pub sequence: u32,
}

/// Farthest that a call's own frames lie below its caller's: main threads' stacks have 8 MiB, others less. A
/// stack pointer farther away is on another stack.
const DEEPEST: u64 = 16 << 20;

/// A second function that is entered at the same frame within this time, ns, is one that the first went on to
/// by a jump, where the return address does not tell. A probe takes 15 us at most (single-stepped in a
/// virtual machine).
const JUMP_NS: u64 = 100_000;

/// What lies in the program's memory where the return address of the open call was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Returning {
    /// It is not known: not every processor keeps it in memory, and memory may be away.
    Unknown = 0,
    /// The address that the kernel put there for the return probe: nobody has written there since.
    Kept = 1,
    /// Something else: the stack has been used anew, so that the call was left.
    Overwritten = 2,
}

/// Where a thread is with regard to its open call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Where {
    /// Inside.
    Inside = 0,
    /// Outside: the call was left without a return.
    Left = 1,
    /// It cannot be told: on another stack.
    Elsewhere = 2,
}

impl DriverCall {
    /// Whether a thread with this stack pointer is inside the call. Stacks grow downwards.
    #[inline(always)]
    #[must_use]
    pub fn is_inside(&self, stack: u64) -> bool {
        // Without a call the difference wraps, and is too large.
        self.frame != 0 && self.frame.wrapping_sub(stack).wrapping_sub(1) < DEEPEST
    }

    /// Whether this stack pointer shows that the call is over, whose return was not seen: a jump out of it
    /// (`longjmp`) leaves the pointer at or above the frame.
    #[inline(always)]
    #[must_use]
    pub fn is_over(&self, stack: u64) -> bool {
        self.frame != 0 && stack.wrapping_sub(self.frame) < DEEPEST
    }

    /// Where the thread is whose stack pointer this is; `returning` is asked only where that does not tell.
    #[inline(always)]
    #[must_use]
    pub fn whereabouts(&self, stack: u64, returning: impl FnOnce() -> Returning) -> Where {
        if self.is_inside(stack) {
            // A jump out of the call and calls of other functions lead below the frame as well.
            if matches!(returning(), Returning::Overwritten) { Where::Left } else { Where::Inside }
        } else if self.is_over(stack) {
            Where::Left
        } else {
            Where::Elsewhere
        }
    }

    /// A function begins, of this kind and with so many bytes. Returns whether the call is the outermost:
    /// what is called inside another one, or jumped to by it, belongs to that. An open call that this one
    /// does not belong to has been left.
    #[inline(always)]
    pub fn enter(
        &mut self,
        sums: &mut Driver,
        (does, bytes): (Does, u64),
        frame: u64,
        at: Instant,
        returning: Returning,
    ) -> bool {
        let Instant { now_ns, cpu_ns, sequence } = at;
        if self.frame != 0 {
            // The return address of a call that begins is still its caller's.
            let is_jump = self.frame == frame
                && match returning {
                    Returning::Kept => true,
                    Returning::Unknown => now_ns.wrapping_sub(self.entered_ns) < JUMP_NS,
                    Returning::Overwritten => false,
                };
            // The caller's frame of an inner call lies below that of the outer one.
            if is_jump || matches!(self.whereabouts(frame, || returning), Where::Inside) {
                return false;
            }
            self.drop_unreturned(sums);
        }
        sums.count(does, bytes);
        let does = does as u32;
        *self = Self { frame, entered_ns: now_ns, cpu_ns, settled_ns: now_ns, does, sequence };
        true
    }

    /// The open call has been left without a return, nobody knows when: its time on a CPU that is not in the
    /// sums yet stays out of them.
    #[inline(always)]
    pub fn drop_unreturned(&mut self, sums: &mut Driver) {
        self.frame = 0;
        sums.unreturned = sums.unreturned.wrapping_add(1);
    }

    /// The thread has ended, with the stack pointer here: inside, or after it had left the call.
    #[inline(always)]
    pub fn end(&mut self, sums: &mut Driver, stack: u64, at: Instant) {
        if self.is_inside(stack) {
            self.close(sums, at);
        }
        self.drop_unreturned(sums);
    }

    /// Moves the CPU time of the open call so far into the sums. Without a transition in between the thread
    /// has been on its CPU all the time, whatever its ledger says. Otherwise the ledger's time counts, at
    /// most what has passed: it has been put right meanwhile if its switch to the CPU was not seen.
    #[inline(always)]
    pub fn settle(&mut self, sums: &mut Driver, at: Instant) {
        let most_ns = at.now_ns.wrapping_sub(self.settled_ns);
        let more_ns = at.cpu_ns.wrapping_sub(self.cpu_ns);
        if at.sequence == self.sequence || (more_ns > most_ns && more_ns.cast_signed() > 0) {
            sums.cpu_ns = sums.cpu_ns.wrapping_add(most_ns);
        } else if more_ns <= most_ns {
            sums.cpu_ns = sums.cpu_ns.wrapping_add(more_ns);
        }
        self.cpu_ns = at.cpu_ns;
        self.settled_ns = at.now_ns;
        self.sequence = at.sequence;
    }

    /// A function returns, with the stack pointer here. Returns whether it was the open call: an inner one's
    /// return, and one whose entry was not seen, end nothing.
    #[inline(always)]
    pub fn leave(&mut self, sums: &mut Driver, stack: u64, at: Instant) -> bool {
        if self.frame != stack {
            if self.is_over(stack) {
                self.drop_unreturned(sums);
            }
            return false;
        }
        self.close(sums, at);
        self.frame = 0;
        true
    }

    /// Adds the open call, which is over now, to the sums.
    #[inline(always)]
    fn close(&mut self, sums: &mut Driver, at: Instant) {
        self.settle(sums, at);
        let ns = at.now_ns.wrapping_sub(self.entered_ns);
        if self.does == Does::Wait as u32 {
            sums.waited_ns = sums.waited_ns.wrapping_add(ns);
        } else {
            sums.copied_ns = sums.copied_ns.wrapping_add(ns);
            if ns >= BLOCKS_NS {
                sums.copies_blocking = sums.copies_blocking.wrapping_add(1);
            }
        }
    }
}

impl Driver {
    /// Counts a call that begins.
    #[inline(always)]
    fn count(&mut self, does: Does, bytes: u64) {
        let bytes = if bytes > MOST_BYTES { MOST_BYTES } else { bytes };
        match does {
            Does::Wait => {
                self.waits = self.waits.wrapping_add(1);
                return;
            }
            Does::CopyIn => self.to_device_bytes = self.to_device_bytes.wrapping_add(bytes),
            Does::CopyOut => self.from_device_bytes = self.from_device_bytes.wrapping_add(bytes),
            Does::Copy => {}
        }
        self.copies = self.copies.wrapping_add(1);
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
