//! A request's time by cause: the eleven accounts of threads, and the ways to spend time on none.
//!
//! Yields [`Split`] for one interval, [`Sums`] for many, and the excess of one interval over another. It adds
//! and subtracts; it does not know phases. Beside the time lies how long helpers were kept from running: no
//! part of the time, it names the excess that it coincides with.

mod moved;
mod parts;

use guestscope_contract::{Account, SAMPLES_PER_S, metrics::Quantity};

pub(in crate::analyze) use parts::CELLS;
pub use parts::Parts;

use super::cause::{Cause, Overlay};
use crate::phase::{HelperWait, KEPT, Metric, Phase, PhaseKind};

/// Time that a sample stands for, ns.
pub(super) const SAMPLE_NS: u64 = 1_000_000_000 / SAMPLES_PER_S;
/// Accounts of waits for another thread of the process, in the order in which a helper's wait explains them.
pub(super) const FOR_OTHERS: [Account; 3] = [Account::Lock, Account::Other, Account::Poll];

/// Accounts of waits for the lock of an address space, in the order in which such waits come out of them.
pub(super) const OF_ADDRESS_SPACE: [Account; 2] = [Account::Fault, Account::Other];

/// Accounts of waits for reads, each with the work of the kernel through which a thread gets there.
const OF_READS: [(Account, Overlay); 2] =
    [(Account::BlockIo, Overlay::Syscall), (Account::Fault, Overlay::Fault)];

/// Shares of an excess of CPU time by overlay, in the order of [`Overlay::ALL`], as many requests together
/// show them. At most 1 in all.
pub(super) type Shares = [f64; Overlay::ALL.len()];
/// Samples scatter by their square root: so many of those are a difference beyond chance.
pub(super) const DEVIATIONS: f64 = 2.0;

/// Nanoseconds of one interval.
pub type Split = Parts<u64>;

impl Split {
    /// The split of a whole phase, nested phases included.
    pub fn of(phase: &Phase) -> Self {
        let mut split = Self { pause: phase.pause_ns, ..Self::default() };
        if phase.kind == PhaseKind::Queue {
            split.queue = phase.duration_ns;
            return split;
        }
        split.accounts = phase.accounts.0;
        if let Some(elsewhere) = split.time_of_mut(Cause::off_thread(phase.source)) {
            *elsewhere = phase.suspended_ns;
        }
        let HelperWait { on_cpu, waiting } = phase.helpers.wait;
        (split.kept_on_cpu, split.kept_waiting) = (on_cpu, waiting);
        split.steal = phase.counts.get(Metric::Steal);
        split.in_driver = phase.counts.get(Metric::CpuGpu);
        split.address_space = phase.counts.get(Metric::AddressSpace);
        split.stopped = phase.counts.get(Metric::Stopped);
        split.reading = reading_ns(phase);
        let sampled = |metric| phase.counts.get(metric).saturating_mul(SAMPLE_NS);
        split.sampled = Overlay::ALL.map(|overlay| sampled(overlay.samples()));
        split.own_code = sampled(Metric::SampleUser);
        split
    }

    /// Whether [`Split::of`] reads this quantity of a phase.
    pub(super) fn takes(quantity: Quantity) -> bool {
        match quantity {
            Quantity::Time(_)
            | Quantity::Suspended
            | Quantity::HelperWaitOnCpu(_)
            | Quantity::HelperWaitWaiting(_)
            | Quantity::Pause => true,
            Quantity::Helper(_) | Quantity::HelperThreads => false,
            Quantity::Of(metric) => {
                let is_sampled = || Overlay::ALL.iter().any(|overlay| overlay.samples() == metric);
                let is_read = matches!(
                    metric,
                    Metric::Steal
                        | Metric::CpuGpu
                        | Metric::AddressSpace
                        | Metric::Stopped
                        | Metric::BlockQueue
                        | Metric::BlockDevice
                        | Metric::BlockReadBytes
                        | Metric::BlockWriteBytes
                        | Metric::SampleUser
                );
                is_read || is_sampled()
            }
        }
    }

    /// The time of one cause, 0 for causes of excesses only.
    pub fn get(&self, cause: Cause) -> u64 {
        self.time_of(cause).unwrap_or(0)
    }

    /// The number of one cause, also of those that only excesses have.
    pub(super) fn number_of(&self, cause: Cause) -> u64 {
        match cause {
            Cause::Account(_) | Cause::Suspended | Cause::Queue | Cause::Handoff => self.get(cause),
            Cause::Steal => self.steal,
            Cause::InDriver => self.in_driver,
            Cause::Pause => self.pause,
            Cause::AddressSpace => self.address_space,
            Cause::Stopped => self.stopped,
            Cause::Helper(account) => {
                let kept = KEPT.iter().position(|kept| *kept == account);
                kept.map_or(0, |kept| self.kept_on_cpu[kept].saturating_add(self.kept_waiting[kept]))
            }
            Cause::Overlay(overlay) => self.sampled[overlay as usize],
        }
    }

