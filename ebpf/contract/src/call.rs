//! How ledgers and records name a system call: by its number and the table of that number.
//!
//! A task of a 64-bit kernel may make 32-bit calls, with numbers of their own (162 is `sync` for 64-bit
//! programs of x86-64, and `nanosleep` for 32-bit ones). A name is below 1024, to fit beside a thread's
//! number (see `waker`).
#![expect(
    clippy::inline_always,
    reason = "a call costs a BPF program more than the body, and some kernels' verifiers refuse it"
)]

/// Size of each of the two tables: existing kernels have up to 470 calls.
pub const SYSCALLS: usize = 512;
/// Size of both tables: the 64-bit one, and behind it the 32-bit one.
pub const CALLS: usize = 2 * SYSCALLS;
/// The name of the 32-bit call 0.
pub const CALLS_32: u16 = SYSCALLS as u16;
/// A call whose number is in neither table. No thread waits in one: the kernel refuses it.
pub const UNKNOWN_CALL: u16 = CALLS as u16 - 1;
/// The name outside any syscall.
pub const NO_SYSCALL: u16 = 0xffff;
/// Flag in a ledger, beside the syscall that a thread had blocked in before it was kept from running outside
/// any.
const KEPT_SINCE: u16 = 0x8000;
/// Flag in a number of x86-64: a call of the x32 ABI. Below 512 its numbers are those of the 64-bit table.
const X32: u32 = 1 << 30;

/// The name of the call with this number.
#[inline(always)]
#[must_use]
pub const fn name(number: u32, is_32_bit: bool) -> u16 {
    let number = number & !X32;
    if number >= SYSCALLS as u32 {
        return UNKNOWN_CALL;
    }
    if is_32_bit { number as u16 + CALLS_32 } else { number as u16 }
}

/// A ledger's value for a thread that is kept from running outside any syscall, and had blocked in `before`.
#[must_use]
pub const fn kept_since(before: u16) -> u16 {
    before | KEPT_SINCE
}

/// The syscall that a thread last blocked in, whatever kept it from running since.
#[must_use]
pub const fn last_blocked_in(held: u16) -> u16 {
    if held == NO_SYSCALL { held } else { held & !KEPT_SINCE }
}

/// The syscall that a thread waits in, from its ledger's value: none for an earlier one's, or without a name.
#[must_use]
pub const fn waits_in(held: u16) -> u16 {
    if held & KEPT_SINCE == 0 && held != UNKNOWN_CALL { held } else { NO_SYSCALL }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_has_a_name_by_its_table() {
        let cases = [
            (162, false, 162),
            (162, true, 674),
            (X32 + 35, false, 35),
            // Calls that only x32 has.
            (X32 + 519, false, UNKNOWN_CALL),
            (512, false, UNKNOWN_CALL),
            (512, true, UNKNOWN_CALL),
        ];
        for (number, is_32_bit, named) in cases {
            assert_eq!(name(number, is_32_bit), named, "{number}, {is_32_bit}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_an_index_of_the_table(number in any::<u32>(), is_32_bit in any::<bool>()) {
            let name = name(number, is_32_bit);
            prop_assert!(usize::from(name) < CALLS);
            prop_assert_eq!(last_blocked_in(kept_since(name)), name);
            prop_assert_eq!(waits_in(kept_since(name)), NO_SYSCALL);
        }
    }
}
