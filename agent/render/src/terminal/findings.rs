//! The answer in words: number of requests, cause of the slow ones, parts of the mean.
//!
//! Turns the conclusions of [`crate::analyze`] into sentences.

use guestscope_contract::{Account, metrics::Metric};

use crate::untrusted::{self, Untrusted};
use crate::{
    analyze::{COLLECTION, Cause, ENOUGH_REQUESTS, Group, Headline, OUTSIDE, Overlay, Peers, Slow, TakenBy},
    looks,
    platform::CpuQuota,
};

use super::{
    accounts::means,
    text::plain,
    units::{counted, difference, duration, percent, rate},
    waits_for,
};

/// `200 requests, p50 61.2 ms, p90 64.0 ms, p99 118 ms, 16.1/s`. Quantiles that need more requests are left
/// out; the maximum takes their place.
pub(super) fn numbers(group: &Group) -> String {
    let latency = &group.latency;
    let requests = counted(latency.count, "request", "requests");
    if latency.count == 1 {
        return format!("{requests}, {}", duration(latency.max_ns));
    }
    let mut parts = vec![requests, format!("p50 {}", duration(latency.p50_ns))];
    parts.extend(latency.p90_ns.map(|ns| format!("p90 {}", duration(ns))));
    parts.push(match latency.p99_ns {
        Some(ns) => format!("p99 {}", duration(ns)),
        None => format!("max {}", duration(latency.max_ns)),
    });
    parts.push(rate(group.throughput_per_s));
    parts.join(", ")
}

/// `mean 61.9 ms: cpu 59.4 ms, throttled 2.35 ms`.
pub(super) fn mean(group: &Group) -> String {
    let parts = means(&group.sums, count_of(group, Metric::PollNet), group.latency.count);
    let parts = if parts.is_empty() { "no time".to_owned() } else { parts.join(", ") };
    format!("mean {}: {parts}", duration(group.latency.mean_ns()))
}

/// The sentence on what made the slowest requests slow, and on what kept the threads that they waited for.
pub(super) fn headline_of(
    group: &Group,
    found: &Headline,
    cpu_quota: Option<&CpuQuota>,
    unicode: bool,
) -> String {
    let said = headline(found, cpu_quota, unicode);
    let Headline::Cause { cause, slowest, .. } = found else { return said };
    let slowest = &group.slowest[..(*slowest).min(group.slowest.len())];
    let device = (*cause == Cause::Account(Account::Poll)).then(|| in_flight(slowest, *cause)).flatten();
    let by_io = device
        .map(|name| format!("reads or writes of {} were in flight meanwhile", plain(name.stored(), unicode)));
    let taken = || TakenBy::of(slowest).filter(|_| *cause == Cause::Suspended);
    let more = by_io.or_else(|| taken().map(|by| taken_by(&by, unicode)));
    let more = more.or_else(|| Peers::of(slowest, *cause).map(of_peers));
    match more {
        Some(more) => format!("{said}; {more}"),
        None => said,
    }
}

/// `rerank of other requests had their threads for 153 ms of it, in the mean`
fn taken_by(TakenBy { phase, ns }: &TakenBy, unicode: bool) -> String {
    let by = plain(&waits_for::held_by(phase.as_ref()), unicode);
    format!("{by} had their threads for {} of it, in the mean", duration(*ns))
}

/// The device whose reads or writes were in flight in the longest waits of most of these requests that the
/// cause dominates.
fn in_flight(slowest: &[Slow], cause: Cause) -> Option<&Untrusted> {
    let dominated: Vec<&Slow> = slowest.iter().filter(|slow| slow.dominant() == Some(cause)).collect();
    let waits = dominated.iter().filter_map(|slow| slow.longest_wait.as_ref());
    let ios = waits.filter_map(|wait| wait.io.as_ref()).filter(|io| io.in_flight.is_some());
    let named: Vec<&Untrusted> = ios.map(|io| &io.name).collect();
    named.first().copied().filter(|_| named.len() * 2 > dominated.len())
}

/// `of 334 ms in their longest waits, the threads that they waited for had no CPU for 165 ms`
fn of_peers(peers: Peers) -> String {
    let Peers { account, stopped_by, ns, of_ns } = peers;
    let did = waits_for::kept(account, stopped_by);
    let did = did.strip_prefix("was ").map(|what| format!("were {what}")).unwrap_or(did);
    let (ns, of) = (duration(ns), duration(of_ns));
    format!("of {of} in their longest waits, the threads that they waited for {did} for {ns}")
}

