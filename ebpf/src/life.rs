//! Records of a task's life: a fork, an exec, an exit.

use guestscope_contract::{EXIT_REPLACED, EXIT_UNSEEN, Header, Kind, TaskRecord, ledger::Ledger};

use crate::{beside, emit, maps::BY_NUMBER, task};

/// Hands over a fork, exec or exit. `other` is tid, tgid and birth of the other task.
#[inline(always)]
pub(crate) fn record(
    kind: Kind,
    flags: u32,
    ledger: &Ledger,
    address: u64,
    now_ns: u64,
    other: (u32, u32, u64),
) {
    emit::task(kind, |record: *mut TaskRecord| {
        let (minor, major) = task::faults_at(address);
        // SAFETY: the record is reserved memory of exactly this size; every field is written.
        unsafe {
            (*record).header = Header { kind: kind as u32, flags, time_ns: now_ns };
            task::copy(ledger, &raw mut (*record).ledger);
            (*record).other_tid = other.0;
            (*record).other_tgid = other.1;
            (*record).other_born_ns = other.2;
            (*record).minor_faults = minor;
            (*record).major_faults = major;
            beside::copy(ledger.slot, &raw mut (*record).beside);
            (*record).comm = [0; guestscope_contract::COMM_BYTES];
            // An end that another task reports: without BTF its name is not known.
            let is_told_by_others = matches!(kind, Kind::Exit) && flags & (EXIT_REPLACED | EXIT_UNSEEN) != 0;
            if !is_told_by_others || BY_NUMBER.load() == 0 {
                task::comm(address, &mut (*record).comm);
            }
        }
    });
}
