//! The conclusion: which causes to look at, in their order, and what to do about each.
//!
//! Yields [`Advised`], and a [`Headline`] that begins with the same cause. The order is that of the causes'
//! shares in what the requests above the 90th percentile took longer. Without a prominent cause there is no
//! advice; each piece of advice names the finding that it rests on.

use super::{
    super::{Group, Headline, Span, advice, cause::Cause, moves, slow::Slow},
    By, Case,
    culprit::Culprit,
    explained::Explained,
    tail::TailCause,
    whose::{Circle, Whose},
};
use guestscope_contract::Account;

/// Share of the excess from which on a cause gets advice; the largest one always does.
pub(super) const WORTH: f64 = 0.25;
/// The same for a cause that the headline names.
const WORTH_IF_NAMED: f64 = 0.05;
/// More advice would hide what matters.
const MOST: usize = 4;
/// An excess below the typical latency divided by this makes no request slow.
const HARDLY_SLOWER: i64 = 10;

/// Why a cause is advised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// It is the cause that the headline names: the main one of most of the slowest requests, or the one that
    /// outweighs all others.
    Slowest,
    /// It explains much of the excess above the 90th percentile.
    Tail,
    /// It explains much of the excess of the requested request, or of the slow ones where there are too few.
    Case,
    /// Threads moved between caches more than usual while CPU time was what grew.
    Counts {
        /// Moves beyond the usual, over the explained requests.
        moves: u64,
        /// What these cost at most, ns.
        at_most_ns: u64,
    },
    /// A limit was hit, though no request stands out.
    Limit,
}

/// Advice on one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advised {
    /// The cause, by the name in reports.
    pub cause: &'static str,
    /// Whose processes had the CPU, where the advice depends on it.
    pub group: Option<Whose>,
    /// The finding that the advice rests on.
    pub naming: Naming,
    /// The advice, with its source.
    pub advice: advice::Advice,
}

impl Explained {
    /// Advice on the causes of slow requests, most important first; `is_one`: one was asked for by number.
    pub fn advised(&self, group: &Group, is_one: bool, circle: &Circle) -> Vec<Advised> {
        let mut advised: Vec<Advised> = Vec::new();
        for (cause, naming) in self.worth(group, is_one) {
            for (whose, advice) in self.advice(cause, circle) {
                advised.push(Advised { cause: cause.name(), group: whose, naming, advice });
            }
            if cause == Cause::Account(Account::Cpu) {
                advised.extend(self.advice_on_moves());
            }
        }
        // Of so few requests it is not worth a look why one of them computed for longer.
        let is_too_few = matches!(group.headline, Headline::TooFew { .. }) && !is_one;
        if is_too_few && advised.first().is_some_and(|one| one.advice.key == Account::Cpu.name()) {
            return Vec::new();
        }
        advised.truncate(MOST);
        once(&mut advised);
        advised
    }

    /// Causes to advise on, by their shares.
    fn worth(&self, group: &Group, is_one: bool) -> Vec<(Cause, Naming)> {
        let slowest = self.cases.first().filter(|case| is_slow(case, group));
        let is_few = matches!(group.headline, Headline::TooFew { .. });
        let is_nothing = if is_one || is_few {
            slowest.is_none()
        } else {
            matches!(group.headline, Headline::Alike { .. })
        };
        if is_nothing {
            return Vec::new();
        }
        let tail = self.tails.first().filter(|_| !is_one).map(|tail| tail.causes.clone());
        let shares = tail.or_else(|| slowest.map(shares)).unwrap_or_default();
        let named = named(&group.headline);
        let of_most =
            |cause: Cause| matches!(group.headline, Headline::Cause { cause: most, .. } if most == cause);
        let naming = |cause: Cause| match () {
            () if is_one || is_few => Naming::Case,
            () if of_most(cause) => Naming::Slowest,
            () => Naming::Tail,
        };
        let is_worth = |(index, one): &(usize, &TailCause)| {
            let is_named = !is_one && named.contains(&one.cause);
            let least = if is_named { WORTH_IF_NAMED } else { WORTH };
            one.excess_ns > 0 && (*index == 0 || one.share >= least)
        };
        let worth = shares.iter().enumerate().filter(is_worth);
        worth.map(|(_, one)| (one.cause, naming(one.cause))).collect()
    }

    /// The headline of these requests: that of the slowest, unless another cause than theirs explains most of
    /// what the requests above the 90th percentile took longer. Causes come in the order of their shares.
    pub fn headline(&self, group: &Group) -> Headline {
        let Some((tail, leading)) = self.leading() else { return group.headline.clone() };
        let rank = |cause: Cause| tail.causes.iter().position(|one| one.cause == cause);
        let mut causes = match &group.headline {
            Headline::Mixed { causes, .. } => causes.clone(),
            Headline::Cause { cause, .. } if *cause == leading.cause => return group.headline.clone(),
            Headline::TooFew { .. } | Headline::Alike { .. } => return group.headline.clone(),
            Headline::Cause { .. } | Headline::Shared { .. } => {
                let shared = Headline::shared(slow_of(group));
                if let Some(led) = shared.and_then(|shared| led(shared, leading.cause)) {
                    return led;
                }
                dominated(group)
            }
        };
        if causes.iter().all(|(cause, _)| *cause != leading.cause) {
            causes.push((leading.cause, 0));
        }
        causes.sort_by_key(|&(cause, _)| rank(cause).unwrap_or(usize::MAX));
        let slow = slow_of(group);
        let slowest = slow.len();
        let mean = |sum: i128| (sum / slowest.max(1) as i128) as i64;
        let excess_ns = mean(slow.iter().map(|slow| i128::from(slow.excess_ns)).sum());
        let without = slowest.saturating_sub(causes.iter().map(|(_, count)| count).sum());
        Headline::Mixed { slowest, causes, without, excess_ns }
    }

