//! Which argument of a system call limits the time of its wait: entries of a table that the agent fills.
#![expect(
    clippy::inline_always,
    reason = "a call costs a BPF program more than the body, and some kernels' verifiers refuse it"
)]

/// The call has no time limit.
pub const NONE: u8 = 0;
/// Beside an argument's number: a number of milliseconds, negative for no limit. Otherwise a pointer to the
/// time, null for no limit.
pub const MILLISECONDS: u8 = 0x10;
/// The first argument that may be one; there are three of them.
pub const FIRST: u8 = 3;

/// The argument that limits a call with this entry; its arguments from [`FIRST`] on.
#[inline(always)]
#[must_use]
pub const fn argument(entry: u8, arguments: [u64; 3]) -> u64 {
    match entry & !MILLISECONDS {
        3 => arguments[0],
        4 => arguments[1],
        5 => arguments[2],
        _ => 0,
    }
}

/// Whether that argument limits the wait.
#[inline(always)]
#[must_use]
pub const fn is_set(entry: u8, argument: u64) -> bool {
    if entry & MILLISECONDS != 0 { (argument as u32).cast_signed() > 0 } else { argument != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_or_a_number_limits_a_wait() {
        let cases = [
            ("no limit", NONE, [1, 1, 1], false),
            ("a time", 4, [0, 0x7ffe, 0], true),
            ("no time", 4, [1, 0, 1], false),
            ("milliseconds", 3 | MILLISECONDS, [200, 0, 0], true),
            ("for ever", 3 | MILLISECONDS, [0xffff_ffff, 0, 0], false),
            ("for ever, in a whole register", 3 | MILLISECONDS, [u64::MAX, 0, 0], false),
            ("not at all", 4 | MILLISECONDS, [0, 0, 0], false),
            ("no such argument", 9, [1, 1, 1], false),
        ];
        for (what, entry, arguments, expected) in cases {
            assert_eq!(is_set(entry, argument(entry, arguments)), expected, "{what}");
        }
    }
}