/// The sentence on what made the slowest requests slow.
fn headline(headline: &Headline, cpu_quota: Option<&CpuQuota>, unicode: bool) -> String {
    match headline {
        Headline::TooFew { requests } => {
            let requests = counted(*requests, "request is", "requests are");
            format!("{requests} too few to say what makes slow ones slow: {ENOUGH_REQUESTS} are needed")
        }
        Headline::Alike { slowest, excess_share } if *excess_share < 0.001 => {
            format!("nothing stands out: the {slowest} slowest are no slower than the typical request")
        }
        Headline::Alike { excess_share, .. } => {
            let excess = percent(*excess_share);
            format!("nothing stands out: the slowest request is only {excess} over the typical one")
        }
        Headline::Mixed { slowest: 1, causes, excess_ns, .. } if causes.iter().all(|one| one.1 == 0) => {
            format!("the one slow request has no main cause: {} over typical", difference(*excess_ns))
        }
        Headline::Mixed { slowest, causes, without, excess_ns } => {
            // A cause that leads without being the main one of any of them.
            let lead = match causes.first() {
                Some((cause, 0)) => format!("no single cause, and {} the largest", cause.name()),
                Some(_) | None => "no single cause".to_owned(),
            };
            let counts = causes.iter().filter(|(_, count)| *count > 0);
            let mut parts: Vec<String> =
                counts.map(|&(cause, count)| format!("{count} {}", verb(cause, count))).collect();
            if *without > 0 {
                parts.push(format!("{without} without a main cause"));
            }
            let excess = difference(*excess_ns);
            format!("{lead}: of the {slowest} slowest ({excess} over typical), {}", parts.join(", "))
        }
        Headline::Shared { slowest, parts, excess_ns } => shared(*slowest, parts, *excess_ns),
        Headline::Cause { cause, dominated, slowest, excess_ns, of_cause_ns, path, of_path_ns } => {
            let over = over_typical(*cause, *of_cause_ns, *excess_ns);
            let who = match (dominated, slowest) {
                (1, 1) => "the one slow request".to_owned(),
                _ if dominated == slowest => format!("all of the {slowest} slowest"),
                _ => format!("{dominated} of the {slowest} slowest"),
            };
            let place = place(*cause, path, *of_path_ns, *of_cause_ns, unicode);
            let quota = if *cause == Cause::Account(Account::Throttled) {
                cpu_quota.map_or_else(String::new, |quota| quota_words(quota, unicode))
            } else {
                String::new()
            };
            let is_collection = path.last().is_some_and(|name| *name == COLLECTION);
            let verb = if is_collection && *cause == Cause::Account(Account::Cpu) {
                "ran the garbage collector"
            } else {
                verb(*cause, *dominated)
            };
            format!("{who} {verb}: {over}{place}{quota}")
        }
    }
}

/// `the 7 slowest took longer for several causes: fault +11.0 ms, cpu.fault +9.97 ms of +34.0 ms over
/// typical`
fn shared(slowest: usize, parts: &[(Cause, i64)], excess_ns: i64) -> String {
    let who = if slowest == 1 { "the slow request".to_owned() } else { format!("the {slowest} slowest") };
    let part = |&(cause, ns): &(Cause, i64)| format!("{} {}", cause.name(), difference(ns));
    let named: Vec<String> = parts.iter().map(part).collect();
    let why = if parts.len() == 1 { "many causes, most for" } else { "several causes:" };
    format!("{who} took longer for {why} {} of {} over typical", named.join(", "), difference(excess_ns))
}

/// The excess, and the cause's part of it if they differ by more than a twentieth. The part can exceed the
/// whole: then other parts were shorter than usual.
fn over_typical(cause: Cause, of_cause_ns: i64, excess_ns: i64) -> String {
    let (part, whole) = (difference(of_cause_ns), difference(excess_ns));
    match of_cause_ns - excess_ns {
        apart if apart.abs() <= excess_ns / 20 => format!("{whole} over typical"),
        1.. => format!("{whole} over typical ({} alone {part})", cause.name()),
        _ => format!("{part} of {whole} over typical"),
    }
}

