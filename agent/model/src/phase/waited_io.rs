//! What a wait was for, if it was for I/O on a block device. Part of [`Pairing`].

use guestscope_contract::{
    Account, MINOR_BITS, NO_DEVICE, WAIT_HELD, WAIT_WRITES, WaitRecord, reads_and_writes_under_way,
};

use super::{
    pairing::Pairing,
    thread_id::ThreadId,
    wait::{InFlight, WaitedIo},
};
use crate::untrusted::Untrusted;

impl Pairing {
    /// The I/O of a wait. Waits of few accounts are for a device.
    pub(super) fn waited_for(
        &self,
        thread: ThreadId,
        record: &WaitRecord,
        account: Account,
    ) -> Option<WaitedIo> {
        if !matches!(account, Account::BlockIo | Account::Fault | Account::Poll) || record.device == NO_DEVICE
        {
            return None;
        }
        let in_flight = (account == Account::Poll).then(|| {
            let (reads, writes) = reads_and_writes_under_way(record.header.flags);
            let state = self.threads.get(thread);
            let (done_reads, done_writes) =
                state.map_or((0, 0), |state| state.ios.of_ring_since(record.left_ns));
            InFlight { reads: reads.saturating_add(done_reads), writes: writes.saturating_add(done_writes) }
        });
        let (major, minor) = (record.device >> MINOR_BITS, record.device & ((1 << MINOR_BITS) - 1));
        let device = Untrusted::from(format!("{major}:{minor}"));
        let has = |flag| record.header.flags & flag != 0;
        Some(WaitedIo {
            name: device.clone(),
            device,
            is_write: has(WAIT_WRITES),
            is_held: has(WAIT_HELD),
            in_flight,
        })
    }
}
