//! Work done as the library is loaded, so that a mark makes no system call: by then the program may have
//! restricted its system calls (seccomp), and be killed at the first forbidden one. Prepares the process
//! before its own code runs. Where it cannot see the environment, it deliberately leaves all of this to the
//! first call.

use core::{
    ffi::{CStr, c_char, c_int},
    ptr,
};

use crate::{process, syscall};

/// Variable with the path of the agent's socket.
const NOTIFY: &[u8] = b"GUESTSCOPE_NOTIFY";
/// Variable with the number of filters on the agent's child, such as a container's.
const FILTERS: &[u8] = b"GUESTSCOPE_FILTERS";

/// Called by the loader, or by the C library at the start of a program that is linked statically.
// Miri calls it without arguments.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn(c_int, Strings, Strings) = at_load;

/// Pointers to C strings, the last one null.
type Strings = *const *const c_char;

unsafe extern "C" {
    // As glibc and musl export it. Reading a pointer, where std's accessor takes a lock and allocates.
    static environ: Strings;
}

extern "C" fn at_load(count: c_int, arguments: Strings, environment: Strings) {
    // SAFETY: a pointer that C libraries define, and that does not change while a library is being loaded.
    let known = unsafe { ptr::read_volatile(&raw const environ) };
    let environment = if !known.is_null() {
        known
    } else if follows(count, arguments, environment) {
        // glibc passes it, and has not initialized itself where this library comes first.
        environment
    } else {
        return;
    };
    // SAFETY: the environment of the process.
    let (path, allowed) = unsafe { (variable(environment, NOTIFY), variable(environment, FILTERS)) };
    let is_filtered = path.is_some() && allowed.is_some_and(|allowed| filters() > number(allowed.to_bytes()));
    if is_filtered {
        process::do_without();
    } else {
        process::load(path);
    }
}

/// Repeats the work done at load, with the current environment: for tests, in a child that they have forked.
#[doc(hidden)]
pub fn again() {
    process::forget();
    at_load(0, ptr::null(), ptr::null());
}

/// Whether these are glibc's arguments: musl passes none, and registers hold anything.
fn follows(count: c_int, arguments: Strings, environment: Strings) -> bool {
    let Ok(count) = usize::try_from(count) else { return false };
    !arguments.is_null() && arguments.wrapping_add(count).wrapping_add(1) == environment
}

/// The value of a variable.
///
/// # Safety
/// The environment must be valid, and not change while the value is used.
unsafe fn variable<'a>(environment: Strings, name: &[u8]) -> Option<&'a CStr> {
    let mut entry = environment;
    loop {
        // SAFETY: the last pointer is null, and this one is not behind it.
        let text = unsafe { *entry };
        if text.is_null() {
            return None;
        }
        // SAFETY: a C string.
        let text = unsafe { CStr::from_ptr(text) };
        let value = text.to_bytes().strip_prefix(name).filter(|rest| rest.first() == Some(&b'='));
        if value.is_some() {
            // SAFETY: the value is a part of the same string and ends where it does.
            return Some(unsafe { CStr::from_ptr(text.as_ptr().add(name.len() + 1)) });
        }
        entry = entry.wrapping_add(1);
    }
}

/// Number of filters on this thread: the highest possible number if the kernel does not report it. It makes
/// only system calls that the loader has just made as well.
fn filters() -> u64 {
    let (mut mode, mut count) = (Line::new(b"\nSeccomp:\t"), Line::new(b"\nSeccomp_filters:\t"));
    let whole = syscall::each_byte(c"/proc/thread-self/status", |byte| {
        mode.take(byte);
        count.take(byte);
    });
    match (whole, mode.value, count.value) {
        // No such line: a kernel without filters.
        (true, None | Some(0), _) => 0,
        // Before 5.9 they are not counted.
        (true, Some(_), count) => count.unwrap_or(1),
        (false, ..) => u64::MAX,
    }
}

/// Finds a line of a file, byte by byte, and the number in it.
struct Line {
    begin: &'static [u8],
    matched: usize,
    value: Option<u64>,
}

impl Line {
    const fn new(begin: &'static [u8]) -> Self {
        Self { begin, matched: 0, value: None }
    }

    fn take(&mut self, byte: u8) {
        match self.begin.get(self.matched) {
            Some(next) if *next == byte => self.matched += 1,
            None if byte.is_ascii_digit() => {
                let value = self.value.unwrap_or(0);
                self.value = Some(value.saturating_mul(10).saturating_add(u64::from(byte - b'0')));
            }
            // The first character of a line occurs nowhere else in it.
            _ => self.matched = usize::from(byte == b'\n'),
        }
    }
}

fn number(digits: &[u8]) -> u64 {
    let mut line = Line::new(b"");
    for byte in digits {
        line.take(*byte);
    }
    line.value.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(begin: &'static [u8], text: &str) -> Option<u64> {
        let mut line = Line::new(begin);
        text.bytes().for_each(|byte| line.take(byte));
        line.value
    }

    #[test]
    fn a_line_is_found_by_its_whole_begin() {
        let status = "Name:\tSeccomp:\t9\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t13\nSpec:\t7\n";
        assert_eq!(found(b"\nSeccomp:\t", status), Some(2));
        assert_eq!(found(b"\nSeccomp_filters:\t", status), Some(13));
        assert_eq!(found(b"\nSeccomp:\t", "Name:\tx\nSeccomp_filters:\t1\n"), None);
        assert_eq!((number(b"12"), number(b""), number(b"x")), (12, 0, 0));
    }

    #[test]
    fn what_glibc_passes_is_told_from_what_registers_hold() {
        let words = [ptr::null::<c_char>(); 4];
        let begin = words.as_ptr();
        assert!(follows(2, begin, begin.wrapping_add(3)));
        assert!(!follows(1, begin, begin.wrapping_add(3)));
        assert!(!follows(-1, begin, begin));
        assert!(!follows(0, ptr::null(), begin));
    }

    #[test]
    fn this_thread_is_under_as_many_filters_as_its_status_says() {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("/proc is mounted");
        let line = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:\t"));
        let Some(count) = line else { return };
        assert_eq!(filters(), count.trim().parse().expect("a number"));
    }
}
