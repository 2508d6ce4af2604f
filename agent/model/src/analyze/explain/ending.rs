//! The conclusion: which cause to look at first, and what to do about it.
//!
//! Yields [`Advised`]. Without a prominent cause there is no advice; each piece of advice names the finding
//! that it rests on.

use super::{
    super::{Group, Headline, Span, advice, cause::Cause},
    By, Case,
    culprit::Culprit,
    explained::Explained,
    waits,
    whose::{Circle, Whose},
};
use guestscope_contract::{Account, metrics::Metric};

/// Share of the excess above the 90th percentile from which on a cause gets advice.
const WORTH: f64 = 0.25;
/// More advice would hide what matters.
const MOST: usize = 2;
/// An excess below the typical latency divided by this makes no request slow.
const HARDLY_SLOWER: i64 = 10;
/// Moves to another cache, beyond the usual, from which on they likely explain unexplained CPU time.
const MOVES: f64 = 1.0;

/// Why a cause is advised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// It is the main cause of most of the slowest requests.
    Slowest,
    /// It explains much of the excess above the 90th percentile.
    Tail,
    /// It explains most of the excess of the requested request, or of the slowest one where there are too
    /// few.
    Case,
    /// Threads moved between caches more than usual while CPU time was what grew.
    Counts,
    /// A limit was hit, though no request stands out.
    Limit,
}

/// Advice on one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advised {
    /// The cause, by the name in reports.
    pub cause: &'static str,
    /// The finding that the advice rests on.
    pub naming: Naming,
    /// The advice, with its source.
    pub advice: advice::Advice,
}

impl Explained {
    /// Advice on the causes of slow requests, most important first; `is_one`: one was asked for by number.
    pub fn advised(&self, group: &Group, is_one: bool, circle: &Circle) -> Vec<Advised> {
        let mut causes: Vec<(Cause, Naming)> = Vec::new();
        if is_one || matches!(group.headline, Headline::TooFew { .. }) {
            let slowest = self.cases.first().filter(|case| is_slow(case, group));
            causes.extend(slowest.and_then(leading).map(|cause| (cause, Naming::Case)));
        } else {
            if let Headline::Cause { cause, .. } = group.headline {
                causes.push((cause, Naming::Slowest));
            }
            let is_slow = !matches!(group.headline, Headline::Alike { .. });
            let of_tail = self.tails.first().filter(|_| is_slow).map_or(&[][..], |tail| &tail.causes);
            let worth = of_tail.iter().filter(|one| one.share >= WORTH);
            causes.extend(worth.map(|one| (one.cause, Naming::Tail)));
        }
        let mut advised: Vec<Advised> = Vec::new();
        for (cause, naming) in causes {
            push(&mut advised, cause.name(), self.key(cause, circle), naming);
            if cause == Cause::Account(Account::Cpu) && self.cases.iter().any(|case| moved(case) >= MOVES) {
                push(&mut advised, "migration", "migration", Naming::Counts);
            }
        }
        advised.truncate(MOST);
        advised
    }
}

impl Explained {
    /// The explained requests that lost time to a cause.
    pub fn spans(&self, cause: Cause) -> Vec<Span> {
        let span = |case: &Case| Span {
            begin_ns: case.begin_ns(),
            end_ns: case.end_ns(),
            ns: u64::try_from(case.excess_by(cause)).unwrap_or(0),
        };
        self.cases.iter().map(span).filter(|span| span.ns > 0).collect()
    }

    /// The explained requests that waited for threads which were kept from running in an account, and for how
    /// long these were.
    pub fn spans_of_others(&self, account: Account) -> Vec<Span> {
        let kept = |by: &By| matches!(by.culprit, Culprit::Kept(blame) if blame.account == account);
        let span = |case: &Case| {
            let parts = case.phases.iter().flat_map(|phase| &phase.parts);
            // A wait that a helper explains is listed with both.
            let own = parts.filter(|part| matches!(part.cause, Cause::Account(_)));
            let by = own.filter_map(|part| part.evidence.waits.as_ref()).flat_map(|waits| &waits.by);
            let ns = by.filter(|by| kept(by)).map(|by| by.kept_ns).sum();
            Span { begin_ns: case.begin_ns(), end_ns: case.end_ns(), ns }
        };
        self.cases.iter().map(span).filter(|span| span.ns > 0).collect()
    }

