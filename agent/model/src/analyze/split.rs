//! A request's time by cause: the eleven accounts of threads, and the ways to spend time on none.
//!
//! Yields [`Split`] for one interval, [`Sums`] for many, and the excess of one interval over another. It adds
//! and subtracts; it does not know phases. Beside the time lies how long helpers were kept from running: no
//! part of the time, it names the excess that it coincides with.

use guestscope_contract::{ACCOUNTS, Account, SAMPLES_PER_S, Source};

use crate::phase::{HelperWait, KEPT, Phase, PhaseKind};

/// Number of causes.
pub const CAUSES: usize = ACCOUNTS + 3;
/// Index of the time on no thread in a [`Split`].
const SUSPENDED: usize = ACCOUNTS;
/// Index of the time in the queue.
const QUEUE: usize = ACCOUNTS + 1;
/// Index of the time on an unknown thread.
const HANDOFF: usize = ACCOUNTS + 2;
/// Numbers beside the time: for each of [`KEPT`] while the phase's thread was on a CPU, the same while it
/// waited, stolen time, stops of the guest, samples of each of [`Overlay::ALL`] and of the own code.
pub(super) const BESIDE: usize = OWN_CODE + 1;
/// Index of the stolen time.
pub(super) const STOLEN: usize = 2 * KEPT.len();
/// Index of the time in which the guest was stopped.
pub(super) const PAUSED: usize = STOLEN + 1;
/// Index of the first sampled overlay.
pub(super) const SAMPLED: usize = PAUSED + 1;
/// Index of samples in the program's own code.
pub(super) const OWN_CODE: usize = SAMPLED + Overlay::ALL.len();
/// Time that a sample stands for, ns.
pub(super) const SAMPLE_NS: u64 = 1_000_000_000 / SAMPLES_PER_S;
/// Accounts of waits for another thread of the process, in the order in which a helper's wait explains them.
pub(super) const FOR_OTHERS: [Account; 3] = [Account::Lock, Account::Other, Account::Poll];
/// Names of [`Cause::Helper`], in the order of the accounts.
const HELPER_NAMES: [&str; ACCOUNTS] = [
    "helper.cpu",
    "helper.runq",
    "helper.throttled",
    "helper.block_io",
    "helper.net",
    "helper.poll",
    "helper.lock",
    "helper.gpu",
    "helper.fault",
    "helper.sleep",
    "helper.other",
];

/// What a thread did on a CPU other than running its own code, by samples: an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Overlay {
    /// It busy-waited in a runtime library.
    Spin,
    /// The kernel handled its page faults.
    Fault,
    /// The kernel worked for it in system calls.
    Syscall,
    /// The kernel ran softirqs, for any thread.
    Irq,
}

impl Overlay {
    /// In the order of the numbers in a [`Split`].
    pub const ALL: [Overlay; 4] = [Overlay::Spin, Overlay::Fault, Overlay::Syscall, Overlay::Irq];

    const fn samples(self, phase: &Phase) -> u64 {
        match self {
            Overlay::Spin => phase.counts.sample_spin,
            Overlay::Fault => phase.counts.sample_fault,
            Overlay::Syscall => phase.counts.sample_syscall,
            Overlay::Irq => phase.counts.sample_irq,
        }
    }
}

/// What time was spent on. Exclusive, like the accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// Time on a thread.
    Account(Account),
    /// Time on no thread, between leave and enter.
    Suspended,
    /// Time between the scheduled arrival and the start.
    Queue,
    /// Time of a connection's request in which its thread took up something else. A socket does not tell
    /// whether the request went on, on another thread or on none.
    Handoff,
    /// In an excess only: time on a CPU that the hypervisor had taken away.
    Steal,
    /// In an excess only: time in which the whole guest was stopped.
    Pause,
    /// In an excess only, an estimate: time that coincides with a helper's being kept from running by this.
    Helper(Account),
    /// In an excess only, an estimate: time on a CPU by samples.
    Overlay(Overlay),
}

