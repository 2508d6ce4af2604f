//! Advice on one cause of the explained requests: which of the table's entries fits what was behind it.

use guestscope_contract::{Account, metrics::Metric};

use super::{
    super::{
        COLLECTION, advice,
        cause::{Cause, Overlay},
    },
    Behind, Case, Compared,
    culprit::Culprit,
    ending::WORTH,
    explained::Explained,
    whose::{Circle, Whose},
};
use crate::phase::Blame;

/// Part of the CPU time that was waited for, from which on own threads that busy-wait are advised on, if
/// that is much of what their process does: less than for others, as it served nobody.
const WASTED: f64 = 0.1;
/// Part of the waits for devices from which on queues are the reason.
const QUEUED_LEAST: f64 = 0.5;
/// Part of them above which several of its own I/Os stood in queues at once.
const QUEUED_MOST: f64 = 1.5;

impl Explained {
    /// Advice on a cause: on each group of processes that had much of the CPU time that was waited for, and
    /// by what most of its waits were for.
    pub(super) fn advice(&self, cause: Cause, circle: &Circle) -> Vec<(Option<Whose>, advice::Advice)> {
        let behind = self.behind(cause, circle);
        let is_of_helpers = cause == Cause::Helper(Account::Runq);
        if is_of_helpers || cause == Cause::Account(Account::Runq) {
            let used = behind.used_ns();
            let all_ns = used.iter().map(|&(_, ns)| ns).sum::<u64>() as f64;
            let is_wasted = |case: &Case| circle.wasted(case.pid).is_some_and(|share| share >= WORTH);
            let is_much = self.cases.iter().any(is_wasted);
            let least = |whose: Whose| if whose == Whose::Own && is_much { WASTED } else { WORTH };
            let much = used.iter().filter(|&&(whose, ns)| ns as f64 >= all_ns * least(whose));
            let of_group =
                |&(whose, _): &(Whose, u64)| Some((Some(whose), self.on_users(whose, cause, circle)?));
            let groups: Vec<(Option<Whose>, advice::Advice)> = much.filter_map(of_group).collect();
            if !groups.is_empty() {
                return groups;
            }
        }
        let key = self.key(cause, &behind, circle);
        let known = (cause == Cause::Overlay(Overlay::Spin))
            .then(|| advice::for_spinning(advice::SPINNING, &circle.spun))
            .flatten();
        known.or_else(|| advice::for_cause(key)).map(|advice| (None, advice)).into_iter().collect()
    }

