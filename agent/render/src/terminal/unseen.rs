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
pub(super) fn words(fidelity: Fidelity) -> Option<String> {
    let not_counted = match fidelity {
        Fidelity::Procfs => {
            "helpers, long waits, what lies inside cpu, wake-ups, migrations, disks and sockets are not counted"
        }
        Fidelity::Tracepoint => {
            "page faults, what lies inside cpu, stolen time, disks and sockets are not counted"
        }
        Fidelity::Full | Fidelity::Raw | Fidelity::None => return None,
    };
    let parts = accounts(fidelity);
    let of = |whole: Account| {
        let names = parts.iter().filter(|part| part.coarse() == whole).map(|part| part.name());
        let names: Vec<&str> = names.collect();
        let (last, others) = names.split_last()?;
        let (names, verb) = match others {
            [] => ((*last).to_owned(), "is"),
            _ => (format!("{} and {last}", others.join(", ")), "are"),
        };
        Some(format!("{names} {verb} part of {}; ", whole.name()))
    };
    let wholes: String = Account::ALL.into_iter().filter_map(of).collect();
    Some(wholes + not_counted)
}
