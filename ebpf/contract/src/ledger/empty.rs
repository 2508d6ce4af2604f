//! The ledger of an empty slot: all zeros, named one by one, so that a new field is thought of.

use super::{EMPTY, Ledger};
use crate::{ACCOUNTS, DISTANCES};

impl Ledger {
    /// An empty slot.
    pub const EMPTY: Ledger = Ledger {
        since_ns: 0,
        task: 0,
        born_ns: 0,
        woken_ns: 0,
        sequence: 0,
        tid: 0,
        tgid: 0,
        waker: 0,
        voluntary: 0,
        involuntary: 0,
        cpu: 0,
        syscall: 0,
        state: EMPTY,
        account: 0,
        slot: 0,
        accounts: [0; ACCOUNTS],
        wakeups: 0,
        throttles: 0,
        missed: 0,
        backwards: 0,
        arrival_offset_ns: 0,
        queued_ns: 0,
        wakeup_delay_ns: 0,
        group: 0,
        throttle_clock_ns: 0,
        migrations: [0; DISTANCES],
        left_ns: 0,
        ready_ns: 0,
        throttled_before_ns: 0,
        replaced_by_tid: 0,
        process: 0,
        place: 0,
        stolen_ns: 0,
        stolen_clock_ns: 0,
        block_read_bytes: 0,
        block_write_bytes: 0,
        net_recv_bytes: 0,
        net_send_bytes: 0,
        block_reads: 0,
        block_writes: 0,
        net_recvs: 0,
        net_sends: 0,
    };
}