    /// The key of the advice on a cause: by whose processes had the CPU most of the time, or by what most of
    /// its waits were for.
    fn key(&self, cause: Cause, circle: &Circle) -> &'static str {
        if cause == Cause::Account(Account::Runq) {
            let used_ns = Whose::ALL.map(|whose| (self.used_ns(whose, circle), whose));
            let most = used_ns.into_iter().max().filter(|(ns, _)| *ns > 0);
            return most.map_or(cause.name(), |(_, whose)| whose.advice());
        }
        let (all, total_ns) = self.culprits(cause);
        if cause == Cause::Suspended && i128::from(total_ns) * 2 >= self.excess_by(cause) {
            return advice::HELD_UP;
        }
        let most = all.first().filter(|one| one.ns > total_ns / 2);
        match most.map(|one| &one.culprit) {
            Some(Culprit::InFlight { .. }) => advice::IN_FLIGHT,
            Some(Culprit::Device { is_held: true, .. }) => advice::HELD_BACK,
            Some(Culprit::AddressSpace { .. }) => advice::ADDRESS_SPACE,
            _ => cause.name(),
        }
    }

    /// The parts of the explained requests' excess that one cause explains, as far as they are more than
    /// usual, ns.
    fn excess_by(&self, cause: Cause) -> i128 {
        self.cases.iter().map(|case| i128::from(case.excess_by(cause).max(0))).sum()
    }

    /// Time that such processes had the CPU while the explained requests were queued for it, ns.
    pub fn used_ns(&self, whose: Whose, circle: &Circle) -> u64 {
        let mut sum_ns = 0_u64;
        for case in &self.cases {
            let parts = case.phases.iter().flat_map(|phase| &phase.parts);
            let runq = parts.filter(|part| part.cause == Cause::Account(Account::Runq) && part.excess_ns > 0);
            for by in runq.filter_map(|part| part.evidence.waits.as_ref()).flat_map(|waits| &waits.by) {
                let is_theirs =
                    matches!(by.culprit, Culprit::Ran { pid, .. } if circle.whose(pid, case.pid) == whose);
                sum_ns = sum_ns.saturating_add(if is_theirs { by.ns } else { 0 });
            }
        }
        sum_ns
    }

    /// Number of long waits of one cause in the explained requests.
    pub fn waits_of(&self, cause: Cause) -> u64 {
        let parts = self.cases.iter().flat_map(|case| &case.phases).flat_map(|phase| &phase.parts);
        let parts = parts.filter(|part| part.cause == cause && part.excess_ns > 0);
        let counts = parts.map(|part| {
            let own = part.evidence.waits.as_ref().map_or(0, |waits| waits.count);
            let of_helpers = part.evidence.helpers.iter().map(|helper| helper.count).sum::<u64>();
            if matches!(cause, Cause::Helper(_)) { of_helpers } else { own }
        });
        counts.sum()
    }

    /// Culprits of one cause in the explained requests, largest time first, and the sum of that time, ns. For
    /// helpers: the causes of their waits.
    pub fn culprits(&self, cause: Cause) -> (Vec<By>, u64) {
        let parts = self.cases.iter().flat_map(|case| &case.phases).flat_map(|phase| &phase.parts);
        let parts = parts.filter(|part| part.cause == cause && part.excess_ns > 0);
        let (mut all, mut total_ns): (Vec<By>, u64) = (Vec::new(), 0);
        for part in parts {
            let evidence = &part.evidence;
            let own = evidence.waits.iter().filter(|_| !matches!(cause, Cause::Helper(_)));
            let of_helpers = evidence.helpers.iter().flat_map(|helper| &helper.by);
            for one in own.flat_map(|waits| &waits.by).chain(of_helpers) {
                total_ns = total_ns.saturating_add(one.ns);
                match all.iter_mut().find_map(|known| known.culprit.takes(&one.culprit).then_some(known)) {
                    Some(known) => {
                        known.count += one.count;
                        known.ns = known.ns.saturating_add(one.ns);
                        known.kept_ns = known.kept_ns.saturating_add(one.kept_ns);
                    }
                    None => all.push(one.clone()),
                }
            }
        }
        waits::settle(&mut all);
        (all, total_ns)
    }
}

/// `cause`: its name, and the key of its advice.
fn push(advised: &mut Vec<Advised>, cause: &'static str, key: &str, naming: Naming) {
    if advised.iter().all(|one| one.cause != cause)
        && let Some(advice) = advice::for_cause(key)
    {
        advised.push(Advised { cause, naming, advice });
    }
}

fn is_slow(case: &Case, group: &Group) -> bool {
    case.excess_ns > 0 && case.excess_ns >= group.typical_ns as i64 / HARDLY_SLOWER
}

/// The largest part over all phases.
fn leading(case: &Case) -> Option<Cause> {
    let largest = Cause::all().map(|cause| (case.excess_by(cause), std::cmp::Reverse(cause))).max()?;
    (largest.0 > 0).then_some(largest.1.0)
}

/// Moves away from caches, more than usual, in phases whose CPU time grew most.
fn moved(case: &Case) -> f64 {
    let cpu = |phase: &&super::CasePhase| {
        phase.parts.first().is_some_and(|part| part.cause == Cause::Account(Account::Cpu))
    };
    let counts = case.phases.iter().filter(cpu).flat_map(|phase| &phase.parts[0].evidence.counts);
    let far = counts
        .filter(|one| [Metric::MigrateLlc, Metric::MigrateNode, Metric::MigrateRemote].contains(&one.metric));
    far.map(|one| one.count as f64 - one.typical).sum()
}
