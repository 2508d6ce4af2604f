//! A phase's numbers by the rows of the table of metrics: what writes all of them, or reads them back, goes
//! through here.

use guestscope_contract::metrics::Quantity;

use super::values::Phase;

impl Phase {
    /// One quantity of it.
    pub const fn get(&self, quantity: Quantity) -> u64 {
        match quantity {
            Quantity::Time(account) => self.accounts.0[account as usize],
            Quantity::Suspended => self.suspended_ns,
            Quantity::Helper(account) => self.helpers.accounts.0[account as usize],
            Quantity::HelperThreads => self.helpers.threads as u64,
            Quantity::HelperWaitOnCpu(kept) => self.helpers.wait.on_cpu[kept],
            Quantity::HelperWaitWaiting(kept) => self.helpers.wait.waiting[kept],
            Quantity::Pause => self.pause_ns,
            Quantity::Of(metric) => self.counts.get(metric),
        }
    }

    /// Changes one quantity of it. A number of threads beyond 32 bits is cut.
    pub const fn set(&mut self, quantity: Quantity, value: u64) {
        match quantity {
            Quantity::Time(account) => self.accounts.0[account as usize] = value,
            Quantity::Suspended => self.suspended_ns = value,
            Quantity::Helper(account) => self.helpers.accounts.0[account as usize] = value,
            Quantity::HelperThreads => self.helpers.threads = value as u32,
            Quantity::HelperWaitOnCpu(kept) => self.helpers.wait.on_cpu[kept] = value,
            Quantity::HelperWaitWaiting(kept) => self.helpers.wait.waiting[kept] = value,
            Quantity::Pause => self.pause_ns = value,
            Quantity::Of(metric) => *self.counts.get_mut(metric) = value,
        }
    }

    /// All that are not zero, class by class: what spans and traces carry. The number of helper threads says
    /// nothing without their time.
    pub fn quantities(&self) -> impl Iterator<Item = (Quantity, u64)> + '_ {
        Quantity::all()
            .filter(|quantity| *quantity != Quantity::HelperThreads)
            .map(|quantity| (quantity, self.get(quantity)))
            .filter(|(_, value)| *value > 0)
    }
}