impl Cause {
    /// Causes that a [`Split`] has, in its order.
    pub fn of_time() -> impl Iterator<Item = Cause> {
        Account::ALL.into_iter().map(Cause::Account).chain([Cause::Suspended, Cause::Queue, Cause::Handoff])
    }

    /// Cause of the time that a phase of this source spends off its thread.
    pub const fn off_thread(source: Source) -> Cause {
        match source {
            Source::Socket => Cause::Handoff,
            Source::Marker
            | Source::Python
            | Source::Otel
            | Source::Nvtx
            | Source::Itt
            | Source::Function
            | Source::Usdt => Cause::Suspended,
        }
    }

    /// Causes that an excess may have.
    pub fn all() -> impl Iterator<Item = Cause> {
        let of_helpers = KEPT.into_iter().map(Cause::Helper);
        Self::of_time()
            .chain([Cause::Steal, Cause::Pause])
            .chain(of_helpers)
            .chain(Overlay::ALL.into_iter().map(Cause::Overlay))
    }

    /// Index in a [`Split`]; none for causes of excesses only.
    pub const fn index(self) -> Option<usize> {
        match self {
            Cause::Account(account) => Some(account as usize),
            Cause::Suspended => Some(SUSPENDED),
            Cause::Queue => Some(QUEUE),
            Cause::Handoff => Some(HANDOFF),
            Cause::Steal | Cause::Pause | Cause::Helper(_) | Cause::Overlay(_) => None,
        }
    }

    /// The word in reports, columns and attributes.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Account(account) => account.name(),
            Cause::Suspended => "suspended",
            Cause::Queue => "queue",
            Cause::Handoff => "handoff",
            Cause::Steal => "steal",
            Cause::Pause => "pause",
            Cause::Helper(account) => HELPER_NAMES[account as usize],
            Cause::Overlay(Overlay::Spin) => "cpu.spin",
            Cause::Overlay(Overlay::Fault) => "cpu.fault",
            Cause::Overlay(Overlay::Syscall) => "cpu.syscall",
            Cause::Overlay(Overlay::Irq) => "cpu.irq",
        }
    }
}

/// Nanoseconds by cause, and beside them for how long helpers were kept from running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split(pub [u64; CAUSES], pub [u64; BESIDE]);

impl Split {
    /// The split of a whole phase, nested phases included.
    pub fn of(phase: &Phase) -> Self {
        let mut split = Self::default();
        split.1[PAUSED] = phase.pause_ns;
        if phase.kind == PhaseKind::Queue {
            split.0[QUEUE] = phase.duration_ns;
        } else {
            split.0[..ACCOUNTS].copy_from_slice(&phase.accounts.0);
            if let Some(elsewhere) = Cause::off_thread(phase.source).index() {
                split.0[elsewhere] = phase.suspended_ns;
            }
            let HelperWait { on_cpu, waiting } = phase.helpers.wait;
            split.1[..KEPT.len()].copy_from_slice(&on_cpu);
            split.1[KEPT.len()..STOLEN].copy_from_slice(&waiting);
            split.1[STOLEN] = phase.counts.steal_ns;
            for (ns, overlay) in split.1[SAMPLED..OWN_CODE].iter_mut().zip(Overlay::ALL) {
                *ns = overlay.samples(phase).saturating_mul(SAMPLE_NS);
            }
            split.1[OWN_CODE] = phase.counts.sample_user.saturating_mul(SAMPLE_NS);
        }
        split
    }

    /// The time of one cause.
    pub const fn get(&self, cause: Cause) -> u64 {
        match cause.index() {
            Some(index) => self.0[index],
            None => 0,
        }
    }

    /// Their sum. A folder may hold anything, so it cannot overflow.
    pub fn total_ns(&self) -> u128 {
        self.0.iter().map(|&ns| u128::from(ns)).sum()
    }

