//! Evidence for a part of an excess, in words: waits with their culprits, counts beside the typical ones,
//! samples.
//!
//! Yields one line of text per part, all of it from the analysis; unknown facts are left out.

use guestscope_contract::{Account, metrics::Metric};

use crate::{
    analyze::{
        Cause, Overlay,
        explain::{Ahead, By, Compared, HelperWaits, Meanwhile, OfGroup, Part, Sampled, Waits},
    },
    health::Fidelity,
};

use super::{
    super::units::{counted, duration, durations, thousands},
    calls,
    counted::{disk, is_as_usual, mean, network, number},
    culprits::{CULPRITS, Words},
};

const RUNQ: Cause = Cause::Account(Account::Runq);
/// Moves to other CPUs, of any distance.
const MIGRATIONS: [Metric; 4] =
    [Metric::MigrateSmt, Metric::MigrateLlc, Metric::MigrateNode, Metric::MigrateRemote];

/// Unexplained CPU time is mentioned from 1 / `MUCH` of the excess on.
const MUCH: i64 = 5;

/// Fewer samples do not support a share.
const ENOUGH_SAMPLES: u64 = 20;

/// The evidence for a part; `is_unusual`: typical requests have no such phase, which is the reason itself.
pub(super) fn about(part: &Part, words: &Words<'_>, is_unusual: bool) -> String {
    if part.excess_ns < 0 {
        return instead(part);
    }
    let mut clauses: Vec<String> = Vec::new();
    clauses.extend(before(part, words));
    if let Some(waits) = &part.evidence.waits {
        clauses.extend(words.waits(waits, part));
    }
    clauses.extend(words.helpers(part));
    clauses.extend(part.evidence.meanwhile.map(meanwhile));
    clauses.extend(behind(&part.evidence.ahead));
    let counts = of_counts(part);
    let is_counted = !counts.is_empty();
    clauses.extend(counts);
    clauses.extend(part.evidence.sampled.as_ref().and_then(|sampled| of_samples(sampled, part)));
    let is_told = is_unusual || is_counted && part.cause == Cause::Account(Account::Cpu);
    clauses.extend(after(part, words, clauses.is_empty()).filter(|_| !is_told));
    clauses.join("; ")
}

/// `its share of what other threads of its process ran meanwhile: 214 ms instead of 1.20 ms`.
fn meanwhile(Meanwhile { ns, typical_ns }: Meanwhile) -> String {
    let (ran, usual) = (duration(ns), duration(typical_ns as u64));
    format!("its share of what other threads of its process ran meanwhile: {ran} instead of {usual}")
}

/// Evidence for causes without waits.
fn before(part: &Part, words: &Words<'_>) -> Option<String> {
    let instead = || instead(part);
    match part.cause {
        Cause::Account(Account::Throttled) => words.facts.cpu_quota.as_ref().map(|quota| {
            let group =
                if quota.group.is_empty() { String::new() } else { format!("cgroup {}, ", quota.group) };
            format!("{group}quota {} per {}", duration(quota.quota_ns), duration(quota.period_ns))
        }),
        Cause::Steal => Some(format!("stolen by the hypervisor: {}", instead())),
        Cause::InDriver => Some(format!("on a CPU inside the driver, which spins or copies: {}", instead())),
        Cause::Pause => Some(format!("the whole guest was stopped for {}", duration(part.ns))),
        Cause::Queue => Some(format!("waited for its turn for {}", instead())),
        Cause::Suspended => Some(format!("on no thread between leave and enter: {}", instead())),
        Cause::Handoff => {
            Some(format!("on another thread or on none, which a socket does not say: {}", instead()))
        }
        Cause::Helper(_) => Some(format!("an estimate: helpers were kept from running for {}", instead())),
        Cause::Account(_) | Cause::AddressSpace | Cause::Stopped | Cause::Overlay(_) => None,
    }
}

/// Names what the rest was, if no other evidence does.
fn after(part: &Part, words: &Words<'_>, is_bare: bool) -> Option<String> {
    let is_much = part.excess_ns >= words.case.excess_ns / MUCH;
    match part.cause {
        Cause::Account(Account::Cpu) if is_much && !part.evidence.counts.iter().any(is_far) => {
            Some("nothing that is counted explains it: clock, caches, memory, or more work".to_owned())
        }
        Cause::Account(account) if is_bare && account != Account::Cpu => {
            let is_short = !part.evidence.left_out
                && words.has_all_waits()
                && words.facts.fidelity.is_none_or(Fidelity::is_whole);
            let short = if is_short { ", in waits too short to be recorded" } else { "" };
            Some(format!("{}{short}", instead(part)))
        }
        Cause::Account(_)
        | Cause::Suspended
        | Cause::Queue
        | Cause::Handoff
        | Cause::Steal
        | Cause::InDriver
        | Cause::Pause
        | Cause::AddressSpace
        | Cause::Stopped
        | Cause::Helper(_)
        | Cause::Overlay(_) => None,
    }
}

