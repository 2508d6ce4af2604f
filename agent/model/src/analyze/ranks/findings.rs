//! What is concluded, as plain data, and the numbers from which on it is.

use guestscope_contract::Account;

use crate::untrusted::Untrusted;

/// Phases that all processes of a group go through together: those of the preset `nccl`. Whoever makes phases
/// of these names from other libraries has them judged as well.
pub const COLLECTIVES: [&str; 5] = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"];

/// Calls that a process is judged by, at least: of two equal processes one comes last to 15 of 20 calls by
/// chance once in 25 times, and of more processes less often.
pub const LEAST_CALLS: usize = 20;
/// A process is named only if it came last to this part of the calls: half of them is what one of two equal
/// processes comes to.
pub const OFTEN: f64 = 0.75;
/// It is named only if the next one would have come earlier by this part of the time between two calls: a
/// training that loses less hardly gains by a cure.
pub const MUCH: f64 = 0.02;
/// It is named only if the next one came earlier by this, ns: processes that leave a collective together are
/// woken one after the other, tens of microseconds apart.
pub const LEAST_NS: u64 = 50_000;

/// A process that takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Number of its folder, in the order of reading.
    pub folder: usize,
    /// Its process ID.
    pub pid: u32,
    /// Name of the thread that made its first collective.
    pub comm: Untrusted,
}

/// What is known of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Number of the clock of its times: folders of one boot share one.
    pub clock: usize,
    /// Its program was started under observation, so no process was joined in the middle of its work.
    pub is_from_start: bool,
    /// Nothing is known to be lost of it.
    pub is_whole: bool,
    /// It knows `cpu`, `runq` and `other` only.
    pub is_coarse: bool,
}

/// On what terms processes are judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The folders, by their numbers.
    pub folders: Vec<Observed>,
    /// How far two clocks can be apart, ns.
    pub apart_ns: u64,
}

/// How a process came to the calls of one collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The process, by its place in [`Judged::ranks`].
    pub rank: usize,
    /// Calls that it came last to; with another one at the same time it is neither.
    pub last: u64,
    /// How much later than the mean of the others it came, in the mean, ns; negative: earlier.
    pub late_ns: i64,
    /// How much later than the latest of the others it came, the median, ns; negative if that one came later.
    pub margin_ns: i64,
}

/// Why calls of a process cannot be put beside those of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// It made them at other times than the others: it belongs to another run, or its clock is wrong.
    OtherTimes,
    /// More than one order fits.
    Unclear,
    /// Not all calls fit as the first ones do: calls are missing between them, or it fell behind by more than
    /// half of the time between two calls, as where processes do not wait for each other.
    Shifted,
}

/// What is concluded of one collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This process mostly came last, by so much that it matters.
    Late(usize),
    /// None came last to most calls.
    Even,
    /// This process mostly came last, by so little that it does not matter.
    Little(usize),
    /// This process mostly came last, by less than the clocks can be apart.
    WithinClocks(usize),
    /// This process mostly came last, if calls belong together as their times suggest. That is not certain,
    /// and it does not come later in its steps than the others in theirs: it may be early for the next call.
    Ambiguous(usize),
    /// Fewer calls than [`LEAST_CALLS`] belong together.
    TooFew,
    /// Calls of this process cannot be put beside those of the others.
    Unmatched(usize, Mismatch),
}

/// A collective that two or more processes called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Its name.
    pub name: &'static str,
    /// Calls that all of these processes made.
    pub calls: u64,
    /// Calls that not all of them made or that were not seen in all of them, of all processes.
    pub unmatched: u64,
    /// Time from one call to the next, the mean, ns; 0 with less than two calls.
    pub between_ns: u64,
    /// The processes, the latest first; none if calls cannot be put beside each other.
    pub arrivals: Vec<Arrival>,
    /// What is concluded.
    pub verdict: Verdict,
}

impl Collective {
    /// How this process came to it; none if it is not among those whose calls belong together.
    pub fn arrival(&self, rank: usize) -> Option<&Arrival> {
        self.arrivals.iter().find(|arrival| arrival.rank == rank)
    }
}

/// Time of one account in a step, the mean over the steps, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The account.
    pub account: Account,
    /// The process's time.
    pub own_ns: u64,
    /// The mean of the other processes.
    pub others_ns: u64,
}

impl Difference {
    /// What the process has more than the others, ns; negative: less.
    pub fn ns(&self) -> i64 {
        self.own_ns.cast_signed().saturating_sub(self.others_ns.cast_signed())
    }
}

/// By what the steps of a process differ from those of the others. The time in collectives is left out: who
/// comes early waits there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Name of the requests that are the steps.
    pub name: Untrusted,
    /// Steps of the process.
    pub own: u64,
    /// Steps of the others.
    pub others: u64,
    /// Accounts that differ so much that it matters beside the lateness, the largest difference first.
    pub accounts: Vec<Difference>,
    /// The same of the process's other threads meanwhile, of the accounts in which a thread has work.
    pub helpers: Vec<Difference>,
}

impl Steps {
    /// Whether they differ by anything that matters.
    pub fn has_differences(&self) -> bool {
        !self.accounts.is_empty() || !self.helpers.is_empty()
    }
}

/// The process that came late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Straggler {
    /// The process, by its place in [`Judged::ranks`].
    pub rank: usize,
    /// The collective at which the others could have saved most, by its place in [`Judged::collectives`].
    pub collective: usize,
    /// Why it was late; none if it or the others have no steps: requests other than collectives.
    pub steps: Option<Steps>,
}

/// The findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// The processes that called collectives, in the order of folders and process IDs.
    pub ranks: Vec<Rank>,
    /// The collectives that two or more of them called.
    pub collectives: Vec<Collective>,
    /// The process that mostly came last, if one did.
    pub straggler: Option<Straggler>,
    /// Clocks that these processes' times are of.
    pub clocks: usize,
    /// Calls that found no room.
    pub left_out: u64,
    /// Some folders of these processes know `cpu`, `runq` and `other` only: steps are compared by these.
    pub is_coarse: bool,
}