    /// Each cause with its time.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        Cause::of_time().zip(self.0)
    }

    /// Adds another interval; stops at the largest number instead of wrapping.
    pub fn add(&mut self, other: &Split) {
        let (mine, theirs) = (self.0.iter_mut().chain(&mut self.1), other.0.iter().chain(&other.1));
        for (mine, theirs) in mine.zip(theirs) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// The excess over a typical one by cause: the numbers add up to the difference of both. A pause is taken
    /// from the causes with the largest excess. Time on a CPU is the hypervisor's as far as it stole more
    /// than usual. The rest of it (a thread that spins), and waits for other threads, are the helpers' as far
    /// as they were kept from running more than usual. CPU time still left goes to samples beyond chance.
    pub(super) fn excess(&self, typical: &Split) -> impl Iterator<Item = (Cause, i64)> + use<> {
        // Both are at most 2^62: the first reading left out what is longer.
        let more = |mine: u64, usual: u64| (mine as i64).saturating_sub(usual as i64);
        let mut parts: [i64; CAUSES] = std::array::from_fn(|index| more(self.0[index], typical.0[index]));
        let beside: [i64; BESIDE] = std::array::from_fn(|index| more(self.1[index], typical.1[index]));
        let paused = take_largest(&mut parts, beside[PAUSED]);
        let cpu = &mut parts[Account::Cpu as usize];
        let stolen = beside[STOLEN].min(*cpu).max(0);
        *cpu -= stolen;
        let mut helpers = [0; KEPT.len()];
        for (kept, helper) in helpers.iter_mut().enumerate() {
            let mut take = |from: Account, left: &mut i64| {
                let part = &mut parts[from as usize];
                let taken = (*left).min(*part).max(0);
                *part -= taken;
                *left -= taken;
                *helper += taken;
            };
            take(Account::Cpu, &mut beside[kept].max(0));
            let mut left = beside[KEPT.len() + kept].max(0);
            for account in FOR_OTHERS {
                take(account, &mut left);
            }
        }
        let overlays = self.sampled_excess(typical, &mut parts[Account::Cpu as usize]);
        let helpers = KEPT.into_iter().map(Cause::Helper).zip(helpers);
        Cause::of_time()
            .zip(parts)
            .chain([(Cause::Steal, stolen), (Cause::Pause, paused)])
            .chain(helpers)
            .chain(overlays)
    }

    /// Takes from an excess of CPU time what samples attribute, the largest first. Numbers of samples scatter
    /// by their square roots: an excess below two of those counts as chance.
    fn sampled_excess(&self, typical: &Split, cpu: &mut i64) -> impl Iterator<Item = (Cause, i64)> + use<> {
        let mut found = Overlay::ALL.map(|overlay| {
            let index = SAMPLED + overlay as usize;
            let samples = self.1[index] as f64 / SAMPLE_NS as f64;
            let more = samples - typical.1[index] as f64 / SAMPLE_NS as f64;
            let more_ns = if more > 2.0 * samples.sqrt() { more * SAMPLE_NS as f64 } else { 0.0 };
            (Cause::Overlay(overlay), more_ns as i64)
        });
        found.sort_by_key(|&(_, more_ns)| std::cmp::Reverse(more_ns));
        for (_, more_ns) in &mut found {
            *more_ns = (*more_ns).min(*cpu).max(0);
            *cpu -= *more_ns;
        }
        found.into_iter()
    }

    /// Stolen time, ns: the kernel's sum, no estimate.
    pub(super) const fn stolen_ns(&self) -> u64 {
        self.1[STOLEN]
    }

    /// For how long the guest was stopped in it, ns.
    pub(super) const fn paused_ns(&self) -> u64 {
        self.1[PAUSED]
    }

    /// How long at least one helper was kept from running by this, ns; zero for accounts outside [`KEPT`].
    pub(super) fn kept_ns(&self, account: Account) -> u64 {
        let kept = KEPT.iter().position(|kept| *kept == account);
        kept.map_or(0, |kept| self.1[kept].saturating_add(self.1[KEPT.len() + kept]))
    }

    /// Time on a CPU by samples of this kind, ns.
    pub(super) const fn sampled_ns(&self, overlay: Overlay) -> u64 {
        self.1[SAMPLED + overlay as usize]
    }

    /// Takes out what `wanted` asks for, as far as there is any, and returns it.
    pub(super) fn take(&mut self, wanted: &Split) -> Split {
        let mut taken = Split::default();
        let mine = self.0.iter_mut().chain(&mut self.1);
        let (want, got) = (wanted.0.iter().chain(&wanted.1), taken.0.iter_mut().chain(&mut taken.1));
        for ((mine, want), got) in mine.zip(want).zip(got) {
            *got = (*want).min(*mine);
            *mine -= *got;
        }
        taken
    }
}

