//! Two ways of reading kernel memory, with their contexts.
//!
//! The body of a program is written once over [`Memory`] and built twice. Where the kernel has BTF, its
//! verifier knows the types of a tracepoint's arguments ([`Typed`]), which are read by plain loads. Where it
//! has none, and offsets come from a file, a raw tracepoint passes plain addresses ([`Plain`]), which are
//! read through a BPF helper. The choice is made at compile time, not by a global: so the typed programs have
//! exactly the instructions that they would have without the other kind.

use core::{arch::asm, mem::MaybeUninit};

use aya_ebpf::{
    Argument, EbpfContext, Global,
    helpers::generated::{bpf_get_current_task, bpf_probe_read_kernel},
    programs::{BtfTracePointContext, RawTracePointContext},
};
use guestscope_contract::CALL_RDONLY_CAST;

/// A way of reading kernel memory.
pub(crate) trait Memory: Copy {
    /// Whether the verifier knows the pointers' types.
    const IS_TYPED: bool;
    /// The way of reading addresses without a type.
    type Untyped: Memory;

    /// The value at an address; zeros where there is no memory.
    ///
    /// # Safety
    /// A `T` must be whole numbers or an address, of exactly the size of the value; a typed pointer must be
    /// one.
    unsafe fn read<T: Copy>(place: *const u8) -> T;
}

/// Reads with one load instruction.
#[derive(Clone, Copy)]
pub(crate) struct Typed;

/// Reads through a BPF helper, at 15 to 19 ns a read (6.18, in a virtual machine).
#[derive(Clone, Copy)]
pub(crate) struct Plain;

/// Reads through the same BPF helper at an address that may be any number. The BPF helper of 5.10 trusts an
/// address of 57 bits where the processor could have so many and the kernel uses 48, and the kernel then
/// warns of a general protection fault.
#[derive(Clone, Copy)]
pub(crate) struct Checked;

impl Memory for Typed {
    const IS_TYPED: bool = true;
    type Untyped = Plain;

    #[inline(always)]
    unsafe fn read<T: Copy>(place: *const u8) -> T {
        // SAFETY: the caller's; volatile, so that the load stays as it is written. Bad memory reads as 0.
        unsafe { core::ptr::read_volatile(place.cast()) }
    }
}

impl Memory for Checked {
    const IS_TYPED: bool = false;
    type Untyped = Self;

    #[inline(always)]
    unsafe fn read<T: Copy>(place: *const u8) -> T {
        // SAFETY: the BPF helper has no preconditions.
        let own = unsafe { bpf_get_current_task() };
        // A task's own address shows the number of address bits: all above are ones in the kernel's half.
        let bits = if own.cast_signed() >> 47 == -1 { 47 } else { 56 };
        if (place as i64) >> bits != -1 {
            // SAFETY: any bytes make a `T`, as the caller promised.
            return unsafe { MaybeUninit::zeroed().assume_init() };
        }
        // SAFETY: the caller's.
        unsafe { Plain::read(place) }
    }
}

impl Memory for Plain {
    const IS_TYPED: bool = false;
    type Untyped = Self;

    #[inline(always)]
    unsafe fn read<T: Copy>(place: *const u8) -> T {
        let mut value = MaybeUninit::<T>::zeroed();
        // SAFETY: the BPF helper checks the memory and writes as many bytes as the value has, zeros on
        // failure; the caller promised that any bytes make a `T`.
        unsafe {
            bpf_probe_read_kernel(value.as_mut_ptr().cast(), size_of::<T>() as u32, place.cast());
            value.assume_init()
        }
    }
}

/// Reads a member of a structure. The size must be the member's own, or the verifier refuses a typed program.
///
/// # Safety
/// The pointer must be to the structure in which the global is the offset of a `T`.
#[inline(always)]
pub(crate) unsafe fn load<M: Memory, T: Copy>(structure: *const u8, offset: &Global<u32>) -> T {
    // SAFETY: the caller's.
    unsafe { M::read(structure.add(offset.load() as usize)) }
}