/// The phase with most of the cause's excess, if there is one.
fn place(cause: Cause, path: &[Untrusted], of_path_ns: i64, of_cause_ns: i64, unicode: bool) -> String {
    let (of_path, of_cause) = (i128::from(of_path_ns), i128::from(of_cause_ns));
    if cause == Cause::Queue || path.is_empty() {
        return String::new();
    }
    let name = path_name(path, unicode);
    let name = if name == OUTSIDE { "what no phase covers".to_owned() } else { name };
    match () {
        () if of_path * 10 >= of_cause * 9 => format!(", in {name}"),
        () if of_path * 2 >= of_cause => format!(", most of it in {name}"),
        () => ", over several phases".to_owned(),
    }
}

fn quota_words(quota: &CpuQuota, unicode: bool) -> String {
    let (quota_ns, period_ns) = (duration(quota.quota_ns), duration(quota.period_ns));
    format!("; the quota is {quota_ns} per {period_ns} in cgroup {}", plain(&quota.group, unicode))
}

/// `inference/decode`, safe to print.
pub(super) fn path_name(path: &[Untrusted], unicode: bool) -> String {
    plain(untrusted::join(path, "/").stored(), unicode)
}

/// Verb for requests with this cause.
pub(super) const fn verb(cause: Cause, count: usize) -> &'static str {
    let one = count == 1;
    match cause {
        Cause::Account(account) if one => looks::of(account).verb,
        Cause::Account(account) => looks::of(account).verb_of_many,
        Cause::Suspended if one => "was on no thread (suspended)",
        Cause::Suspended => "were on no thread (suspended)",
        Cause::Queue => "waited for their turn",
        Cause::Handoff => "left the thread that had received them",
        Cause::Steal => "ran on a CPU that the hypervisor had taken away",
        Cause::InDriver => "waited for the GPU on a CPU, where its driver spins or copies",
        Cause::Pause if one => "was in flight while the whole guest was stopped",
        Cause::Pause => "were in flight while the whole guest was stopped",
        Cause::AddressSpace if one => "waited for the lock of its address space (mmap_lock)",
        Cause::AddressSpace => "waited for the lock of their address space (mmap_lock)",
        Cause::Stopped if one => "was stopped by a signal, a debugger or the freezer",
        Cause::Stopped => "were stopped by a signal, a debugger or the freezer",
        Cause::Helper(Account::Runq) => "waited for a helper thread that had no CPU",
        Cause::Helper(Account::Throttled) => "waited for a helper thread that was throttled",
        Cause::Helper(Account::BlockIo) => "waited for a helper thread that waited for a block device",
        Cause::Helper(Account::Fault) => "waited for a helper thread that slept in page faults",
        Cause::Helper(_) => "waited for a helper thread",
        Cause::Overlay(Overlay::Spin) => "busy-waited in a runtime library",
        Cause::Overlay(Overlay::Fault) => "needed CPU time for page faults",
        Cause::Overlay(Overlay::Syscall) => "needed CPU time in system calls",
        Cause::Overlay(Overlay::Irq) => "gave CPU time to interrupts (softirqs)",
    }
}

/// The sum of a metric over all requests.
pub(super) const fn count_of(group: &Group, metric: Metric) -> u128 {
    group.counts[metric as usize]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const FAULT: (Cause, i64) = (Cause::Account(Account::Fault), 11_000_000);
    const FAULTS: (Cause, i64) = (Cause::Overlay(Overlay::Fault), 9_970_000);

    #[rstest]
    #[case::two(7, &[FAULT, FAULTS], "the 7 slowest took longer for several causes: fault +11.0 ms, cpu.fault +9.97 ms of +34.0 ms over typical")]
    #[case::one(7, &[FAULT], "the 7 slowest took longer for many causes, most for fault +11.0 ms of +34.0 ms over typical")]
    #[case::of_one(1, &[FAULT, FAULTS], "the slow request took longer for several causes: fault +11.0 ms, cpu.fault +9.97 ms of +34.0 ms over typical")]
    fn shared_causes(#[case] slowest: usize, #[case] parts: &[(Cause, i64)], #[case] expected: &str) {
        let found = Headline::Shared { slowest, parts: parts.to_vec(), excess_ns: 34_000_000 };
        assert_eq!(headline(&found, None, true), expected);
    }
}
