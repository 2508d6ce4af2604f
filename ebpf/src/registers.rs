//! Where tasks save their registers on entry to the kernel: at a fixed distance from the start of each task's
//! stack.
//!
//! Where the kernel has BTF, a BPF helper returns the place (5.15 and later). Elsewhere a task that calls
//! bpf(2) searches its own stack for two values that it knows must lie there. BTF contains neither the size
//! of a stack nor what lies above the registers (16 bytes from 6.9 on, where FRED, the new way of entering
//! the kernel, is built in).
//!
//! Differences between processors are also here: one object serves x86-64 and arm64, and the agent sets which
//! one it runs on.

use aya_ebpf::{EbpfContext, Global, helpers::generated::bpf_task_pt_regs};
use guestscope_contract::{CALLS_32, call_name, calls::ARGUMENTS_X86_64, waker};

use crate::{
    held::PF_KTHREAD,
    maps::{
        DISTANCE_REGISTERS, HAS_TYPED_HELPERS, IS_ARM64, NUMBER_BPF, OFFSET_REGS_ARGUMENT,
        OFFSET_REGS_ARGUMENT_32, OFFSET_REGS_MODE, OFFSET_REGS_RESULT, OFFSET_REGS_SECOND,
        OFFSET_REGS_SYSCALL, OFFSET_TASK_STACK, OFFSET_TASK_STATUS, REGISTERS, TYPE_REGISTERS,
    },
    memory::{Checked, Memory, Plain, Typed, cast, load, word},
    task::{Current, Task},
};

/// `BPF_PROG_TEST_RUN`, the first argument of a task that runs a program on itself.
const TEST_RUN: u64 = 10;
/// The smallest stack.
const STACK_BYTES: u64 = 16 << 10;
/// Doublings of that size: with KASAN, or with pages of 64 KiB, stacks are two and four times as large.
const DOUBLINGS: u64 = 2;
/// Most words above the registers.
const WORDS_ABOVE: u64 = 2;

/// -ENOSYS: on x86-64, a system call that has not returned.
const NOT_RETURNED: u64 = 38_u64.wrapping_neg();

impl Current {
    /// Current system call, by its name in records; negative in an exception.
    #[inline(always)]
    pub(crate) fn call(self) -> i32 {
        match Self::task() {
            Some(task) => call(task),
            None => call(Task::<Plain>::at(self.pointer())),
        }
    }

    /// This task as a waker, with its system call. A kernel thread is in none, but has zeros for registers,
    /// which is the number of `read` on x86-64: ksoftirqd would be what a socket was waited for.
    #[inline(always)]
    pub(crate) fn with_its_call(self) -> u32 {
        let is_of_kernel = self.flags() & PF_KTHREAD != 0;
        waker::pack(self.tid, if is_of_kernel { waker::UNSEEN.into() } else { self.call() })
    }
}

/// The number of a task's present system call, of either table; negative in an exception. An int on arm64,
/// and on x86-64 the low half of a long, which is all that the kernel looks at.
#[inline(always)]
pub(crate) fn number<M: Memory>(task: Task<M>) -> i32 {
    if !M::IS_TYPED || HAS_TYPED_HELPERS.load() == 0 {
        return saved(task, &OFFSET_REGS_SYSCALL) as i32;
    }
    // SAFETY: a typed pointer, and the agent resolved the offset of the number.
    unsafe { load::<Typed, i32>(typed(task), &OFFSET_REGS_SYSCALL) }
}

/// `TS_COMPAT` of x86-64: in a 32-bit call, from its entry until the task is back in its program. A 64-bit
/// program may make one as well (`int 0x80`).
const IN_CALL_32: u32 = 2;
/// Bit of arm64's saved processor state: the program is a 32-bit one.
const MODE_32: u64 = 0x10;

/// A task's present system call, by its name in records; negative in an exception.
#[inline(always)]
pub(crate) fn call<M: Memory>(task: Task<M>) -> i32 {
    let number = number(task);
    if number < 0 { number } else { i32::from(call_name(number as u32, is_32_bit(task))) }
}

/// Whether the number is of the 32-bit table.
#[inline(always)]
fn is_32_bit<M: Memory>(task: Task<M>) -> bool {
    if IS_ARM64.load() != 0 {
        return OFFSET_REGS_MODE.load() != 0 && saved(task, &OFFSET_REGS_MODE) & MODE_32 != 0;
    }
    // SAFETY: the agent resolved the offset of an unsigned int.
    OFFSET_TASK_STATUS.load() != 0 && unsafe { task.load::<u32>(&OFFSET_TASK_STATUS) } & IN_CALL_32 != 0
}

