//! Sees the probe fire inside the test's own process, without privileges: a breakpoint on the library's
//! one-byte nop, as the kernel sets it for a uprobe, and a SIGTRAP handler that reads the six argument
//! registers.
//! Yields the edges of one thread, in order. The buffer is shared with forked children.
//! It deliberately stands in for nothing: the library under test is the one that users link.
#![allow(dead_code, reason = "each test reads what it is about")]

use std::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use libc::{c_int, c_void, siginfo_t, ucontext_t};

use crate::wire::Edge;

const SLOTS: usize = 16 * 1024;
const NAME_BYTES: usize = 64;

#[repr(C)]
struct Slot {
    thread: i32,
    registers: [u64; 6],
    name_bytes: usize,
    name_resident: bool,
    name: [u8; NAME_BYTES],
}

#[repr(C)]
struct Buffer {
    used: AtomicUsize,
    slots: [Slot; SLOTS],
}

static BUFFER: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn guestscope_edge();
}

/// Sets the breakpoint, once in the process.
pub(crate) fn set() {
    static SET: OnceLock<()> = OnceLock::new();
    SET.get_or_init(|| {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping where the kernel likes it; its zeros are a valid `Buffer`.
        let buffer =
            unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Buffer>(), protection, flags, -1, 0) };
        assert_ne!(buffer, libc::MAP_FAILED);
        BUFFER.store(buffer as usize, SeqCst);
        // SAFETY: the handler only reads what the interrupted call vouches for and writes into its own
        // buffer.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_trap as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()), 0);
        }
        let point = guestscope_edge as *const () as usize;
        let page = point & !4095;
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        // SAFETY: the page holds code of this process and stays readable and executable throughout; the byte
        // written is the whole one-byte nop at the probe point.
        unsafe {
            assert_eq!(libc::mprotect(page as *mut c_void, 4096, all), 0);
            assert_eq!((point as *const u8).read_volatile(), 0x90, "the probe point is a one-byte nop");
            (point as *mut u8).write_volatile(0xcc);
            assert_eq!(libc::mprotect(page as *mut c_void, 4096, libc::PROT_READ | libc::PROT_EXEC), 0);
        }
    });
}

/// Runs after the breakpoint instruction, on the five-byte nop; returning goes on there.
extern "C" fn on_trap(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    use libc::{REG_R8, REG_R9, REG_RCX, REG_RDI, REG_RDX, REG_RSI};
    // SAFETY: the kernel passes a valid context to a handler with SA_SIGINFO.
    let registers = unsafe { (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let registers =
        [REG_RDI, REG_RSI, REG_RDX, REG_RCX, REG_R8, REG_R9].map(|name| registers[name as usize] as u64);
    // SAFETY: `set` stored the mapping before it set the breakpoint; it is never unmapped.
    let buffer = unsafe { &mut *(BUFFER.load(SeqCst) as *mut Buffer) };
    let at = buffer.used.fetch_add(1, SeqCst);
    let Some(slot) = buffer.slots.get_mut(at) else { return };
    // SAFETY: gettid cannot fail.
    slot.thread = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
    slot.registers = registers;
    if matches!(registers[0] & 0xff, 1 | 2 | 8..=10) {
        slot.name_bytes = (registers[3] as usize & 0xffff_ffff).min(NAME_BYTES);
        slot.name_resident = resident(registers[2] as usize, slot.name_bytes);
        // SAFETY: the arguments are a name of that many bytes, borrowed by the interrupted call.
        unsafe {
            std::ptr::copy_nonoverlapping(registers[2] as *const u8, slot.name.as_mut_ptr(), slot.name_bytes);
        };
    }
}

fn resident(start: usize, bytes: usize) -> bool {
    if bytes == 0 {
        return true;
    }
    let (first, end) = (start & !4095, start + bytes);
    let mut pages = [0_u8; 2];
    // SAFETY: at most 64 bytes lie in at most two pages, so the kernel writes at most two bytes.
    let known = unsafe { libc::mincore(first as *mut c_void, end - first, pages.as_mut_ptr()) } == 0;
    known && pages[..(end - first).div_ceil(4096)].iter().all(|page| page & 1 == 1)
}

/// Number of the calling thread.
pub(crate) fn this_thread() -> i32 {
    // SAFETY: gettid cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// What `thread` has fired so far.
pub(crate) fn edges_of(thread: i32) -> Vec<Edge> {
    // SAFETY: as in the handler; slots are written once, before the firing call returns to who asks here.
    let buffer = unsafe { &*(BUFFER.load(SeqCst) as *const Buffer) };
    let used = buffer.used.load(SeqCst);
    assert!(used < SLOTS, "the buffer is too small for these tests");
    let edge = |slot: &Slot| {
        let name = String::from_utf8_lossy(&slot.name[..slot.name_bytes]).into_owned();
        Edge { thread: slot.thread, arguments: slot.registers, name, name_resident: slot.name_resident }
    };
    buffer.slots[..used].iter().filter(|slot| slot.thread == thread).map(edge).collect()
}

/// The edges that `program` fires on a thread of its own.
pub(crate) fn edges(program: impl FnOnce() + Send) -> Vec<Edge> {
    set();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            program();
            this_thread()
        });
        edges_of(thread.join().expect("the program ends without a panic"))
    })
}