/// Reads a member that points to a structure, through an untrusted pointer. For each such load through a
/// trusted one, kernels up to 6.18 check whether the result can be trusted too, on each path that reaches it:
/// they look up to four times for a name among all in their BTF, which was 44 % of the verification time
/// (6.18, by a profile).
///
/// # Safety
/// As for [`load`]; the type is the structure's, or 0.
#[inline(always)]
pub(crate) unsafe fn follow<M: Memory>(
    structure: *const u8,
    type_id: &Global<u32>,
    offset: &Global<u32>,
) -> *const u8 {
    let is_cast = M::IS_TYPED && type_id.load() != 0;
    let structure = if is_cast { cast(structure as u64, type_id) } else { structure };
    // SAFETY: the caller's.
    unsafe { load::<M, _>(structure, offset) }
}

/// A word of a context at a constant offset. As the one instruction that verifiers accept: of two loads in
/// two branches the compiler makes one load from a pointer that was chosen before, which they refuse.
macro_rules! word {
    ($context:expr, $offset:expr) => {{
        let word: u64;
        // SAFETY: the context is larger than that, on the processor for which the agent loads this.
        unsafe {
            core::arch::asm!(
                "{word} = *(u64 *)({context} + {offset})",
                word = lateout(reg) word,
                context = in(reg) $context.as_ptr(),
                offset = const $offset,
                options(nostack, readonly, preserves_flags),
            );
        }
        word
    }};
}
pub(crate) use word;

/// Arguments of a tracepoint.
pub(crate) trait Arguments: EbpfContext {
    /// How to read its pointers.
    type Memory: Memory;

    /// The argument with this index.
    fn at<T: Argument>(&self, place: usize) -> T;

    /// The argument with this index as a word, where another branch asks for another index.
    #[inline(always)]
    fn word<const PLACE: usize>(&self) -> u64 {
        word!(self, PLACE * 8)
    }
}

impl Arguments for BtfTracePointContext {
    type Memory = Typed;

    #[inline(always)]
    fn at<T: Argument>(&self, place: usize) -> T {
        self.arg(place)
    }
}

impl Arguments for RawTracePointContext {
    type Memory = Plain;

    #[inline(always)]
    fn at<T: Argument>(&self, place: usize) -> T {
        self.arg(place)
    }
}

/// Builds two programs from one body: for kernels with BTF and for kernels without.
macro_rules! twins {
    ($($typed:ident $plain:ident $hook:tt $body:path;)*) => { $(
        #[aya_ebpf::macros::btf_tracepoint(function = $hook)]
        pub(crate) fn $typed(ctx: aya_ebpf::programs::BtfTracePointContext) -> i32 {
            $body(&ctx)
        }

        #[aya_ebpf::macros::raw_tracepoint(tracepoint = $hook)]
        pub(crate) fn $plain(ctx: aya_ebpf::programs::RawTracePointContext) -> i32 {
            $body(&ctx)
        }
    )* };
}
pub(crate) use twins;

/// `bpf_rdonly_cast(address, type)`: the address, typed for the verifier. The call is one instruction, which
/// names the function by its number in this kernel's BTF; the agent patches that in before loading.
#[inline(always)]
pub(crate) fn cast(address: u64, type_id: &Global<u32>) -> *const u8 {
    let typed: u64;
    // SAFETY: the kernel's calling convention: arguments in r1 and r2, the result in r0, r1 to r5 are lost.
    unsafe {
        asm!(
            ".quad {call}",
            call = const CALL_RDONLY_CAST,
            inlateout("r1") address => _,
            inlateout("r2") u64::from(type_id.load()) => _,
            lateout("r0") typed,
            lateout("r3") _,
            lateout("r4") _,
            lateout("r5") _,
            options(nostack),
        );
    }
    typed as *const u8
}

/// Adds to a number that other programs, on this CPU or another one, may be adding to: one instruction
/// without a result, for which the language has no function on this target.
///
/// # Safety
/// The number must lie in a map value, whose words are aligned.
#[inline(always)]
pub(crate) unsafe fn add(number: *mut u64, change: u64) {
    // SAFETY: the caller's.
    unsafe {
        asm!("lock *(u64 *)({number} + 0) += {change}", number = in(reg) number, change = in(reg) change, options(nostack));
    }
}
