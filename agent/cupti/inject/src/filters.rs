//! Whether the program has restricted its own system calls (seccomp) since the agent started it: it may be
//! killed for a socket then.

use core::ffi::{CStr, c_int};

use super::system;

/// Variable with the number of filters on the agent's child, such as a container's.
const ALLOWED: &CStr = c"GUESTSCOPE_FILTERS";
/// O_CLOEXEC.
const CLOSE_ON_EXEC: c_int = 0o2_000_000;

/// Whether there are more filters on this thread than on the program when it was started, as far as the
/// kernel counts them (from 5.9 on).
pub(crate) fn are_new() -> bool {
    let allowed = system::variable(ALLOWED).map_or(0, |text| number(text.to_bytes()));
    let mut text = [0_u8; 4096];
    // SAFETY: a C string, and room of the size that is told; the descriptor is closed and used nowhere else.
    let bytes = unsafe {
        let file = system::open(c"/proc/thread-self/status".as_ptr(), CLOSE_ON_EXEC);
        if file < 0 {
            return false;
        }
        let bytes = system::read(file, text.as_mut_ptr().cast(), text.len());
        system::close(file);
        bytes
    };
    let text = text.get(..usize::try_from(bytes).unwrap_or(0)).unwrap_or_default();
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Seccomp_filters:\t"));
    line.is_some_and(|count| number(count) > allowed)
}

fn number(digits: &[u8]) -> u64 {
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0_u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}
