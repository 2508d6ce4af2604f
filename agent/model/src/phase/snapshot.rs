//! A thread's ledger at some time: the accounts and counts so far.

use guestscope_contract::{Account, EdgeRecord, TaskRecord, ledger::Ledger, metrics::Reading};

use super::{Counts, accounts::Accounts};

/// A thread's ledger at one instant, settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// CLOCK_MONOTONIC, ns.
    pub(crate) time_ns: u64,
    pub(crate) accounts: Accounts,
    pub(crate) counts: Counts,
}

impl Snapshot {
    /// Snapshot of a ledger, with the open interval up to `time_ns` added to the account of its state. The
    /// rest is read at edges alone, and stands in `beside`.
    pub(crate) fn new(ledger: &Ledger, time_ns: u64, counts: &Counts) -> Self {
        let time_ns = time_ns.max(ledger.since_ns);
        let mut accounts = Accounts(ledger.accounts_at(time_ns));
        // A ledger holds its thread's life. More is torn or damaged; cut here, no sum can overflow later.
        accounts.fit(time_ns.saturating_sub(ledger.born_ns));
        Self { time_ns, accounts, counts: *counts }
    }

    pub(crate) fn of_edge(edge: &EdgeRecord) -> Self {
        let EdgeRecord { ledger, beside, minor_faults, major_faults, .. } = edge;
        let reading = Reading { ledger, beside, minor_faults: *minor_faults, major_faults: *major_faults };
        Self::new(ledger, edge.header.time_ns, &Counts::read(&reading))
    }

    pub(crate) fn of_task(task: &TaskRecord) -> Self {
        let TaskRecord { ledger, beside, minor_faults, major_faults, .. } = task;
        let reading = Reading { ledger, beside, minor_faults: *minor_faults, major_faults: *major_faults };
        Self::new(ledger, task.header.time_ns, &Counts::read(&reading))
    }

    /// Accounts and counts since an earlier snapshot of the same thread.
    pub(crate) fn since(&self, earlier: &Snapshot) -> (Accounts, Counts) {
        let mut accounts = self.accounts;
        for (now, before) in accounts.0.iter_mut().zip(earlier.accounts.0) {
            *now = now.saturating_sub(before);
        }
        let mut counts = self.counts.since(&earlier.counts);
        // An edge forgets what was polled before it, so only a damaged record has more.
        counts.poll_net_ns = counts.poll_net_ns.min(accounts.get(Account::Poll));
        (accounts, counts)
    }
}
