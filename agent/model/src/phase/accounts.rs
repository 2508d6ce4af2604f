//! Nanoseconds by account, as plain data.

use guestscope_contract::{ACCOUNTS, Account};

/// Nanoseconds by account, in the order of [`Account::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts(pub [u64; ACCOUNTS]);

/// These, and nothing in the others.
impl<const PARTS: usize> From<[(Account, u64); PARTS]> for Accounts {
    fn from(parts: [(Account, u64); PARTS]) -> Self {
        let mut accounts = Self::default();
        for (account, ns) in parts {
            accounts.0[account as usize] += ns;
        }
        accounts
    }
}

impl Accounts {
    /// Time of one account, ns.
    pub fn get(&self, account: Account) -> u64 {
        self.0[account as usize]
    }

    /// Their sum: the time on threads.
    pub fn total_ns(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each account with its time, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Account, u64)> + '_ {
        Account::ALL.iter().map(|&account| (account, self.get(account)))
    }

    /// Adds another interval.
    pub fn add(&mut self, other: &Accounts) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Cuts them to an interval of `wall_ns` and returns what they leave over. Only accounts of a torn edge
    /// or a damaged record need a cut; the largest is cut first, where the excess most likely lies.
    pub(crate) fn fit(&mut self, wall_ns: u64) -> u64 {
        let total_ns: u128 = self.0.iter().map(|&ns| u128::from(ns)).sum();
        let mut excess_ns = total_ns.saturating_sub(u128::from(wall_ns));
        while excess_ns > 0
            && let Some(largest) = self.0.iter_mut().max()
        {
            let cut_ns = u64::try_from(excess_ns).unwrap_or(u64::MAX).min(*largest);
            *largest -= cut_ns;
            excess_ns -= u128::from(cut_ns);
        }
        wall_ns - self.total_ns()
    }
}
