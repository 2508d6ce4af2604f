//! Names of system calls.
//!
//! Numbers are of this program's own architecture; the caller checks that the folder has the same one.

use guestscope_contract::{CALLS, CALLS_32};
use syscalls::Sysno;

use crate::record::calls_32;

/// The name of a system call.
pub fn name(number: u32) -> Option<&'static str> {
    if number >= u32::from(CALLS_32) {
        return calls_32::name(number);
    }
    Sysno::new(number as usize).map(|call| call.name())
}

/// The name, or the number where none is known.
pub(in crate::terminal) fn name_or_number(number: u32) -> String {
    name(number).map_or_else(|| numbered(number), str::to_owned)
}

/// Text for a number without a known name.
pub(super) fn numbered(number: u32) -> String {
    match number.checked_sub(CALLS_32.into()) {
        Some(number_32) if number < CALLS as u32 => format!("32-bit system call {number_32}"),
        _ => format!("system call {number}"),
    }
}

#[cfg(test)]
mod tests {
    use guestscope_contract::Account;

    use super::*;
    use crate::facts::syscalls::account_of;

    #[test]
    fn what_has_an_account_of_its_own_has_a_name() {
        let accounts = (0_u32..).zip(account_of());
        let nameless =
            accounts.filter(|(number, account)| *account != Account::Other as u8 && name(*number).is_none());
        assert_eq!(nameless.count(), 0);
    }

    #[test]
    fn calls_that_nobody_waits_in_have_names() {
        assert_eq!(name(u32::try_from(libc::SYS_clock_gettime).unwrap()), Some("clock_gettime"));
        assert_eq!([name(9_999), name(u32::from(CALLS_32) - 1)], [None, None]);
    }

    /// Holds on both architectures.
    #[test]
    fn a_32_bit_call_is_told_from_the_64_bit_one_of_its_number() {
        let of_32 = |number: u32| u32::from(CALLS_32) + number;
        assert_eq!(name(of_32(162)), Some("nanosleep (32-bit)"));
        assert_eq!(name(of_32(422)), Some("futex_time64 (32-bit)"));
        assert_eq!(name(of_32(117)), None);
        assert_eq!([117, of_32(117)].map(numbered), ["system call 117", "32-bit system call 117"]);
    }
}
