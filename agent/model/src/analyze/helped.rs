//! Activity of the helpers of requests, summed over requests of one name.
//!
//! Yields [`Helped`]. It is time of other threads, and no part of the requests' latencies.

use guestscope_contract::{ACCOUNTS, Account};

use crate::phase::Phase;

/// Helpers of many requests, exact sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Helped {
    /// Nanoseconds by account.
    pub accounts: [u128; ACCOUNTS],
    /// Maximum number of helpers of a request.
    pub threads: u32,
    /// Requests that shared their helpers with others in flight.
    pub shared: u64,
    /// Requests for which some helpers are missing from the sums.
    pub partial: u64,
}

impl Helped {
    /// Adds the helpers of a request, by its outermost phase.
    pub(super) fn add(&mut self, root: &Phase) {
        let helpers = &root.helpers;
        for (sum, ns) in self.accounts.iter_mut().zip(helpers.accounts.0) {
            *sum += u128::from(ns);
        }
        self.threads = self.threads.max(helpers.threads);
        self.shared += u64::from(helpers.shared);
        self.partial += u64::from(helpers.partial);
    }

    /// Each account with its time.
    pub fn iter(&self) -> impl Iterator<Item = (Account, u128)> + '_ {
        Account::ALL.into_iter().zip(self.accounts)
    }

    /// Time of all accounts.
    pub fn total_ns(&self) -> u128 {
        self.accounts.iter().sum()
    }
}
