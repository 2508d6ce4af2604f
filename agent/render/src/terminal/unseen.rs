//! The accounts that a fidelity cannot measure, so that unseen time is not taken for zero.
//!
//! Yields names and one sentence for each fidelity.

use guestscope_contract::Account;

use crate::health::Fidelity;

/// Accounts that are part of others.
pub(super) fn accounts(fidelity: Fidelity) -> Vec<Account> {
    let is_part = |account: &Account| match fidelity {
        Fidelity::Procfs | Fidelity::Tracepoint => account.coarse() != *account,
        Fidelity::Full | Fidelity::Raw | Fidelity::None => false,
    };
    Account::ALL.into_iter().filter(is_part).collect()
}

/// The limitation in words; none if all is seen.
pub(super) const fn words(fidelity: Fidelity) -> Option<&'static str> {
    match fidelity {
        Fidelity::Procfs => Some(
            "throttled is part of runq; block_io, net, poll, lock, gpu, fault and sleep are part of other; helpers, \
             long waits, what lies inside cpu, wake-ups, migrations, disks and sockets are not counted",
        ),
        Fidelity::Tracepoint => Some(
            "throttled is part of runq; block_io, net, poll, lock, gpu, fault and sleep are part of other; page faults, \
             what lies inside cpu, stolen time, disks and sockets are not counted",
        ),
        Fidelity::Full | Fidelity::Raw | Fidelity::None => None,
    }
}
