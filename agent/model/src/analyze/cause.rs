//! What time is spent on: the accounts of threads, the ways to spend time on none, and the finer names that
//! an excess may have. It holds no numbers.

use guestscope_contract::{
    ACCOUNTS, Account, Source,
    metrics::{KEPT, Metric, Quantity},
};

/// Number of causes that every interval has.
pub const CAUSES: usize = ACCOUNTS + 3;
/// Number of causes in [`Cause::all`].
pub(super) const ALL_CAUSES: usize = CAUSES + BESIDE + KEPT.len() + Overlay::ALL.len();
/// Number of causes that only an excess has, beside those of helpers and samples.
const BESIDE: usize = 5;

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
    /// All of them.
    pub const ALL: [Overlay; 4] = [Overlay::Spin, Overlay::Fault, Overlay::Syscall, Overlay::Irq];

    /// The samples that it is made of.
    pub const fn samples(self) -> Metric {
        match self {
            Overlay::Spin => Metric::SampleSpin,
            Overlay::Fault => Metric::SampleFault,
            Overlay::Syscall => Metric::SampleSyscall,
            Overlay::Irq => Metric::SampleIrq,
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
    /// In an excess only: time on a CPU inside functions of a graphics processor's driver that wait or copy.
    InDriver,
    /// In an excess only: time in which the whole guest was stopped.
    Pause,
    /// In an excess only: waits for the lock of the address space, in page faults and in calls for memory.
    AddressSpace,
    /// In an excess only: a signal, a debugger or the freezer kept the thread from running.
    Stopped,
    /// In an excess only, an estimate: time that coincides with a helper's being kept from running by this.
    Helper(Account),
    /// In an excess only, an estimate: time on a CPU by samples.
    Overlay(Overlay),
}

impl Cause {
    /// Causes that every interval has, in the order of [`Parts::time`](super::Parts::time).
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
            .chain([Cause::Steal, Cause::InDriver, Cause::Pause, Cause::AddressSpace, Cause::Stopped])
            .chain(of_helpers)
            .chain(Overlay::ALL.into_iter().map(Cause::Overlay))
    }

    /// Whether a thread waits for a graphics processor, asleep or on a CPU.
    pub const fn waits_for_gpu(self) -> bool {
        matches!(self, Cause::Account(Account::Gpu) | Cause::InDriver)
    }

    /// Samples that speak for it; none for what is not known by samples.
    pub(super) const fn samples(self) -> Option<Metric> {
        match self {
            Cause::Overlay(overlay) => Some(overlay.samples()),
            Cause::Account(Account::Cpu) => Some(Metric::SampleUser),
            Cause::Account(_)
            | Cause::Suspended
            | Cause::Queue
            | Cause::Handoff
            | Cause::Steal
            | Cause::InDriver
            | Cause::Pause
            | Cause::AddressSpace
            | Cause::Stopped
            | Cause::Helper(_) => None,
        }
    }

    /// Its place in [`Cause::all`]; a helper's account outside [`KEPT`] has the last helper's.
    pub fn place(self) -> usize {
        let kept = |account| KEPT.iter().position(|kept| *kept == account).unwrap_or(KEPT.len() - 1);
        match self {
            Cause::Account(account) => account as usize,
            Cause::Suspended => ACCOUNTS,
            Cause::Queue => ACCOUNTS + 1,
            Cause::Handoff => ACCOUNTS + 2,
            Cause::Steal => CAUSES,
            Cause::InDriver => CAUSES + 1,
            Cause::Pause => CAUSES + 2,
            Cause::AddressSpace => CAUSES + 3,
            Cause::Stopped => CAUSES + 4,
            Cause::Helper(account) => CAUSES + BESIDE + kept(account),
            Cause::Overlay(overlay) => CAUSES + BESIDE + KEPT.len() + overlay as usize,
        }
    }

    /// The word in reports, columns and attributes.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Account(account) => account.name(),
            Cause::Suspended => "suspended",
            Cause::Queue => "queue",
            Cause::Handoff => "handoff",
            Cause::Steal => "steal",
            Cause::InDriver => Metric::CpuGpu.row().name,
            Cause::Pause => "pause",
            Cause::AddressSpace => "address_space",
            Cause::Stopped => "stopped",
            Cause::Helper(account) => Quantity::Helper(account).row().path,
            Cause::Overlay(Overlay::Spin) => "cpu.spin",
            Cause::Overlay(Overlay::Fault) => "cpu.fault",
            Cause::Overlay(Overlay::Syscall) => "cpu.syscall",
            Cause::Overlay(Overlay::Irq) => "cpu.irq",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_a_place_and_a_name_of_its_own() {
        assert_eq!(Cause::all().map(Cause::place).collect::<Vec<_>>(), (0..ALL_CAUSES).collect::<Vec<_>>());
        assert!(Cause::all().take(CAUSES).eq(Cause::of_time()));
        let names: std::collections::HashSet<&str> = Cause::all().map(Cause::name).collect();
        assert_eq!(names.len(), ALL_CAUSES);
    }
}
