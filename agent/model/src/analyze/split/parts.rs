//! Numbers by cause, each with a name: the one list that everything which adds or divides them goes through.

use guestscope_contract::{ACCOUNTS, metrics::KEPT};

use crate::analyze::cause::{CAUSES, Cause, Overlay};

/// Number of samples' kinds that are overlays.
const OVERLAYS: usize = Overlay::ALL.len();

/// A number for each cause of time, and the numbers beside the time. The causes of time (up to `handoff`) are
/// exclusive and add up to the duration; the numbers beside it are parts of them, or time of other threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts<T> {
    /// Time on threads, in the order of [`Account::ALL`](guestscope_contract::Account::ALL).
    pub accounts: [T; ACCOUNTS],
    /// Time on no thread, between leave and enter.
    pub suspended: T,
    /// Time between the scheduled arrival and the start.
    pub queue: T,
    /// Time of a connection's request on an unknown thread, or on none.
    pub handoff: T,
    /// For how long a helper was kept from running while the phase's thread was on a CPU, in the order of
    /// [`KEPT`].
    pub kept_on_cpu: [T; KEPT.len()],
    /// The same while the phase's thread waited.
    pub kept_waiting: [T; KEPT.len()],
    /// Time on a CPU that the hypervisor had taken away: the kernel's sum, no estimate.
    pub steal: T,
    /// Time on a CPU inside functions of a graphics processor's driver: a part of `cpu`, no estimate.
    pub in_driver: T,
    /// For how long the guest was stopped.
    pub pause: T,
    /// Time of waits for the lock of the address space: a part of `fault` and of `other`.
    pub address_space: T,
    /// Time in which a signal, a debugger or the freezer kept the thread from running: a part of `other`.
    pub stopped: T,
    /// Time of its reads in queues and in devices: a sum over I/Os, no part of the time.
    pub reading: T,
    /// Time on a CPU by samples, in the order of [`Overlay::ALL`].
    pub sampled: [T; OVERLAYS],
    /// Time on a CPU by samples in the program's own code.
    pub own_code: T,
}

/// Applies a function to two arrays, number by number.
fn both<T: Copy, U: Copy, V, const N: usize>(
    mine: [T; N],
    theirs: [U; N],
    f: &mut impl FnMut(T, U) -> V,
) -> [V; N] {
    std::array::from_fn(|index| f(mine[index], theirs[index]))
}

impl<T: Copy> Parts<T> {
    /// Applies a function to each number of two, field by field.
    pub fn zip<U: Copy, V>(&self, other: &Parts<U>, mut f: impl FnMut(T, U) -> V) -> Parts<V> {
        let f = &mut f;
        Parts {
            accounts: both(self.accounts, other.accounts, f),
            suspended: f(self.suspended, other.suspended),
            queue: f(self.queue, other.queue),
            handoff: f(self.handoff, other.handoff),
            kept_on_cpu: both(self.kept_on_cpu, other.kept_on_cpu, f),
            kept_waiting: both(self.kept_waiting, other.kept_waiting, f),
            steal: f(self.steal, other.steal),
            in_driver: f(self.in_driver, other.in_driver),
            pause: f(self.pause, other.pause),
            address_space: f(self.address_space, other.address_space),
            stopped: f(self.stopped, other.stopped),
            reading: f(self.reading, other.reading),
            sampled: both(self.sampled, other.sampled, f),
            own_code: f(self.own_code, other.own_code),
        }
    }

    /// Applies a function to each number.
    pub fn map<V>(&self, mut f: impl FnMut(T) -> V) -> Parts<V> {
        self.zip(self, |mine, _| f(mine))
    }

    /// The causes of time with their numbers, in the order of [`Cause::of_time`].
    pub fn time(&self) -> impl Iterator<Item = (Cause, T)> + '_ {
        self.into_time()
    }

    /// The same, on its own.
    pub fn into_time(self) -> impl Iterator<Item = (Cause, T)> {
        let Self { accounts, suspended, queue, handoff, .. } = self;
        Cause::of_time().zip(accounts.into_iter().chain([suspended, queue, handoff]))
    }

    /// Numbers of the causes of time, to be changed, in the order of [`Cause::of_time`].
    pub fn time_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let Self { accounts, suspended, queue, handoff, .. } = self;
        accounts.iter_mut().chain([suspended, queue, handoff])
    }

    /// The number of one cause of time; none for causes of excesses only.
    pub const fn time_of(&self, cause: Cause) -> Option<T> {
        match cause {
            Cause::Account(account) => Some(self.accounts[account as usize]),
            Cause::Suspended => Some(self.suspended),
            Cause::Queue => Some(self.queue),
            Cause::Handoff => Some(self.handoff),
            Cause::Steal
            | Cause::InDriver
            | Cause::Pause
            | Cause::AddressSpace
            | Cause::Stopped
            | Cause::Helper(_)
            | Cause::Overlay(_) => None,
        }
    }

    /// The same, to be changed.
    pub const fn time_of_mut(&mut self, cause: Cause) -> Option<&mut T> {
        match cause {
            Cause::Account(account) => Some(&mut self.accounts[account as usize]),
            Cause::Suspended => Some(&mut self.suspended),
            Cause::Queue => Some(&mut self.queue),
            Cause::Handoff => Some(&mut self.handoff),
            Cause::Steal
            | Cause::InDriver
            | Cause::Pause
            | Cause::AddressSpace
            | Cause::Stopped
            | Cause::Helper(_)
            | Cause::Overlay(_) => None,
        }
    }

    /// With other numbers for the causes of time, in the order of [`Cause::of_time`].
    #[must_use]
    pub fn with_time(mut self, values: impl IntoIterator<Item = T>) -> Self {
        self.time_mut().zip(values).for_each(|(mine, value)| *mine = value);
        self
    }

    /// All numbers, in the order of the fields.
    pub fn into_cells(self) -> impl Iterator<Item = T> {
        let Self {
            accounts,
            suspended,
            queue,
            handoff,
            kept_on_cpu,
            kept_waiting,
            steal,
            in_driver,
            pause,
            address_space,
            stopped,
            reading,
            sampled,
            own_code,
        } = self;
        let beside = kept_on_cpu
            .into_iter()
            .chain(kept_waiting)
            .chain([steal, in_driver, pause, address_space, stopped, reading])
            .chain(sampled);
        accounts.into_iter().chain([suspended, queue, handoff]).chain(beside).chain([own_code])
    }

    /// The same, to be changed.
    pub fn cells_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let Self {
            accounts,
            suspended,
            queue,
            handoff,
            kept_on_cpu,
            kept_waiting,
            steal,
            in_driver,
            pause,
            address_space,
            stopped,
            reading,
            sampled,
            own_code,
        } = self;
        let beside = kept_on_cpu
            .iter_mut()
            .chain(kept_waiting)
            .chain([steal, in_driver, pause, address_space, stopped, reading])
            .chain(sampled);
        accounts.iter_mut().chain([suspended, queue, handoff]).chain(beside).chain([own_code])
    }
}

/// How many numbers there are.
pub(in crate::analyze) const CELLS: usize = CAUSES + 2 * KEPT.len() + 6 + OVERLAYS + 1;
const _: () = assert!(size_of::<Parts<u64>>() == CELLS * 8);