    /// The explained requests that lost time to a cause.
    pub fn spans(&self, cause: Cause) -> Vec<Span> {
        let held_ns = |case: &Case| {
            let parts = case.phases.iter().flat_map(|phase| &phase.parts).filter(|part| part.cause == cause);
            let by = parts.filter_map(|part| part.evidence.waits.as_ref()).flat_map(|waits| &waits.by);
            by.filter(|by| matches!(by.culprit, Culprit::Device { is_held: true, .. })).map(|by| by.ns).sum()
        };
        let span = |case: &Case| Span {
            begin_ns: case.begin_ns(),
            end_ns: case.end_ns(),
            ns: u64::try_from(case.excess_by(cause)).unwrap_or(0),
            held_ns: held_ns(case),
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
            Span { begin_ns: case.begin_ns(), end_ns: case.end_ns(), ns, held_ns: 0 }
        };
        self.cases.iter().map(span).filter(|span| span.ns > 0).collect()
    }

    /// The parts of the explained requests' excess that one cause explains, as far as they are more than
    /// usual, ns.
    pub(super) fn excess_by(&self, cause: Cause) -> i128 {
        self.cases.iter().map(|case| i128::from(case.excess_by(cause).max(0))).sum()
    }

    /// Advice on moves away from caches, more than usual, in phases whose CPU time grew most; none where they
    /// cannot have cost much of that.
    fn advice_on_moves(&self) -> Option<Advised> {
        let cpu = |phase: &&super::CasePhase| {
            phase.parts.first().is_some_and(|part| part.cause == Cause::Account(Account::Cpu))
        };
        let phases = self.cases.iter().flat_map(|case| &case.phases).filter(cpu);
        let (mut moves, mut at_most_ns, mut excess_ns) = (0.0, 0.0, 0.0);
        for part in phases.map(|phase| &phase.parts[0]) {
            excess_ns += part.excess_ns.max(0) as f64;
            for one in part.evidence.counts.iter().filter(|one| moves::COLD.contains(&one.metric)) {
                let more = one.count as f64 - one.typical;
                moves += more;
                at_most_ns += more * moves::price_ns(one.metric);
            }
        }
        if moves < 0.5 || at_most_ns < excess_ns * moves::WORTH {
            return None;
        }
        let naming = Naming::Counts { moves: moves.round() as u64, at_most_ns: at_most_ns as u64 };
        let advice = advice::for_cause(advice::MIGRATION)?;
        Some(Advised { cause: advice::MIGRATION, group: None, naming, advice })
    }
}

/// Names libraries that busy-wait once: a second piece of advice refers to the first.
pub(super) fn once(advised: &mut [Advised]) {
    let is_long =
        |one: &&mut Advised| [advice::SPINNING, advice::OWN_SPINNING].contains(&one.advice.key.as_str());
    for again in advised.iter_mut().filter(is_long).skip(1) {
        if let Some(short) = advice::for_cause(advice::SPINNING_AS_TOLD) {
            again.advice = short;
        }
    }
}

/// How many of the slowest requests each cause dominates, of those that the headline is about.
fn dominated(group: &Group) -> Vec<(Cause, usize)> {
    let count = |cause: Cause| slow_of(group).iter().filter(|slow| slow.dominant() == Some(cause)).count();
    Cause::all().map(|cause| (cause, count(cause))).filter(|(_, count)| *count > 0).collect()
}

/// The headline with this cause in front, if it names it.
fn led(mut headline: Headline, leading: Cause) -> Option<Headline> {
    let Headline::Shared { parts, .. } = &mut headline else { return None };
    let at = parts.iter().position(|(cause, _)| *cause == leading)?;
    parts[..=at].rotate_right(1);
    Some(headline)
}

/// The requests that the headline is about.
fn slow_of(group: &Group) -> &[Slow] {
    let slowest = match group.headline {
        Headline::Cause { slowest, .. }
        | Headline::Shared { slowest, .. }
        | Headline::Mixed { slowest, .. } => slowest,
        Headline::TooFew { .. } | Headline::Alike { .. } => 0,
    };
    &group.slowest[..slowest.min(group.slowest.len())]
}

/// Causes that a headline names.
fn named(headline: &Headline) -> Vec<Cause> {
    match headline {
        Headline::Cause { cause, .. } => vec![*cause],
        Headline::Shared { parts, .. } => parts.iter().map(|&(cause, _)| cause).collect(),
        Headline::Mixed { causes, .. } => causes.iter().map(|&(cause, _)| cause).collect(),
        Headline::TooFew { .. } | Headline::Alike { .. } => Vec::new(),
    }
}

fn is_slow(case: &Case, group: &Group) -> bool {
    case.excess_ns > 0 && case.excess_ns >= group.typical_ns as i64 / HARDLY_SLOWER
}

/// The causes of one request, as those of a tail.
fn shares(case: &Case) -> Vec<TailCause> {
    let of = |cause: Cause| {
        let excess_ns = case.excess_by(cause);
        let share = excess_ns as f64 / case.excess_ns.max(1) as f64;
        TailCause { cause, excess_ns: i128::from(excess_ns), share, requests: 0 }
    };
    let mut causes: Vec<TailCause> = Cause::all().map(of).filter(|one| one.excess_ns != 0).collect();
    causes.sort_by_key(|one| (std::cmp::Reverse(one.excess_ns), one.cause));
    causes
}
