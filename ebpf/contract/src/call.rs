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
/// Bits of a name in a ledger; those above it are flags.
const NAME: u16 = CALLS as u16 - 1;
/// Flag in a ledger, beside the syscall that a thread had blocked in before it was kept from running outside
/// any.
const KEPT_SINCE: u16 = 0x8000;
/// Flags in a ledger: a stop signal, a debugger or the freezer keeps the thread from running.
pub const BY_SIGNAL: u16 = 0x1000;
/// See [`BY_SIGNAL`].
pub const BY_TRACER: u16 = 0x2000;
/// See [`BY_SIGNAL`].
pub const BY_FREEZER: u16 = 0x4000;
/// Distance between these flags and those of a wait's record.
const KEPT_AT: u32 = 9;
/// Flag of a wait: a stop signal kept the thread from running.
pub const WAIT_STOPPED: u32 = (BY_SIGNAL >> KEPT_AT) as u32;
/// Flag of a wait: a debugger or tracer did.
pub const WAIT_TRACED: u32 = (BY_TRACER >> KEPT_AT) as u32;
/// Flag of a wait: the freezer of control groups did.
pub const WAIT_FROZEN: u32 = (BY_FREEZER >> KEPT_AT) as u32;
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

/// A ledger's value for a thread that one of the flags keeps from running: outside any syscall (`call` is
/// negative), where it had blocked in `before`, or on its way back from `call`.
#[inline(always)]
#[must_use]
pub const fn kept(call: i32, before: u16, by: u16) -> u16 {
    if call < 0 { before & NAME | KEPT_SINCE | by } else { call as u16 | by }
}

/// The syscall that a thread last blocked in, whatever kept it from running since.
#[must_use]
pub const fn last_blocked_in(held: u16) -> u16 {
    if held == NO_SYSCALL { held } else { held & NAME }
}

/// The syscall that a thread waits in, from its ledger's value: none for one that it is kept from running
/// after, or without a name.
#[must_use]
pub const fn waits_in(held: u16) -> u16 {
    if held < UNKNOWN_CALL { held } else { NO_SYSCALL }
}

/// What keeps a thread from running, from its ledger's value, as a flag of a wait: [`WAIT_STOPPED`],
/// [`WAIT_TRACED`], [`WAIT_FROZEN`], or none.
#[inline(always)]
#[must_use]
pub const fn kept_by(held: u16) -> u32 {
    if held == NO_SYSCALL { 0 } else { (held & (BY_SIGNAL | BY_TRACER | BY_FREEZER)) as u32 >> KEPT_AT }
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
            for (by, flag) in
                [(BY_SIGNAL, WAIT_STOPPED), (BY_TRACER, WAIT_TRACED), (BY_FREEZER, WAIT_FROZEN)]
            {
                for held in [kept(-1, name, by), kept(i32::from(name), NO_SYSCALL, by)] {
                    prop_assert_eq!((last_blocked_in(held), waits_in(held)), (name, NO_SYSCALL));
                    prop_assert_eq!(kept_by(held), flag);
                }
                prop_assert_eq!(waits_in(kept(-1, NO_SYSCALL, by)), NO_SYSCALL);
                prop_assert_eq!(kept_by(kept(-1, NO_SYSCALL, by)), flag);
            }
            prop_assert_eq!((kept_by(name), kept_by(NO_SYSCALL)), (0, 0));
            prop_assert_eq!(last_blocked_in(NO_SYSCALL), NO_SYSCALL);
        }
    }
}