/// The first argument of a task's present system call, which has this name.
#[inline(always)]
pub(crate) fn first_argument<M: Memory>(task: Task<M>, call: u16) -> u64 {
    // Both are read: with a choice between two offsets the compiler emits one read at an offset that
    // verifiers cannot bound, and they refuse it.
    let [first, elsewhere] = [&OFFSET_REGS_ARGUMENT, &OFFSET_REGS_ARGUMENT_32].map(|at| saved(task, at));
    if call >= CALLS_32 && OFFSET_REGS_ARGUMENT_32.load() != 0 { elsewhere } else { first }
}

/// The second argument of a task's present 64-bit system call; 0 where it is not known.
#[inline(always)]
pub(crate) fn second_argument<M: Memory>(task: Task<M>) -> u64 {
    if IS_ARM64.load() != 0 {
        return saved_at(task, 8);
    }
    if OFFSET_REGS_SECOND.load() == 0 { 0 } else { saved(task, &OFFSET_REGS_SECOND) }
}

/// Whether a task's system call has returned, so that it is on its way back. On x86-64 the entry code fills
/// the result with -ENOSYS; on arm64 it keeps the first argument apart, and the result overwrites the other
/// copy: a result that equals it is not seen.
#[inline(always)]
pub(crate) fn has_returned<M: Memory>(task: Task<M>) -> bool {
    if IS_ARM64.load() != 0 {
        // The result is in the first register, at offset 0, the global's default value.
        return saved(task, &OFFSET_REGS_RESULT) != saved(task, &OFFSET_REGS_ARGUMENT);
    }
    OFFSET_REGS_RESULT.load() != 0 && saved(task, &OFFSET_REGS_RESULT) != NOT_RETURNED
}

/// Whether the returned system call restarts by itself: -ERESTARTSYS (512) to -ERESTART_RESTARTBLOCK (516).
#[inline(always)]
pub(crate) fn will_restart<M: Memory>(task: Task<M>) -> bool {
    saved(task, &OFFSET_REGS_RESULT).wrapping_add(516) <= 4
}

/// Argument `PLACE` (0 to 5) of a function at which a probe stopped, by the processor's calling convention.
#[inline(always)]
pub(crate) fn argument<const PLACE: usize>(context: &impl EbpfContext) -> u64 {
    if IS_ARM64.load() != 0 { word!(context, PLACE * 8) } else { word!(context, ARGUMENTS_X86_64[PLACE]) }
}

/// The first argument of a Go function, as Go's compiler passes it since 1.17: `ax`, or arm64's `x0`.
#[inline(always)]
pub(crate) fn go_argument(context: &impl EbpfContext) -> u64 {
    if IS_ARM64.load() != 0 { word!(context, 0) } else { word!(context, 80) }
}

/// Go's `g`, the running goroutine: `r14`, or arm64's `x28`.
#[inline(always)]
pub(crate) fn goroutine(context: &impl EbpfContext) -> u64 {
    if IS_ARM64.load() != 0 { word!(context, 224) } else { word!(context, 8) }
}

/// The stack pointer at the probe.
#[inline(always)]
pub(crate) fn stack_pointer(context: &impl EbpfContext) -> u64 {
    if IS_ARM64.load() != 0 { word!(context, 248) } else { word!(context, 152) }
}

/// The instruction pointer at the probe.
#[inline(always)]
pub(crate) fn instruction_pointer(context: &impl EbpfContext) -> u64 {
    if IS_ARM64.load() != 0 { word!(context, 256) } else { word!(context, 128) }
}

/// Address of the code that a sample interrupted, if it was a program's: by the privilege level of the code
/// segment, or by the exception level.
#[inline(always)]
pub(crate) fn interrupted_user(context: &impl EbpfContext) -> Option<u64> {
    if IS_ARM64.load() != 0 {
        // `pc` and `pstate` of arm64's `user_pt_regs`.
        let level = word!(context, 264) & 0xf;
        if level == 0 { Some(word!(context, 256)) } else { None }
    } else {
        // `ip` and `cs` of x86-64's `pt_regs`.
        let level = word!(context, 136) & 3;
        if level != 0 { Some(word!(context, 128)) } else { None }
    }
}

