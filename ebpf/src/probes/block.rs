//! Family `block`: what a thread asks of block devices.
//!
//! Hook: tp_btf or raw_tp block_bio_queue, in the context of whoever submits. Yields counts and bytes in the submitter's ledger; what a
//! flusher writes for others later is the flusher's, and each layer of a stacked device counts what it passes on. It charges
//! no time: that is account `block_io`.

use crate::{
    maps::{BIO_ARGUMENT, OFFSET_BIO_BYTES, OFFSET_BIO_OPERATION},
    memory::{Arguments, load, twins},
    task::Current,
};

/// The low byte of a bio's flags, `REQ_OP_MASK`.
const OPERATION: u32 = 0xff;
/// `REQ_OP_READ`.
const READ: u32 = 0;
/// `REQ_OP_WRITE`.
const WRITE: u32 = 1;

twins! {
    block_bio_queue raw_block_bio_queue "block_bio_queue" queued;
}

#[inline(always)]
fn queued<C: Arguments>(ctx: &C) -> i32 {
    if OFFSET_BIO_OPERATION.load() == 0 || OFFSET_BIO_BYTES.load() == 0 {
        return 0;
    }
    let Some(ledger) = Current::new().ledger() else { return 0 };
    // Up to 5.10 the device's queue came first.
    let bio: *const u8 = if BIO_ARGUMENT.load() == 0 { ctx.at(0) } else { ctx.at(1) };
    // SAFETY: a bio, at offsets of members of these sizes that the agent resolved; the ledger is in a map value, and
    // its own thread runs this program.
    unsafe {
        let operation = load::<C::Memory, u32>(bio, &OFFSET_BIO_OPERATION) & OPERATION;
        let bytes = u64::from(load::<C::Memory, u32>(bio, &OFFSET_BIO_BYTES));
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
