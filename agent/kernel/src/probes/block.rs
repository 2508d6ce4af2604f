//! Table: the hooks of family `block`, which count threads' I/O on block devices, and how long that takes.

use super::hook::{Hook, tracepoint};

/// The accounts do not need them.
pub const HOOKS: &[Hook] = &[
    tracepoint!("block_bio_queue", "reads from and writes to block devices, with their bytes", needed: false),
    tracepoint!("mm_filemap_add_to_page_cache", "readers whose I/O a limit of their group holds back", needed: false),
    tracepoint!("block_io_start", "submitter of each I/O, and time of submission", needed: false),
    tracepoint!("block_rq_issue", "time when each I/O was issued to its device", needed: false),
    tracepoint!("block_rq_merge", "I/Os that were merged into others", needed: false),
    tracepoint!("block_rq_complete", "completion of each I/O, and so its times", needed: false),
];