/// `6.75 ms instead of 312 us`.
fn instead(part: &Part) -> String {
    match part.typical_ns {
        0 => format!("{} instead of none", duration(part.ns)),
        typical_ns => format!("{} instead of {}", duration(part.ns), duration(typical_ns)),
    }
}

fn is_far(one: &Compared) -> bool {
    MIGRATIONS.contains(&one.metric) && one.count as f64 > one.typical + 0.5
}

impl Words<'_> {
    /// `2 waits (29.9 and 21.0 ms), behind stress-ng (pid 991)`.
    fn waits(&self, waits: &Waits, part: &Part) -> Vec<String> {
        if part.cause == Cause::Suspended {
            let culprits = self.culprits(&self.with_groups(&waits.by), waits.total_ns);
            let by = if culprits.is_empty() { "" } else { " by " };
            return vec![format!(
                "its thread was taken for {} of it{by}{culprits}",
                duration(waits.total_ns)
            )];
        }
        let mut clauses = Vec::new();
        let longest: Vec<u64> = waits.longest.iter().map(|one| one.ns).collect();
        let count = counted(waits.count, "wait", "waits");
        let times = match (waits.count, longest.as_slice()) {
            (_, []) => count,
            (..=1, [only, ..]) => format!("{count} of {}", duration(*only)),
            (many, all) if many as usize <= all.len() => {
                format!("{count} ({})", durations(&all[..many as usize]))
            }
            (_, [first, second, ..]) => {
                format!("{count}, the longest {} and {}", duration(*first), duration(*second))
            }
            (_, [only]) => format!("{count}, the longest {}", duration(*only)),
        };
        let calls = calls::text(&waits.calls, self.facts);
        // The call of a wait whose end says nothing stands in front already.
        let by: Vec<By> = waits.by.iter().filter(|by| !by.is_call() || calls.is_empty()).cloned().collect();
        let culprits = self.culprits(&self.with_groups(&by), waits.total_ns);
        let between = if calls.is_empty() { " " } else { ", " };
        let times = if calls.is_empty() { times } else { format!("{times} {calls}") };
        clauses.push(if culprits.is_empty() { times } else { format!("{times}{between}{culprits}") });
        let took = waits.longest.first().and_then(|longest| longest.took_tid);
        let took = took.filter(|tid| part.cause == RUNQ && self.threads.contains_key(tid));
        clauses.extend(took.map(|tid| format!("the longest began when {} took the CPU", self.thread(tid))));
        // The part of a helper is only some of the wait's account.
        let is_account = matches!(part.cause, Cause::Account(_));
        let short_ns = part.ns.saturating_sub(waits.total_ns);
        if is_account && short_ns > part.ns / 10 && !part.evidence.left_out {
            let why =
                if self.has_all_waits() { "too short to be recorded" } else { "that were lost or too short" };
            clauses.push(format!("{} in waits {why}", duration(short_ns)));
        }
        clauses
    }

    /// Whether all its waits above the threshold were recorded.
    const fn has_all_waits(&self) -> bool {
        self.facts.has_all_waits && self.case.switches_missed == 0
    }

    /// Waits of this request, with the groups of processes that had the CPU.
    fn with_groups(&self, by: &[By]) -> Vec<OfGroup> {
        let of = |by: &By| OfGroup { group: self.circle.group(&by.culprit, self.case), by: by.clone() };
        by.iter().map(of).collect()
    }

    /// Helpers with a relevant share, and what delayed them.
    fn helpers(&self, part: &Part) -> Vec<String> {
        let helpers = &part.evidence.helpers;
        let longest_ns = helpers.first().map_or(0, |helper| helper.ns);
        let matters = helpers.iter().filter(|helper| helper.ns >= longest_ns / 4);
        matters
            .take(CULPRITS)
            .map(|helper| {
                let HelperWaits { tid, count, ns, by } = helper;
                let waits = counted(*count, "wait", "waits");
                let culprits = self.culprits(&self.with_groups(by), *ns);
                let space = if culprits.is_empty() { "" } else { " " };
                format!("{} for {} in {waits}{space}{culprits}", self.thread(*tid), duration(*ns))
            })
            .collect()
    }
}

/// `behind #41 (80.1 ms of it; took 118 ms itself: throttled)`.
fn behind(ahead: &[Ahead]) -> Option<String> {
    let one = |Ahead { request, ns, latency_ns, cause }: &Ahead| {
        let cause = cause.map(|cause| format!(": {}", cause.name())).unwrap_or_default();
        format!("#{request} ({} of it; took {} itself{cause})", duration(*ns), duration(*latency_ns))
    };
    (!ahead.is_empty()).then(|| format!("behind {}", ahead.iter().map(one).collect::<Vec<_>>().join(", ")))
}

