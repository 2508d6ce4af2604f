//! Helpers: time of the other threads of a process, outside phases, while a phase ran.
//!
//! Every edge carries one sum over its process. Its growth between two edges is divided evenly among the
//! requests then in flight, since it is unknown for which of them a helper worked. Nested requests count as
//! one. Yields differences of the shares; for helpers' waits see `helper_waits`.

use guestscope_contract::{ACCOUNTS, EDGE_HELPERS_TORN, EdgeRecord};

use super::{
    accounts::Accounts,
    helped::{HelperWait, Helpers},
    table::{Set, Table},
    thread_id::ThreadId,
};

/// What the requests of one process have been given so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    /// Helpers' time given to each request in flight, summed since the process was first seen.
    given: Accounts,
    /// Time in which more than one was in flight, ns.
    crowded_ns: u64,
    /// Threads that are in no sum.
    unlisted: u32,
    /// The edge at which this was read has no sum.
    is_torn: bool,
}

#[derive(Debug, Default)]
struct Process {
    share: Share,
    /// Time and sum at the last edge.
    last: Option<(u64, [u64; ACCOUNTS])>,
    /// Remainder of the last division.
    rest: [u64; ACCOUNTS],
    /// Amount by which the sum fell and has not grown again since, ns.
    owed_ns: u64,
    in_flight: Set<Carrier>,
    threads: u32,
}

/// The carrier of something in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Carrier {
    /// The thread, however many phases it is inside.
    Thread(ThreadId),
    /// A request that is on no thread.
    Suspended(u64),
}

/// All processes, by number.
#[derive(Debug, Default)]
pub(crate) struct Processes(Table<u32, Process>);

impl Processes {
    /// An edge, before it is known what it means.
    pub(crate) fn edge(&mut self, record: &EdgeRecord) {
        let process = self.0.entry(record.ledger.tgid).or_default();
        process.share.unlisted = record.helpers.unlisted;
        process.share.is_torn = record.header.flags & EDGE_HELPERS_TORN != 0;
        if !process.share.is_torn {
            process.threads = record.helpers.threads;
            process.advance(record.header.time_ns, record.helpers.accounts, record.unseen_threads);
        }
    }

    /// Something of the process is in flight here, or no longer.
    pub(crate) fn carry(&mut self, tgid: u32, carrier: Carrier, is_carried: bool) {
        if is_carried {
            self.0.entry(tgid).or_default().in_flight.insert(carrier);
        } else if let Some(process) = self.0.get_mut(&tgid) {
            process.in_flight.remove(&carrier);
        }
    }

    /// Whether anything of the process is in flight.
    pub(crate) fn is_busy(&self, tgid: u32) -> bool {
        self.0.get(&tgid).is_some_and(|process| !process.in_flight.is_empty())
    }

    /// The process is gone.
    pub(crate) fn forget(&mut self, tgid: u32) {
        self.0.remove(&tgid);
    }

    /// What the requests of a process have been given so far.
    pub(crate) fn share(&self, tgid: u32) -> Share {
        self.0.get(&tgid).map_or_else(Share::default, |process| process.share)
    }

    /// The difference to an earlier reading.
    pub(crate) fn since(&self, tgid: u32, earlier: &Share) -> Helpers {
        let Some(process) = self.0.get(&tgid) else { return Helpers::default() };
        let now = &process.share;
        let mut accounts = now.given;
        for (now, before) in accounts.0.iter_mut().zip(earlier.given.0) {
            *now = now.saturating_sub(before);
        }
        // A damaged record's claims must still have a sum.
        accounts.fit(u64::MAX);
        let has_helped = accounts.total_ns() > 0;
        Helpers {
            accounts,
            threads: process.threads.saturating_sub(1),
            shared: has_helped && now.crowded_ns > earlier.crowded_ns,
            partial: now.unlisted > 0 || now.is_torn || earlier.is_torn,
            wait: HelperWait::default(),
        }
    }
}

impl Process {
    /// `unseen`: threads inside requests that the agent does not get to see.
    fn advance(&mut self, time_ns: u64, sum: [u64; ACCOUNTS], unseen: u32) {
        let Some((before_ns, before)) = self.last.replace((time_ns, sum)) else { return };
        let seen = self.in_flight.len() as u64;
        let in_flight = seen + u64::from(unseen);
        if seen == 0 {
            (self.rest, self.owed_ns) = ([0; ACCOUNTS], 0);
            return;
        }
        if in_flight > 1 {
            let crowded_ns = time_ns.saturating_sub(before_ns);
            self.share.crowded_ns = self.share.crowded_ns.saturating_add(crowded_ns);
        }
        let grown = growth(&before, &sum, &mut self.owed_ns);
        for ((given, rest), grown) in self.share.given.0.iter_mut().zip(&mut self.rest).zip(grown) {
            let whole = grown.saturating_add(*rest);
            *given = given.saturating_add(whole / in_flight);
            *rest = whole % in_flight;
        }
    }
}

/// Growth of a sum. An open wait is charged to its apparent account: if that turns out wrong, the account
/// shrinks, and the difference is taken from the account that grew most. An edge that is delayed between
/// reading its clock and its sum has more than the next one: a difference larger than all growth stays owed,
/// so that no time counts twice.
fn growth(before: &[u64; ACCOUNTS], now: &[u64; ACCOUNTS], owed_ns: &mut u64) -> [u64; ACCOUNTS] {
    let mut grown = [0; ACCOUNTS];
    let mut owed = *owed_ns;
    for ((grown, before), now) in grown.iter_mut().zip(before).zip(now) {
        let difference = now.wrapping_sub(*before).cast_signed();
        *grown = u64::try_from(difference).unwrap_or(0);
        owed = owed.saturating_add(u64::try_from(difference.saturating_neg()).unwrap_or(0));
    }
    while owed > 0
        && let Some(largest) = grown.iter_mut().max().filter(|largest| **largest > 0)
    {
        let taken = owed.min(*largest);
        *largest -= taken;
        owed -= taken;
    }
    *owed_ns = owed;
    grown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_less_is_taken_from_what_grew_most() {
        let mut before = [0; ACCOUNTS];
        let mut now = [0; ACCOUNTS];
        (before[1], before[2]) = (100, 0);
        (now[1], now[2]) = (70, 50);
        let mut owed_ns = 0;
        let grown = growth(&before, &now, &mut owed_ns);
        assert_eq!((grown[1], grown[2], owed_ns), (0, 20, 0));
    }

    #[test]
    fn a_sum_that_goes_down_and_up_again_counts_once() {
        let of = |ns: u64| std::array::from_fn(|account| if account == 0 { ns } else { 0 });
        let mut owed_ns = 0;
        let sums = [1_000, 1_100, 1_030, 1_080, 1_150].map(of);
        let grown = sums.windows(2).map(|pair| growth(&pair[0], &pair[1], &mut owed_ns)[0]);
        assert_eq!(grown.collect::<Vec<u64>>(), [100, 0, 0, 50]);
    }
}