/// Takes up to `wanted` from the largest part, then from the next one; returns how much was taken.
fn take_largest(parts: &mut [i64; CAUSES], wanted: i64) -> i64 {
    let mut left = wanted.max(0);
    while left > 0
        && let Some(largest) = parts.iter_mut().max().filter(|largest| **largest > 0)
    {
        let taken = left.min(*largest);
        *largest -= taken;
        left -= taken;
    }
    wanted.max(0) - left
}

/// Nanoseconds by cause over many intervals. Wide enough that no run can overflow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums(pub [u128; CAUSES], pub [u128; BESIDE]);

impl Sums {
    /// The sum of one cause.
    pub const fn get(&self, cause: Cause) -> u128 {
        match cause.index() {
            Some(index) => self.0[index],
            None => 0,
        }
    }

    /// For each of [`KEPT`], how long at least one helper was kept from running so: while the phase's own
    /// thread was on a CPU, and while it waited.
    pub fn helper_waits(&self) -> impl Iterator<Item = (Account, u128, u128)> + '_ {
        let (on_cpu, waiting) = self.1[..STOLEN].split_at(KEPT.len());
        KEPT.into_iter()
            .zip(on_cpu)
            .zip(waiting)
            .map(|((account, on_cpu), waiting)| (account, *on_cpu, *waiting))
    }

    /// For how long the guest was stopped in them.
    pub const fn paused_ns(&self) -> u128 {
        self.1[PAUSED]
    }

    /// Adds other intervals.
    pub fn merge(&mut self, other: &Sums) {
        let (mine, theirs) = (self.0.iter_mut().chain(&mut self.1), other.0.iter().chain(&other.1));
        for (mine, theirs) in mine.zip(theirs) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// Their sum.
    pub fn total_ns(&self) -> u128 {
        self.0.iter().sum()
    }

    /// Each cause with its time.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u128)> + '_ {
        Cause::of_time().zip(self.0)
    }

    /// Adds an interval.
    pub fn add(&mut self, split: &Split) {
        let (mine, theirs) = (self.0.iter_mut().chain(&mut self.1), split.0.iter().chain(&split.1));
        for (mine, theirs) in mine.zip(theirs) {
            *mine += u128::from(*theirs);
        }
    }

    /// Takes out an interval that was added before.
    pub(super) fn remove(&mut self, split: &Split) {
        let (mine, theirs) = (self.0.iter_mut().chain(&mut self.1), split.0.iter().chain(&split.1));
        for (mine, theirs) in mine.zip(theirs) {
            *mine = mine.saturating_sub(u128::from(*theirs));
        }
    }

    /// Mean of the numbers beside the time, over `count` intervals.
    pub(super) fn mean_beside(&self, count: u64) -> [u64; BESIDE] {
        self.1.map(|ns| u64::try_from(ns / u128::from(count.max(1))).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests;