    /// Their sum. A folder may hold anything, so it cannot overflow.
    pub fn total_ns(&self) -> u128 {
        self.time().map(|(_, ns)| u128::from(ns)).sum()
    }

    /// Adds another interval; stops at the largest number instead of wrapping.
    pub fn add(&mut self, other: &Split) {
        *self = self.zip(other, u64::saturating_add);
    }

    /// Takes out what `wanted` asks for, as far as there is any, and returns it.
    pub(super) fn take(&mut self, wanted: &Split) -> Split {
        let taken = self.zip(wanted, u64::min);
        *self = self.zip(&taken, |mine, taken| mine - taken);
        taken
    }

    /// The excess over a typical one by cause: the numbers add up to the difference of both. A pause is taken
    /// from the causes with the largest excess. Time on a CPU is the hypervisor's as far as it stole more
    /// than usual, and then of the driver of a graphics processor as far as more than usual passed in there.
    /// Waits for the lock of the address space come out of page faults and calls, stops out of what has no
    /// account. The rest of it (a thread that spins), and waits for other threads, are the helpers' as far as
    /// they were kept from running more than usual. CPU time still left goes to samples beyond chance; where
    /// there are too few of them, by the shares that the slow requests together show. At last reads take the
    /// kernel's part of it that passed while they were under way, see [`give_to_reads`].
    pub(super) fn excess(
        &self,
        typical: &Split,
        shares: &Shares,
    ) -> impl Iterator<Item = (Cause, i64)> + use<> {
        // Both are at most 2^62: the first reading left out what is longer.
        let mut more = self.zip(typical, |mine, usual| (mine as i64).saturating_sub(usual as i64));
        let wanted = more.pause;
        let paused = take_largest(&mut more, wanted);
        let cpu = &mut more.accounts[Account::Cpu as usize];
        let mut stolen = more.steal.min(*cpu).max(0);
        *cpu -= stolen;
        let in_driver = more.in_driver.min(*cpu).max(0);
        *cpu -= in_driver;
        let mut address_space = 0;
        for account in OF_ADDRESS_SPACE {
            let waited = &mut more.accounts[account as usize];
            let taken = (more.address_space - address_space).min(*waited).max(0);
            *waited -= taken;
            address_space += taken;
        }
        let other = &mut more.accounts[Account::Other as usize];
        let stopped = more.stopped.min(*other).max(0);
        *other -= stopped;
        let mut helpers = [0; KEPT.len()];
        for (kept, helper) in helpers.iter_mut().enumerate() {
            let (mut on_cpu, mut waiting) = (more.kept_on_cpu[kept].max(0), more.kept_waiting[kept].max(0));
            let mut take = |from: Account, left: &mut i64| {
                let part = &mut more.accounts[from as usize];
                let taken = (*left).min(*part).max(0);
                *part -= taken;
                *left -= taken;
                *helper += taken;
            };
            take(Account::Cpu, &mut on_cpu);
            for account in FOR_OTHERS {
                take(account, &mut waiting);
            }
        }
        let cpu = &mut more.accounts[Account::Cpu as usize];
        let mut overlays = self.sampled_excess(typical, shares, cpu);
        give_to_reads(&mut more, &mut stolen, &mut overlays);
        let helpers = KEPT.into_iter().map(Cause::Helper).zip(helpers);
        more.into_time()
            .chain([
                (Cause::Steal, stolen),
                (Cause::InDriver, in_driver),
                (Cause::Pause, paused),
                (Cause::AddressSpace, address_space),
                (Cause::Stopped, stopped),
            ])
            .chain(helpers)
            .chain(overlays)
    }