    /// The key of the advice on a cause: by what most of its waits were for, or by what was counted.
    fn key(&self, cause: Cause, behind: &Behind, circle: &Circle) -> &'static str {
        self.key_by_waits(cause, behind, circle)
            .or_else(|| self.key_by_counts(cause, behind, circle))
            .unwrap_or(cause.name())
    }

    fn key_by_waits(&self, cause: Cause, behind: &Behind, circle: &Circle) -> Option<&'static str> {
        let is_socket = matches!(cause, Cause::Account(Account::Net | Account::Poll));
        let is_block_io = cause == Cause::Account(Account::BlockIo);
        let is_mostly_for_the_lock =
            behind.is_mostly(|culprit| matches!(culprit, Culprit::AddressSpace { .. }));
        if let Some(key) = on_workers(behind) {
            return Some(key);
        }
        let key = match behind.most() {
            _ if is_for_a_thread(cause) && behind.is_of_queued() => advice::PEER_QUEUED,
            Some(Culprit::Held { .. }) if behind.is_by_turns() => advice::INTERPRETER,
            _ if behind.is_from_outside(circle) => advice::FROM_OUTSIDE,
            _ if is_mostly_for_the_lock => advice::ADDRESS_SPACE,
            Some(Culprit::InFlight { .. }) => advice::IN_FLIGHT,
            Some(Culprit::Device { is_held: true, .. }) => advice::HELD_BACK,
            Some(Culprit::Device { .. }) if is_block_io && self.is_queued() => advice::QUEUED,
            Some(Culprit::Device { is_write: true, .. }) if is_block_io => advice::WRITES,
            Some(Culprit::Stopped { by, .. } | Culprit::Kept(Blame { stopped_by: Some(by), .. })) => {
                advice::of_stops(*by)
            }
            Some(Culprit::Kept(blame)) if is_socket && blame.account == Account::Net => advice::BOTH_WAIT,
            Some(Culprit::Kept(_) | Culprit::Woken { .. }) if cause == Cause::Account(Account::Other) => {
                advice::OF_A_THREAD
            }
            _ => return None,
        };
        Some(key)
    }

    fn key_by_counts(&self, cause: Cause, behind: &Behind, circle: &Circle) -> Option<&'static str> {
        let of = |account: Account| cause == Cause::Account(account);
        let is_held_up = || i128::from(behind.total_ns) * 2 >= self.excess_by(cause);
        let is_without_reads = || behind.is_without_devices() && !self.read_more(cause);
        let key = match () {
            () if cause == Cause::Suspended && is_held_up() => advice::HELD_UP,
            () if of(Account::Fault) && is_without_reads() => advice::WITHOUT_READS,
            () if of(Account::BlockIo) && self.is_queued() => advice::QUEUED,
            () if of(Account::BlockIo) && self.writes_more(cause) => advice::WRITES,
            () if cause == Cause::Overlay(Overlay::Fault) && self.reads_at_faults() => Account::Fault.name(),
            () if cause == Cause::Overlay(Overlay::Syscall) && self.yields(circle) => advice::YIELDS,
            () if of(Account::Cpu) && self.collects() => advice::COLLECTOR,
            () if of(Account::Other) && behind.total_ns == 0 => advice::UNSEEN,
            () if of(Account::Net) && self.is_on_the_way() => advice::ON_THE_WAY,
            () if of(Account::Poll) && self.works_meanwhile(cause) => advice::OWN_WORK,
            () => return None,
        };
        Some(key)
    }

    /// Whether I/Os stood in queues for most of what waiting for devices took longer: others' I/O was before
    /// them. Queues of its own I/Os, many at once, add up to more than that.
    fn is_queued(&self) -> bool {
        let queued_ns = self.more(Cause::Account(Account::BlockIo), Metric::BlockQueue);
        let excess_ns = self.excess_by(Cause::Account(Account::BlockIo)) as f64;
        queued_ns > 0.0 && queued_ns >= excess_ns * QUEUED_LEAST && queued_ns <= excess_ns * QUEUED_MOST
    }

    /// Whether most of the time in system calls went to `sched_yield`, here or over the whole run: it spins.
    fn yields(&self, circle: &Circle) -> bool {
        let most = self.most_called(circle).or_else(|| circle.called.most());
        most.is_some_and(|most| libc::c_long::from(most.syscall) == libc::SYS_sched_yield)
    }

    /// Whether threads of their own processes ran meanwhile in most of what a cause took longer.
    fn works_meanwhile(&self, cause: Cause) -> bool {
        let parts = self.cases.iter().flat_map(|case| &case.phases).flat_map(|phase| &phase.parts);
        let longer = parts.filter(|part| part.cause == cause && part.excess_ns > 0);
        let (mut all_ns, mut beside_ns) = (0, 0);
        for part in longer {
            all_ns += i128::from(part.excess_ns);
            beside_ns += part.evidence.meanwhile.map_or(0, |_| i128::from(part.excess_ns));
        }
        beside_ns * 2 > all_ns
    }

    /// The counts of the explained requests in parts of this cause.
    fn counts(&self, cause: Cause) -> impl Iterator<Item = &Compared> {
        let parts = self.cases.iter().flat_map(|case| &case.phases).flat_map(|phase| &phase.parts);
        parts.filter(move |part| part.cause == cause).flat_map(|part| &part.evidence.counts)
    }

    /// By how much such a count, summed up, is above the typical one.
    fn more(&self, cause: Cause, metric: Metric) -> f64 {
        let counts = self.counts(cause).filter(|one| one.metric == metric);
        counts.map(|one| one.count as f64 - one.typical).sum()
    }

    /// Whether the explained requests had more major faults, or more I/Os, than a typical one where a cause
    /// took longer: waits too short to be recorded name no device.
    fn read_more(&self, cause: Cause) -> bool {
        let is_of_reads = |one: &&Compared| matches!(one.metric, Metric::FaultMajor | Metric::BlockIo);
        self.counts(cause).filter(is_of_reads).any(|one| one.count as f64 >= one.typical + 1.0)
    }

    /// Whether the explained requests wrote more than a typical one, and that more than they read: waits too
    /// short to be recorded do not say which of both they were for.
    fn writes_more(&self, cause: Cause) -> bool {
        let [written, read] =
            [Metric::BlockWriteBytes, Metric::BlockReadBytes].map(|metric| self.more(cause, metric));
        written > 0.0 && written > read
    }

    /// Whether at least half of the page faults beyond the usual had to read.
    fn reads_at_faults(&self) -> bool {
        let more = |metric| self.more(Cause::Overlay(Overlay::Fault), metric);
        let major = more(Metric::FaultMajor);
        major >= 1.0 && major >= more(Metric::FaultMinor)
    }

    /// Whether at least half of the CPU time beyond the usual was that of a garbage collector.
    fn collects(&self) -> bool {
        let phases = self.cases.iter().flat_map(|case| &case.phases);
        let collections = phases.filter(|phase| phase.path.last().is_some_and(|name| *name == COLLECTION));
        let parts = collections.flat_map(|phase| &phase.parts);
        let cpu = parts.filter(|part| part.cause == Cause::Account(Account::Cpu));
        let excess_ns: i128 = cpu.map(|part| i128::from(part.excess_ns)).sum();
        excess_ns > 0 && excess_ns * 2 >= self.excess_by(Cause::Account(Account::Cpu))
    }

    /// Advice on waits for a CPU that such processes had: the requests' own waits, or their helpers'.
    fn on_users(&self, whose: Whose, cause: Cause, circle: &Circle) -> Option<advice::Advice> {
        let spins = |case: &Case| circle.spinning(case.pid).is_some_and(|share| share >= WORTH);
        let is_spinning = whose == Whose::Own && self.cases.iter().any(spins);
        let spinning = is_spinning.then(|| advice::for_spinning(advice::OWN_SPINNING, &circle.spun));
        let key = if whose == Whose::Stranger { cause.name() } else { whose.advice() };
        spinning.flatten().or_else(|| advice::for_cause(key))
    }

    /// Whether the way to the peers takes much of what was waited for sockets, by the round trips that the
    /// kernel measured.
    fn is_on_the_way(&self) -> bool {
        let net = Cause::Account(Account::Net);
        let way_ns = self.more(net, Metric::NetRoundTrip);
        way_ns > 0.0 && way_ns >= self.excess_by(net) as f64 * WORTH
    }
}

/// The key of the advice where most waits were for threads that had the work: by what delayed them, if one
/// account has most of that.
fn on_workers(behind: &Behind) -> Option<&'static str> {
    let is_given = |culprit: &Culprit| matches!(culprit, Culprit::Given { .. });
    if !behind.is_mostly(is_given) {
        return None;
    }
    let delay = |culprit: &Culprit| if let Culprit::Given { blame, .. } = culprit { *blame } else { None };
    let is_by =
        |by: Account| move |culprit: &Culprit| delay(culprit).is_some_and(|blame| blame.account == by);
    let most = Account::ALL.into_iter().find(|by| behind.is_mostly(is_by(*by)));
    let stopped_by = behind.by.iter().find_map(|one| delay(&one.by.culprit)?.stopped_by);
    Some(match (most, stopped_by) {
        (Some(Account::Other), Some(by)) => advice::of_stops(by),
        (Some(by), _) => by.name(),
        (None, _) => advice::OF_A_THREAD,
    })
}

/// Whether a cause is waiting of the thread itself that other threads end.
const fn is_for_a_thread(cause: Cause) -> bool {
    matches!(cause, Cause::Account(Account::Net | Account::Poll | Account::Lock | Account::Other))
}
