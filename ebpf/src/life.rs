//! Records of a task's life: a fork, an exec, an exit, another name.

use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use guestscope_contract::{COMM_BYTES, EXIT_REPLACED, EXIT_UNSEEN, Header, Kind, TaskRecord, ledger::Ledger};

use crate::{beside, emit, maps::BY_NUMBER, task, words};

/// The other task of a fork or an exec.
#[derive(Clone, Copy)]
pub(crate) struct Other {
    pub(crate) tid: u32,
    pub(crate) tgid: u32,
    pub(crate) born_ns: u64,
}

impl Other {
    pub(crate) const NONE: Self = Self { tid: 0, tgid: 0, born_ns: 0 };
}

/// Hands over a fork, exec or exit.
#[inline(always)]
pub(crate) fn record(kind: Kind, flags: u32, ledger: &Ledger, address: u64, now_ns: u64, other: Other) {
    emit::task(kind, |record: *mut TaskRecord| {
        // SAFETY: the record is reserved memory of exactly this size.
        unsafe { fill(record, ledger, address, other) };
        // An end that another task reports: without BTF its name is not known.
        let is_told_by_others = matches!(kind, Kind::Exit) && flags & (EXIT_REPLACED | EXIT_UNSEEN) != 0;
        // SAFETY: as above; with these, every field is written.
        unsafe {
            (*record).header = Header { kind: kind as u32, flags, time_ns: now_ns };
            if !is_told_by_others || BY_NUMBER.load() == 0 {
                task::comm(address, &mut (*record).comm);
            }
        }
    });
}

/// Hands over another name, which the task does not have yet; `name` is its address.
#[inline(always)]
pub(crate) fn renamed(ledger: &Ledger, address: u64, now_ns: u64, name: u64) {
    emit::task(Kind::Rename, |record: *mut TaskRecord| {
        // SAFETY: the record is reserved memory of exactly this size; with the header, every field is
        // written. The BPF helper checks the name's memory, and writes no further than the field.
        unsafe {
            fill(record, ledger, address, Other::NONE);
            (*record).header = Header { kind: Kind::Rename as u32, flags: 0, time_ns: now_ns };
            let into = (&raw mut (*record).comm).cast();
            bpf_probe_read_kernel_str(into, COMM_BYTES as u32, name as *const _);
        }
    });
}

/// Writes all but the header, and a name of zeros.
///
/// # Safety
/// The record must be reserved memory of exactly this size.
#[inline(always)]
unsafe fn fill(record: *mut TaskRecord, ledger: &Ledger, address: u64, other: Other) {
    let (minor, major) = task::faults_at(address);
    // SAFETY: as the caller promises.
    unsafe {
        words::copy(ledger, &raw mut (*record).ledger);
        (*record).other_tid = other.tid;
        (*record).other_tgid = other.tgid;
        (*record).other_born_ns = other.born_ns;
        (*record).minor_faults = minor;
        (*record).major_faults = major;
        beside::copy(ledger.slot, &raw mut (*record).beside);
        (*record).comm = [0; COMM_BYTES];
    }
}
