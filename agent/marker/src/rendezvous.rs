//! The library's greeting to the agent: "a marker is in this process", sent over the unix stream socket that
//! GUESTSCOPE_NOTIFY names, as the library is loaded and before its first edge. Yields nothing: it returns
//! after the answer, an end of file, a failure or 2 s, whichever comes first. By then the agent has attached
//! its probe, or it misses edges (and their numbers show how many). An agent without BPF answers with the
//! descriptor of a ring. It deliberately reports no failure: a program must not notice that no agent is
//! there.

use core::ffi::{CStr, c_char};

use crate::{reading, ring, syscall};

/// Longest time of the whole meeting.
const LIMIT_NS: u64 = 2_000_000_000;
const GREETING: &[u8] = b"marker 1\n";
const VARIABLE: &CStr = c"GUESTSCOPE_NOTIFY";

const AF_UNIX: usize = 1;
const STREAM_CLOSE_ON_EXEC: usize = 1 | 0o2_000_000;
const SOL_SOCKET: usize = 1;
const SO_RCVTIMEO: usize = 20;
const SO_SNDTIMEO: usize = 21;
const MSG_NOSIGNAL: usize = 0x4000;
/// MSG_CMSG_CLOEXEC.
const CLOSE_ON_EXEC: usize = 0x4000_0000;
const SCM_RIGHTS: i32 = 1;
const INTERRUPTED: isize = -4;

/// `struct sockaddr_un`: 108 bytes of path, the last of them zero.
#[repr(C)]
struct Address {
    family: u16,
    path: [u8; 108],
}

/// `struct iovec`.
#[repr(C)]
struct Part {
    base: usize,
    length: usize,
}

/// `struct cmsghdr` with one descriptor behind it, and padding.
#[repr(C)]
#[derive(Default)]
struct Rights {
    length: usize,
    level: i32,
    kind: i32,
    descriptor: i32,
    padding: i32,
}

/// `struct msghdr`. The lengths that are `int` for some C libraries are whole words for the kernel.
#[repr(C)]
struct Message {
    name: usize,
    name_length: usize,
    parts: usize,
    part_count: usize,
    control: usize,
    control_length: usize,
    flags: usize,
}

unsafe extern "C" {
    // Every program that this library can be loaded into or linked with has libc's environment. std's own
    // accessor allocates and takes a lock, which a forked child of a program with threads may find taken for
    // ever.
    fn getenv(name: *const c_char) -> *const c_char;
}

/// Path of the agent's socket, from the current environment.
pub(crate) fn place() -> Option<&'static CStr> {
    // SAFETY: the name is a C string; the result is null or a C string.
    let path = unsafe { getenv(VARIABLE.as_ptr()) };
    // SAFETY: not null, so a C string, which callers copy at once.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })
}

/// Sends the greeting and waits for the answer.
pub(crate) fn meet(path: &CStr) {
    let Some(address) = address(path.to_bytes()) else { return };
    // SAFETY: socket takes three integers.
    let socket = unsafe { syscall::call(syscall::SOCKET, [AF_UNIX, STREAM_CLOSE_ON_EXEC, 0, 0, 0, 0]) };
    if socket < 0 {
        return;
    }
    let socket = socket as usize;
    talk(socket, &address, syscall::monotonic_ns() + LIMIT_NS);
    // SAFETY: the descriptor was opened above and is used nowhere else.
    unsafe { syscall::call(syscall::CLOSE, [socket, 0, 0, 0, 0, 0]) };
}

fn address(path: &[u8]) -> Option<Address> {
    let mut address = Address { family: AF_UNIX as u16, path: [0; 108] };
    if path.is_empty() || path.len() >= address.path.len() {
        return None;
    }
    for (to, from) in address.path.iter_mut().zip(path) {
        *to = *from;
    }
    Some(address)
}

/// Connects, sends, reads one byte and the descriptor that may come with it; each step within the remaining
/// time.
fn talk(socket: usize, address: &Address, deadline_ns: u64) {
    let mut answer = 0_u8;
    let mut rights = Rights::default();
    let part = Part { base: (&raw mut answer) as usize, length: 1 };
    let mut message = Message {
        name: 0,
        name_length: 0,
        parts: (&raw const part) as usize,
        part_count: 1,
        control: (&raw mut rights) as usize,
        control_length: size_of::<Rights>(),
        flags: 0,
    };
    let connect = [socket, (&raw const *address) as usize, size_of::<Address>(), 0, 0, 0];
    let send = [socket, GREETING.as_ptr() as usize, GREETING.len(), MSG_NOSIGNAL, 0, 0];
    let receive = [socket, (&raw mut message) as usize, CLOSE_ON_EXEC, 0, 0, 0];
    let is_answered = step(SO_SNDTIMEO, syscall::CONNECT, connect, deadline_ns)
        && step(SO_SNDTIMEO, syscall::SENDTO, send, deadline_ns)
        && step(SO_RCVTIMEO, syscall::RECVMSG, receive, deadline_ns);
    // The kernel has written behind the compiler's back.
    // SAFETY: a local, whole at any time.
    let rights = unsafe { (&raw const rights).read_volatile() };
    let is_one = rights.length == size_of::<usize>() + 3 * size_of::<i32>();
    if is_answered && is_one && rights.level == SOL_SOCKET as i32 && rights.kind == SCM_RIGHTS {
        ring::adopt(rights.descriptor as usize, reading::image);
    }
}

/// One system call on the socket with the rest of the time as its timeout, again where a signal interrupts
/// it. False: failed or out of time. `arguments` must be right for `number`; the socket comes first among
/// them.
fn step(timeout_option: usize, number: usize, arguments: [usize; 6], deadline_ns: u64) -> bool {
    loop {
        let left_ns = deadline_ns.saturating_sub(syscall::monotonic_ns());
        if left_ns < 1_000 {
            return false; // Below a microsecond the option would be zero, which means for ever.
        }
        let left = [(left_ns / 1_000_000_000) as i64, (left_ns % 1_000_000_000 / 1_000) as i64];
        let option = (&raw const left) as usize;
        let set = [arguments[0], SOL_SOCKET, timeout_option, option, size_of_val(&left), 0];
        // SAFETY: the kernel reads two 64-bit words, which `left` holds.
        if unsafe { syscall::call(syscall::SETSOCKOPT, set) } < 0 {
            return false;
        }
        // SAFETY: `talk`, the only caller, passes pointers to locals that outlive the call, with their sizes.
        match unsafe { syscall::call(number, arguments) } {
            INTERRUPTED => {}
            result => return result >= 0,
        }
    }
}