/// Counts that differ from the typical ones, in the words of the cause.
fn of_counts(part: &Part) -> Vec<String> {
    let find = |metric: Metric| part.evidence.counts.iter().find(|one| one.metric == metric);
    let mut clauses = Vec::new();
    let mut event = |metric: Metric, one: &str, many: &str| {
        clauses.extend(find(metric).and_then(|compared| differs(compared, one, many)));
    };
    match part.cause {
        Cause::Account(Account::Throttled) => {
            event(Metric::Throttle, "throttle episode", "throttle episodes");
        }
        Cause::Account(Account::Cpu | Account::Runq) => {
            event(Metric::MigrateRemote, "move to another memory node", "moves to another memory node");
            event(
                Metric::MigrateNode,
                "move to another last-level cache",
                "moves to another last-level cache",
            );
            event(Metric::MigrateLlc, "move to another core", "moves to another core");
            event(Metric::MigrateSmt, "move to a sibling CPU", "moves to a sibling CPU");
            event(Metric::SwitchInvoluntary, "forced switch", "forced switches");
        }
        Cause::Account(Account::BlockIo | Account::Fault) => {
            event(Metric::FaultMajor, "major fault", "major faults");
            clauses.extend(disk(part));
        }
        Cause::Account(Account::Net | Account::Poll) => {
            event(Metric::NetRetransmit, "segment sent again", "segments sent again");
            clauses.extend(network(part));
        }
        Cause::Account(Account::Gpu) | Cause::InDriver => {
            event(Metric::GpuWait, "wait in the driver", "waits in the driver");
            event(Metric::GpuCopyBlocking, "copy that blocked", "copies that blocked");
        }
        Cause::Overlay(Overlay::Fault) => clauses.extend(faults(part)),
        Cause::Account(Account::Lock | Account::Sleep | Account::Other)
        | Cause::Overlay(_)
        | Cause::Suspended
        | Cause::Queue
        | Cause::Handoff
        | Cause::Steal
        | Cause::Pause
        | Cause::AddressSpace
        | Cause::Stopped
        | Cause::Helper(_) => {}
    }
    clauses
}

/// `2 moves instead of 0.1`; nothing where there are no more than usual.
fn differs(Compared { count, typical, .. }: &Compared, one: &str, many: &str) -> Option<String> {
    let is_more = *count as f64 >= typical + 1.0 && !is_as_usual(*count, *typical);
    is_more.then(|| format!("{} instead of {}", counted(*count, one, many), mean(*typical)))
}

/// `5,408 page faults as always, but 5.90 us each instead of 1.20 us`.
fn faults(part: &Part) -> Option<String> {
    let (count, typical) = number(part, Metric::FaultMinor);
    if count == 0 {
        return None;
    }
    // Without samples of its own a price would be 0.
    if part.ns == 0 && part.excess_ns > 0 {
        return Some(counted(count, "page fault", "page faults"));
    }
    let each = |ns: u64, faults: f64| duration((ns as f64 / faults.max(1.0)) as u64);
    let mine = each(part.ns, count as f64);
    let count_text = counted(count, "page fault", "page faults");
    Some(match is_as_usual(count, typical) {
        true if part.typical_ns > 0 => {
            format!("{count_text} as always, but {mine} each instead of {}", each(part.typical_ns, typical))
        }
        true => format!("{count_text} as always, but {mine} each, where they usually cost next to nothing"),
        false => format!("{count_text} instead of {}, {mine} each", mean(typical)),
    })
}

/// `31 of 70 samples instead of 2.1: 22.0 to 28.1 ms more`; for the program's own code only the share.
fn of_samples(sampled: &Sampled, part: &Part) -> Option<String> {
    let Sampled { samples, of, typical, low_ns, high_ns } = sampled;
    let (samples, all) = (thousands(*samples), counted(*of, "sample", "samples"));
    match part.cause {
        Cause::Account(_) if *of < ENOUGH_SAMPLES => None,
        Cause::Account(_) => Some(format!("own code in {samples} of {all}")),
        Cause::Suspended
        | Cause::Queue
        | Cause::Handoff
        | Cause::Steal
        | Cause::InDriver
        | Cause::Pause
        | Cause::AddressSpace
        | Cause::Stopped
        | Cause::Helper(_)
        | Cause::Overlay(_) => {
            // Then the share that all slow requests have of it is what it stands for.
            if i128::from(part.excess_ns) > i128::from(*high_ns) {
                let of_all = "by its share in the samples of all slow requests";
                return Some(format!("{of_all}; here {samples} of {all} instead of {}", mean(*typical)));
            }
            let (low, high) = (duration(*low_ns), duration(*high_ns));
            Some(format!("{samples} of {all} instead of {}: {low} to {high} more", mean(*typical)))
        }
    }
}
