//! Table: the hooks of family `block`, which count threads' I/O on block devices, and how long that takes.

use super::{Hook, tracepoint};

/// The accounts do not need them.
pub const HOOKS: &[Hook] = &[
    tracepoint!("block_bio_queue", "reads from and writes to block devices, with their bytes", needed: false),
    tracepoint!("block_io_start", "whose an I/O is, and since when", needed: false),
    tracepoint!("block_rq_issue", "when a device was given an I/O", needed: false),
    tracepoint!("block_rq_merge", "which I/Os became part of others", needed: false),
    tracepoint!("block_rq_complete", "when an I/O was done, and so its times", needed: false),
];