/// Whether the kernel code that a sample interrupted ran on another stack than its task's, as softirqs do.
/// The saved registers lie at the upper end of a task's stack.
#[inline(always)]
pub(crate) fn interrupted_beside_the_stack(context: &impl EbpfContext, current: Current) -> bool {
    // SAFETY: a word of a map value.
    let distance = unsafe { core::ptr::read_volatile(&raw const REGISTERS.distance) };
    if distance == 0 || OFFSET_TASK_STACK.load() == 0 {
        return false;
    }
    let pointer = if IS_ARM64.load() != 0 { word!(context, 248) } else { word!(context, 152) };
    pointer.wrapping_sub(current.stack()) > distance
}

/// One saved register of a task.
#[inline(always)]
pub(crate) fn saved<M: Memory>(task: Task<M>, offset: &Global<u32>) -> u64 {
    saved_at(task, offset.load())
}

/// The same at an offset in bytes.
#[inline(always)]
pub(crate) fn saved_at<M: Memory>(task: Task<M>, offset: u32) -> u64 {
    if !M::IS_TYPED || HAS_TYPED_HELPERS.load() == 0 {
        // SAFETY: a task; the agent resolved the offset of a pointer.
        let stack: u64 = unsafe { task.load(&OFFSET_TASK_STACK) };
        return by_distance(stack, offset);
    }
    // SAFETY: a typed pointer, and the offset is that of a register.
    unsafe { Typed::read(typed(task).add(offset as usize)) }
}

/// All saved registers, as a typed pointer: the distance, found once by a BPF helper call, saves that call
/// for all other tasks.
#[inline(always)]
fn typed<M: Memory>(task: Task<M>) -> *const u8 {
    // SAFETY: a typed task; the agent resolved the offset of a pointer. The distance is in a map value.
    unsafe {
        let distance = core::ptr::read_volatile(&raw const REGISTERS.distance);
        if TYPE_REGISTERS.load() != 0 && distance != 0 {
            return cast(task.load::<u64>(&OFFSET_TASK_STACK) + distance, &TYPE_REGISTERS);
        }
        bpf_task_pt_regs(task.address().cast_mut().cast()) as *const u8
    }
}

/// The same without types. A separate function, absent from programs that do not call it: inlined, the
/// compiler would mix it with their code.
#[inline(never)]
fn by_distance(stack: u64, offset: u32) -> u64 {
    // SAFETY: a word of a map value.
    let found = unsafe { core::ptr::read_volatile(&raw const REGISTERS.distance) };
    let distance = if found != 0 { found } else { u64::from(DISTANCE_REGISTERS.load()) };
    // SAFETY: the BPF helper checks the memory; what cannot be read is 0.
    unsafe { Plain::read((stack + distance + u64::from(offset)) as *const u8) }
}

/// Determines the distance, by a task that runs this program on itself; returns whether it is known now.
#[inline(always)]
pub(crate) fn find() -> bool {
    if OFFSET_TASK_STACK.load() == 0 {
        return false;
    }
    match Current::task() {
        Some(task) => {
            by_helper(task);
            true
        }
        None => by_search(Current::new().stack()),
    }
}

#[inline(always)]
fn by_helper(task: Task<Typed>) {
    // SAFETY: a typed task. Through memory, since the verifier subtracts nothing from a pointer.
    unsafe {
        let registers = bpf_task_pt_regs(task.address().cast_mut().cast()) as u64;
        core::ptr::write_volatile(&raw mut REGISTERS.address, registers);
        let address = core::ptr::read_volatile(&raw const REGISTERS.address);
        let distance = address.wrapping_sub(task.load::<u64>(&OFFSET_TASK_STACK));
        core::ptr::write_volatile(&raw mut REGISTERS.distance, distance);
    }
}

#[inline(always)]
fn by_search(stack: u64) -> bool {
    let mut doubling = 0;
    while doubling <= DOUBLINGS {
        let mut above = 0;
        while above <= WORDS_ABOVE {
            let more = (STACK_BYTES << doubling) - STACK_BYTES;
            let distance = u64::from(DISTANCE_REGISTERS.load()) + more - above * 8;
            let registers = (stack + distance) as *const u8;
            // SAFETY: the BPF helper checks the memory; what cannot be read is 0.
            let (number, first): (u32, u64) = unsafe {
                (
                    load::<Checked, _>(registers, &OFFSET_REGS_SYSCALL),
                    load::<Checked, _>(registers, &OFFSET_REGS_ARGUMENT),
                )
            };
            if number == NUMBER_BPF.load() && first == TEST_RUN {
                // SAFETY: a word of a map value.
                unsafe { core::ptr::write_volatile(&raw mut REGISTERS.distance, distance) };
                return true;
            }
            above += 1;
        }
        doubling += 1;
    }
    false
}
