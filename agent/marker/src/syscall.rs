//! The two dozen system calls that the library needs, made directly. Yields results as the kernel gives them:
//! negative numbers are errors. Without libc the caller's errno stays untouched by construction, and the
//! shared library needs no libc version. It deliberately does not retry, and leaves all policy to its
//! callers.

use core::{ffi::CStr, ptr, sync::atomic::AtomicU32};

#[cfg(target_arch = "x86_64")]
mod number {
    pub(crate) const READ: usize = 0;
    pub(crate) const CLOSE: usize = 3;
    pub(crate) const LSEEK: usize = 8;
    pub(crate) const MMAP: usize = 9;
    pub(crate) const MUNMAP: usize = 11;
    pub(crate) const MADVISE: usize = 28;
    pub(crate) const GETPID: usize = 39;
    pub(crate) const SOCKET: usize = 41;
    pub(crate) const CONNECT: usize = 42;
    pub(crate) const SENDTO: usize = 44;
    pub(crate) const RECVMSG: usize = 47;
    pub(crate) const SETSOCKOPT: usize = 54;
    pub(crate) const FCNTL: usize = 72;
    pub(crate) const GETRUSAGE: usize = 98;
    pub(crate) const GETTID: usize = 186;
    pub(crate) const FUTEX: usize = 202;
    pub(crate) const CLOCK_GETTIME: usize = 228;
    pub(crate) const OPENAT: usize = 257;
    pub(crate) const GETRANDOM: usize = 318;
}

#[cfg(not(target_arch = "x86_64"))]
mod number {
    pub(crate) const FCNTL: usize = 25;
    pub(crate) const OPENAT: usize = 56;
    pub(crate) const CLOSE: usize = 57;
    pub(crate) const LSEEK: usize = 62;
    pub(crate) const READ: usize = 63;
    pub(crate) const MMAP: usize = 222;
    pub(crate) const MUNMAP: usize = 215;
    pub(crate) const MADVISE: usize = 233;
    pub(crate) const FUTEX: usize = 98;
    pub(crate) const GETPID: usize = 172;
    pub(crate) const SOCKET: usize = 198;
    pub(crate) const CONNECT: usize = 203;
    pub(crate) const SENDTO: usize = 206;
    pub(crate) const RECVMSG: usize = 212;
    pub(crate) const SETSOCKOPT: usize = 208;
    pub(crate) const GETRUSAGE: usize = 165;
    pub(crate) const GETTID: usize = 178;
    pub(crate) const CLOCK_GETTIME: usize = 113;
    pub(crate) const GETRANDOM: usize = 278;
}

pub(crate) use number::*;

/// One system call.
///
/// # Safety
/// As for the system call itself: pointers among the arguments must be valid for what the kernel does with
/// them.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let [a0, a1, a2, a3, a4, a5] = arguments;
    let result: isize;
    // SAFETY: the registers are those of the x86-64 system call convention, which overwrites rcx and r11
    // only.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a0, in("rsi") a1, in("rdx") a2, in("r10") a3, in("r8") a4, in("r9") a5,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// One system call.
///
/// # Safety
/// As for the system call itself: pointers among the arguments must be valid for what the kernel does with
/// them.
#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
pub(crate) unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let [a0, a1, a2, a3, a4, a5] = arguments;
    let result: isize;
    // SAFETY: the registers are those of the aarch64 system call convention, which keeps all but x0.
    unsafe {
        core::arch::asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") a0 as isize => result,
            in("x1") a1, in("x2") a2, in("x3") a3, in("x4") a4, in("x5") a5,
            options(nostack),
        );
    }
    result
}

/// No system call: elsewhere the library compiles, fires nothing, and every caller takes its error path.
///
/// # Safety
/// Always safe; the signature is that of the real function.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) unsafe fn call(_number: usize, _arguments: [usize; 6]) -> isize {
    -38
}

