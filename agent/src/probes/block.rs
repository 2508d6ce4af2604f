//! Table: the hooks of family `block`, which count what threads ask of block devices.

use super::{Hook, Place};

/// The time is charged without it.
pub const HOOKS: &[Hook] = &[Hook {
    id: "tp_btf/block_bio_queue",
    program: "block_bio_queue",
    place: Place::BtfTracepoint("block_bio_queue"),
    purpose: "reads from and writes to block devices, with their bytes",
    is_needed: false,
}];
