//! One probe in one file, by perf_event_open: its place, and the program that runs there.
//!
//! It is removed with its descriptor, which takes the kernel 0.1 s: [`take_out`] removes many at once.

use std::{
    ffi::CString,
    io,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    thread,
};

/// Threads that remove probes at the end: they wait in parallel.
const TAKERS: usize = 16;
/// From linux/perf_event.h: `PERF_EVENT_IOC_ENABLE`, `PERF_EVENT_IOC_SET_BPF`, `PERF_FLAG_FD_CLOEXEC`.
const ENABLE: libc::Ioctl = 0x2400;
const SET_PROGRAM: libc::Ioctl = 0x4004_2408;
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// From linux/bpf.h: `BPF_LINK_CREATE`, `BPF_PERF_EVENT`.
const LINK_CREATE: libc::c_int = 28;
const PERF_EVENT: u32 = 41;

/// `struct perf_event_attr` as of Linux 2.6.33 (`PERF_ATTR_SIZE_VER1`), which has all that a probe needs.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    /// Address of the path.
    path: u64,
    /// Offset in the file.
    offset: u64,
}

/// Place of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// Offset in the file.
    pub offset: u64,
    /// Offset in the file of the counter (semaphore) that switches a USDT probe on; 0 for none.
    pub semaphore: u32,
    /// Event that a probe in Go's scheduler reports (`GO_SCHEDULE` and others); 0 for none.
    pub event: u64,
    /// Whether the probe is at the return of the function that begins at the offset.
    pub is_return: bool,
}

/// The kernel's type number of uprobes.
///
/// # Errors
/// It has no such probes.
pub(super) fn kind() -> io::Result<u32> {
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    kind.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Puts a probe into a file. The program that runs there can read `cookie`, if given.
///
/// # Errors
/// The kernel's error.
pub(super) fn open(
    kind: u32,
    path: &str,
    spot: Spot,
    program: BorrowedFd<'_>,
    cookie: Option<u64>,
) -> io::Result<OwnedFd> {
    let path = CString::new(path)?;
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config: u64::from(spot.semaphore) << 32 | u64::from(spot.is_return),
        path: path.as_ptr() as u64,
        offset: spot.offset,
        ..Attributes::default()
    };
    let (all_processes, first_cpu, no_group) = (-1, 0, -1);
    // SAFETY: the attributes and the path that they point to live across the call.
    let event = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            all_processes,
            first_cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor, which has no other owner.
    let event = unsafe { OwnedFd::from_raw_fd(event as i32) };
    if let Some(cookie) = cookie {
        return link(&event, program, cookie);
    }
    for (command, value) in [(SET_PROGRAM, program.as_raw_fd()), (ENABLE, 0)] {
        // SAFETY: no pointers are passed.
        if unsafe { libc::ioctl(event.as_raw_fd(), command, value) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(event)
}

/// Attaches the program by a link, which holds the event.
fn link(event: &OwnedFd, program: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    /// The beginning of `union bpf_attr`.
    #[repr(C)]
    struct Link {
        program: i32,
        event: i32,
        kind: u32,
        flags: u32,
        cookie: u64,
    }
    let attributes =
        Link { program: program.as_raw_fd(), event: event.as_raw_fd(), kind: PERF_EVENT, flags: 0, cookie };
    // SAFETY: the attributes live across the call.
    let link = unsafe { libc::syscall(libc::SYS_bpf, LINK_CREATE, &raw const attributes, size_of::<Link>()) };
    if link < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(link as i32) })
}

/// Removes probes.
pub(super) fn take_out(mut probes: Vec<OwnedFd>) {
    let each = probes.len().div_ceil(TAKERS).max(1);
    thread::scope(|scope| {
        while !probes.is_empty() {
            let some = probes.split_off(probes.len().saturating_sub(each));
            // If no thread can be started they are removed here.
            let _ = thread::Builder::new().spawn_scoped(scope, || drop(some));
        }
    });
}