/// `CLOCK_MONOTONIC` in ns; 0 where it cannot be read.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(1)
}

/// `CLOCK_THREAD_CPUTIME_ID` in ns: exact, up to this instant.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock_ns(3)
}

fn clock_ns(clock: usize) -> u64 {
    let mut time = [0_i64; 2];
    // SAFETY: the kernel writes two 64-bit words, seconds and nanoseconds, which `time` holds.
    unsafe { call(CLOCK_GETTIME, [clock, (&raw mut time) as usize, 0, 0, 0, 0]) };
    let [seconds, nanoseconds] = time;
    seconds as u64 * 1_000_000_000 + nanoseconds as u64
}

/// The number of this process in its own namespace.
pub(crate) fn process_number() -> u32 {
    // SAFETY: getpid takes no argument and cannot fail.
    unsafe { call(GETPID, [0; 6]) as u32 }
}

/// The number of this thread in its own namespace.
pub(crate) fn thread_number() -> u32 {
    // SAFETY: gettid takes no argument and cannot fail.
    unsafe { call(GETTID, [0; 6]) as u32 }
}

/// Reads the beginning of a small file; returns the number of bytes.
pub(crate) fn read_file(path: &CStr, bytes: &mut [u8]) -> Option<usize> {
    let file = open(path)?;
    // SAFETY: the kernel writes at most as many bytes as there are.
    let read = unsafe { call(READ, [file, bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0]) };
    // SAFETY: the descriptor was opened above and is used nowhere else.
    unsafe { call(CLOSE, [file, 0, 0, 0, 0, 0]) };
    usize::try_from(read).ok()
}

/// Passes each byte of a file to `take`. Returns whether it was read to its end.
pub(crate) fn each_byte(path: &CStr, mut take: impl FnMut(u8)) -> bool {
    let Some(file) = open(path) else { return false };
    let mut bytes = [0_u8; 1024];
    let is_whole = loop {
        // SAFETY: the kernel writes at most as many bytes as there are.
        let read = unsafe { call(READ, [file, bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0]) };
        match usize::try_from(read) {
            Ok(0) => break true,
            Ok(read) => bytes.iter().take(read).for_each(|byte| take(*byte)),
            Err(_) => break false,
        }
    };
    // SAFETY: the descriptor was opened above and is used nowhere else.
    unsafe { call(CLOSE, [file, 0, 0, 0, 0, 0]) };
    is_whole
}

fn open(path: &CStr) -> Option<usize> {
    const WORKING_DIRECTORY: usize = -100_isize as usize;
    const CLOSE_ON_EXEC: usize = 0o2_000_000;
    // SAFETY: the path is a C string that outlives the call.
    let file = unsafe { call(OPENAT, [WORKING_DIRECTORY, path.as_ptr() as usize, CLOSE_ON_EXEC, 0, 0, 0]) };
    usize::try_from(file).ok()
}

/// `FUTEX_WAIT`, within this process.
const WAIT_PRIVATE: usize = 128;

/// Sleeps for 10 ms, if the word has this value.
pub(crate) fn wait_while(word: &AtomicU32, is: u32) {
    let time = [0_i64, 10_000_000];
    let place = ptr::from_ref(word) as usize;
    // SAFETY: the word and the time, two 64-bit words, live across the call.
    unsafe { call(FUTEX, [place, WAIT_PRIVATE, is as usize, (&raw const time) as usize, 0, 0]) };
}

/// Fills both words with random bits from the kernel; false where that would wait.
pub(crate) fn random(words: &mut [u64; 2]) -> bool {
    const NONBLOCK: usize = 1;
    let bytes = size_of_val(words);
    // SAFETY: the kernel writes at most `bytes` bytes, the size of `words`.
    unsafe { call(GETRANDOM, [words.as_mut_ptr() as usize, bytes, NONBLOCK, 0, 0, 0]) == bytes as isize }
}
