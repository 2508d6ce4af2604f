//! A thread's waker, and the waker's system call, in one word of the ledger.
//!
//! An interrupt also wakes threads, and then the interrupted task appears as the waker: usually outside any
//! system call, or in one that wakes no thread.
#![expect(
    clippy::inline_always,
    reason = "a call costs a BPF program more than the body, and some kernels' verifiers refuse it"
)]

use crate::{CALLS, NO_SYSCALL, TIDS};

/// Bits of a thread's number. Above them is the system call's name, from 1.
const TID_BITS: u32 = TIDS.trailing_zeros();
const TID_MASK: u32 = TIDS - 1;
/// The largest name of a system call that fits.
const MOST_SYSCALL: i32 = (1 << (u32::BITS - TID_BITS)) - 2;

const _: () = assert!(TIDS.is_power_of_two() && MOST_SYSCALL >= CALLS as i32 - 2);

/// Packs a thread's number and its system call's name, which is negative outside any; 0 for the idle task.
#[inline(always)]
pub const fn pack(tid: u32, syscall: i32) -> u32 {
    if tid == 0 || syscall < 0 || syscall > MOST_SYSCALL {
        return tid & TID_MASK;
    }
    (tid & TID_MASK) | (syscall as u32 + 1) << TID_BITS
}

/// Stands for a system call where none can be seen. No call has this number.
pub const UNSEEN: u16 = MOST_SYSCALL as u16;

/// The thread's number; 0 for the idle task, or where none was seen.
#[inline(always)]
pub const fn tid(word: u32) -> u32 {
    word & TID_MASK
}

/// The waker's system call; [`NO_SYSCALL`] if it was in none.
#[inline(always)]
pub const fn syscall(word: u32) -> u16 {
    match word >> TID_BITS {
        0 => NO_SYSCALL,
        number => number as u16 - 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{MOST_SYSCALL, pack, syscall, tid};
    use crate::{NO_SYSCALL, TIDS};

    proptest! {
        #[test]
        fn both_come_back(number in 1..TIDS, call in 0..=MOST_SYSCALL) {
            let word = pack(number, call);
            prop_assert_eq!((tid(word), i32::from(syscall(word))), (number, call));
        }

        #[test]
        fn what_is_no_system_call_is_none(
            number in 1..TIDS,
            call in prop_oneof![i32::MIN..0, MOST_SYSCALL + 1..=i32::MAX],
        ) {
            let word = pack(number, call);
            prop_assert_eq!((tid(word), syscall(word)), (number, NO_SYSCALL));
        }
    }

    #[test]
    fn the_idle_task_is_nobody() {
        assert_eq!(pack(0, 1), 0);
    }
}
