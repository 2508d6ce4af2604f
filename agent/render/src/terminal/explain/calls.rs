//! The system calls that waits were in, in words.

use crate::analyze::explain::InCall;

use super::{facts::ExplainFacts, syscalls};

/// Calls below 1 / `NAMED` of the waits are not named.
const NAMED: u64 = 10;
/// Most calls named.
const CALLS: usize = 2;

/// Calls whose first argument is a file descriptor.
const OF_DESCRIPTORS: [&str; 28] = [
    "accept",
    "accept4",
    "connect",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "fallocate",
    "fcntl",
    "fdatasync",
    "flock",
    "fsync",
    "ftruncate",
    "ioctl",
    "pread64",
    "preadv",
    "pwrite64",
    "pwritev",
    "read",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "sync_file_range",
    "write",
    "writev",
];

/// The name of a system call, or its number.
pub(super) fn name(number: u32, facts: &ExplainFacts) -> String {
    if facts.same_syscalls { syscalls::name_or_number(number) } else { syscalls::numbered(number) }
}

/// `in munmap`, `in read of descriptor 5 and futex`.
pub(super) fn text(calls: &[InCall], facts: &ExplainFacts) -> String {
    let all_ns: u64 = calls.iter().map(|call| call.ns).sum();
    let named = calls.iter().filter(|call| call.ns >= all_ns / NAMED).take(CALLS);
    let texts: Vec<String> = named.map(|call| of_call(call, facts)).collect();
    if texts.is_empty() { String::new() } else { format!("in {}", texts.join(" and ")) }
}

fn of_call(call: &InCall, facts: &ExplainFacts) -> String {
    let name = name(call.syscall, facts);
    match call.argument {
        Some(number) if OF_DESCRIPTORS.contains(&name.as_str()) => format!("{name} of descriptor {number}"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::facts, *};

    fn said(calls: &[(libc::c_long, Option<u64>, u64)]) -> String {
        let of = |&(syscall, argument, ns): &(libc::c_long, Option<u64>, u64)| InCall {
            syscall: u32::try_from(syscall).expect("a number"),
            argument,
            ns,
        };
        text(&calls.iter().map(of).collect::<Vec<_>>(), &facts())
    }

    #[test]
    fn calls_are_named_and_their_descriptors() {
        assert_eq!(said(&[]), "");
        assert_eq!(said(&[(libc::SYS_munmap, Some(4_096), 9)]), "in munmap");
        assert_eq!(said(&[(libc::SYS_flock, Some(5), 9)]), "in flock of descriptor 5");
        let several =
            [(libc::SYS_read, None, 90), (libc::SYS_futex, Some(1), 20), (libc::SYS_mmap, Some(1), 3)];
        assert_eq!(said(&several), "in read and futex");
    }
}
