//! Family `block`: what a thread asks of block devices.
//!
//! Hook: tp_btf block_bio_queue, in the context of whoever submits. Yields counts and bytes in the submitter's ledger; what a
//! flusher writes for others later is the flusher's, and each layer of a stacked device counts what it passes on. It charges
//! no time: that is account `block_io`.

use aya_ebpf::{macros::btf_tracepoint, programs::BtfTracePointContext};

use crate::{
    maps::{BIO_ARGUMENT, OFFSET_BIO_BYTES, OFFSET_BIO_OPERATION},
    task::{Current, load},
};

/// The low byte of a bio's flags, `REQ_OP_MASK`.
const OPERATION: u32 = 0xff;
/// `REQ_OP_READ`.
const READ: u32 = 0;
/// `REQ_OP_WRITE`.
const WRITE: u32 = 1;

#[btf_tracepoint(function = "block_bio_queue")]
pub(crate) fn block_bio_queue(ctx: BtfTracePointContext) -> i32 {
    if OFFSET_BIO_OPERATION.load() == 0 || OFFSET_BIO_BYTES.load() == 0 {
        return 0;
    }
    let Some(ledger) = Current::new().ledger() else { return 0 };
    // Up to 5.10 the device's queue came first.
    let bio: *const u8 = if BIO_ARGUMENT.load() == 0 { ctx.arg(0) } else { ctx.arg(1) };
    // SAFETY: a typed pointer, at offsets of members of these sizes that the agent resolved; the ledger is in a map value, and
    // its own thread runs this program.
    unsafe {
        let operation = load::<u32>(bio, &OFFSET_BIO_OPERATION) & OPERATION;
        let bytes = u64::from(load::<u32>(bio, &OFFSET_BIO_BYTES));
        if operation == READ {
            (*ledger).block_reads = (*ledger).block_reads.wrapping_add(1);
            (*ledger).block_read_bytes = (*ledger).block_read_bytes.wrapping_add(bytes);
        } else if operation == WRITE && bytes != 0 {
            (*ledger).block_writes = (*ledger).block_writes.wrapping_add(1);
            (*ledger).block_write_bytes = (*ledger).block_write_bytes.wrapping_add(bytes);
        }
    }
    0
}
