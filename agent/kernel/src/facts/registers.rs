//! Where a task keeps its saved registers: by BPF helpers, or by arithmetic.
//!
//! From 5.15 on a BPF helper returns the place. Before that they lie at the end of the task's stack, whose
//! size depends on the architecture and is not in BTF.

use super::btf::Btf;

/// Bytes of a task's stack: THREAD_SIZE of x86-64 and of arm64 with pages of 4 KiB, without KASAN.
const STACK_BYTES: u32 = 16 << 10;

/// How BPF programs reach the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// The kernel has `bpf_get_current_task_btf` and `bpf_task_pt_regs`.
    pub is_typed: bool,
    /// Bytes from the start of a task's stack, for programs without those BPF helpers.
    pub distance: u32,
}

impl Registers {
    /// The way in the kernel of this BTF.
    pub fn find(btf: &Btf) -> Self {
        let has = |name| btf.has_enumerator("bpf_func_id", name);
        Self {
            is_typed: has("BPF_FUNC_get_current_task_btf") && has("BPF_FUNC_task_pt_regs"),
            distance: STACK_BYTES.saturating_sub(btf.size("pt_regs").unwrap_or(0)),
        }
    }
}