    /// Takes from an excess of CPU time what samples attribute, the largest first. Numbers of samples scatter
    /// by their square roots: an excess below two of those counts as chance, unless the slow requests
    /// together have a share of it, and then up to what chance may have hidden.
    fn sampled_excess(
        &self,
        typical: &Split,
        shares: &Shares,
        cpu: &mut i64,
    ) -> [(Cause, i64); Overlay::ALL.len()] {
        let whole_ns = (*cpu).max(0) as f64;
        let mut found = Overlay::ALL.map(|overlay| {
            let samples = |split: &Split| split.sampled[overlay as usize] as f64 / SAMPLE_NS as f64;
            let more = samples(self) - samples(typical);
            let most = (more + DEVIATIONS * (samples(self) + 1.0).sqrt()).max(0.0) * SAMPLE_NS as f64;
            let shared_ns = (shares[overlay as usize] * whole_ns).min(most);
            let is_sure = more > DEVIATIONS * samples(self).sqrt();
            let more_ns = if is_sure { more * SAMPLE_NS as f64 } else { shared_ns };
            (Cause::Overlay(overlay), more_ns as i64)
        });
        found.sort_by_key(|&(_, more_ns)| std::cmp::Reverse(more_ns));
        for (_, more_ns) in &mut found {
            *more_ns = (*more_ns).min(*cpu).max(0);
            *cpu -= *more_ns;
        }
        found
    }
}

/// How long the reads of a phase were in queues and in devices, ns: the part of all its I/Os that their bytes
/// are of all bytes.
fn reading_ns(phase: &Phase) -> u64 {
    let count = |metric| u128::from(phase.counts.get(metric));
    let (read, written) = (count(Metric::BlockReadBytes), count(Metric::BlockWriteBytes));
    let ns = count(Metric::BlockQueue) + count(Metric::BlockDevice);
    u64::try_from(ns.saturating_mul(read) / (read + written).max(1)).unwrap_or(u64::MAX)
}

/// Gives an excess of waits for reads what the kernel and the hypervisor did with the CPU meanwhile. A
/// virtual disk that answers within some 50 us is served on the guest's own CPUs: reads that keep a request
/// for 37 ms may let its thread wait for 1 ms of it, and are system calls, softirqs and stolen time for the
/// rest. Of these, not more than the reads were under way beyond the waits; the program's own code keeps its
/// time.
fn give_to_reads(more: &mut Parts<i64>, stolen: &mut i64, overlays: &mut [(Cause, i64)]) {
    let waited = OF_READS.map(|(account, _)| more.accounts[account as usize].max(0));
    let mut left = waited.iter().fold(more.reading, |left, ns| left.saturating_sub(*ns));
    if waited == [0, 0] {
        return;
    }
    let (account, entry) = OF_READS[usize::from(waited[1] > waited[0])];
    let overlays = overlays.iter_mut();
    let kernel = overlays.filter(|(cause, _)| [entry, Overlay::Irq].map(Cause::Overlay).contains(cause));
    for part in kernel.map(|(_, ns)| ns).chain([stolen]) {
        let taken = left.min(*part).max(0);
        *part -= taken;
        left -= taken;
        more.accounts[account as usize] += taken;
    }
}

/// Takes up to `wanted` from the largest part, then from the next one; returns how much was taken.
fn take_largest(parts: &mut Parts<i64>, wanted: i64) -> i64 {
    let mut left = wanted.max(0);
    while left > 0
        && let Some(largest) = parts.time_mut().max().filter(|largest| **largest > 0)
    {
        let taken = left.min(*largest);
        *largest -= taken;
        left -= taken;
    }
    wanted.max(0) - left
}

/// Nanoseconds over many intervals. Wide enough that no run can overflow it.
pub type Sums = Parts<u128>;

impl Sums {
    /// The sum of one cause, 0 for causes of excesses only.
    pub fn get(&self, cause: Cause) -> u128 {
        self.time_of(cause).unwrap_or(0)
    }

    /// For each of [`KEPT`], how long at least one helper was kept from running so: while the phase's own
    /// thread was on a CPU, and while it waited.
    pub fn helper_waits(&self) -> impl Iterator<Item = (Account, u128, u128)> + '_ {
        let kept = KEPT.into_iter().zip(self.kept_on_cpu).zip(self.kept_waiting);
        kept.map(|((account, on_cpu), waiting)| (account, on_cpu, waiting))
    }

    /// Adds other intervals.
    pub fn merge(&mut self, other: &Sums) {
        *self = self.zip(other, u128::saturating_add);
    }

    /// Their sum.
    pub fn total_ns(&self) -> u128 {
        self.time().map(|(_, ns)| ns).sum()
    }

    /// Adds an interval.
    pub fn add(&mut self, split: &Split) {
        *self = self.zip(split, |mine, theirs| mine + u128::from(theirs));
    }

    /// Takes out an interval that was added before.
    pub(super) fn remove(&mut self, split: &Split) {
        *self = self.zip(split, |mine, theirs| mine.saturating_sub(u128::from(theirs)));
    }

    /// Means over `count` intervals, each rounded down.
    pub(super) fn means(&self, count: u64) -> Split {
        self.map(|ns| u64::try_from(ns / u128::from(count.max(1))).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests;
