//! Limits that explain a cause: a sentence each, and the same as JSON.
//!
//! Yields nothing for a limit that was not hit.

use serde::Serialize;

use crate::{
    analyze::{Cause, Group, Limited, limited},
    limits::{Kind, Limit},
};

use super::{
    page::{Emphasis, Page},
    units::{bytes, counted, duration, percent, thousands},
};

/// Longest sentence: names of groups may have any length.
pub(super) const LONGEST: usize = 600;

/// A sentence for each limit that explains what a group of requests lost time to.
pub(super) fn lines(page: &mut Page, group: &Group, limits: &[Limit]) {
    for one in limited(group, limits) {
        let text = page.name(words(&one), LONGEST);
        page.sentence(&text, Emphasis::Warning);
    }
}

/// `cpu.fault: memory.max of /a, 300 MB, was hit 1,512 times (memory.events)`; names are as others gave them.
pub(super) fn words(Limited { cause, limit, crowded }: &Limited<'_>) -> String {
    let meanwhile = crowded.map(|share| {
        format!("; threads of this run had {} of the CPU time that was waited for", percent(share))
    });
    let meanwhile = meanwhile.unwrap_or_default();
    let of = if let Cause::Helper(account) = cause {
        format!("{} of threads that were waited for", account.name())
    } else {
        cause.name().to_owned()
    };
    format!("{of}: {}{meanwhile}", clause(limit))
}

/// The same without the cause.
pub(super) fn clause(limit: &Limit) -> String {
    match limit.kind {
        Kind::Memory => memory(limit),
        Kind::Io => io(limit),
        Kind::Quota => quota(limit),
        Kind::Cpus => cpus(limit),
        Kind::GpuShared => shared(limit),
        Kind::GpuClock => clock(limit),
    }
}

/// `memory.max of /a`
fn place(limit: &Limit) -> String {
    format!("{} of {}", limit.file, limit.group)
}

fn memory(limit: &Limit) -> String {
    let counter = match limit.file.as_str() {
        "memory.limit_in_bytes" => "memory.failcnt",
        _ => "memory.events",
    };
    let hits = counted(limit.hits, "time", "times");
    let mut clauses = vec![format!("{}, {}, was hit {hits} ({counter})", place(limit), bytes(limit.value))];
    if limit.refaults > 0 {
        let pages = counted(limit.refaults, "page", "pages");
        clauses.push(format!("{pages} that had been pushed out came back"));
    }
    if limit.stalled_ns > 0 {
        clauses.push(format!("tasks waited for memory for {}", duration(limit.stalled_ns)));
    }
    clauses.join("; ")
}

fn io(limit: &Limit) -> String {
    let rate = if limit.is_count { thousands(limit.value) + " I/Os" } else { bytes(limit.value) };
    let did = match limit.hit_ns {
        // In bursts too short for a mean rate.
        0 => "held I/Os back".to_owned(),
        ns => format!("was reached for {}", duration(ns)),
    };
    format!("{}, {rate}/s of {}, {did}", place(limit), limit.device)
}

fn quota(limit: &Limit) -> String {
    format!(
        "{}, {} per {}, ran out in {} of {}",
        place(limit),
        duration(limit.value),
        duration(limit.period_ns),
        thousands(limit.hits),
        counted(limit.periods, "period", "periods")
    )
}

/// `CPU 1 was idle for 80.0 % of that`
fn cpus(limit: &Limit) -> String {
    let who = if limit.group.is_empty() {
        format!("threads with a mask of {} (taskset, sched_setaffinity)", cpus_of(&limit.cpus))
    } else {
        format!("threads with {}, {},", place(limit), cpus_of(&limit.cpus))
    };
    let idle = limit.idle_cpus();
    let meanwhile = if is_one(&limit.other_cpus) {
        format!("CPU {} was idle for {} of that", limit.other_cpus, percent(idle.min(1.0)))
    } else {
        format!("on average {idle:.1} of CPUs {} were idle meanwhile", limit.other_cpus)
    };
    let queue = if is_one(&limit.cpus) { "its run queue" } else { "their run queues" };
    format!("{who} stood in {queue} for {}; {meanwhile}", duration(limit.hit_ns))
}

/// `another process, python (pid 71), had GPU 0 for 45.0 % of the time in which requests ran`
fn shared(limit: &Limit) -> String {
    let Limit { comm, pid, device, .. } = limit;
    let who = if comm.is_empty() { format!("pid {pid}") } else { format!("{comm} (pid {pid})") };
    let share = percent(limit.usual());
    format!("another process, {who}, had GPU {device} for {share} of the time in which requests ran")
}

/// `clocks of GPU 0 were held down (sw_power_cap) to 700 of 1,400 MHz, 30.0 % below that on average`
fn clock(limit: &Limit) -> String {
    let Limit { device, file, value, most_mhz, .. } = limit;
    let (lowest, most, lost) = (thousands(*value), thousands(*most_mhz), percent(limit.usual()));
    format!(
        "clocks of GPU {device} were held down ({file}) to {lowest} of {most} MHz, {lost} below that on \
         average"
    )
}

fn is_one(list: &str) -> bool {
    !list.contains([',', '-'])
}

/// `CPU 0 alone`, `CPUs 0-3`
fn cpus_of(list: &str) -> String {
    if is_one(list) { format!("CPU {list} alone") } else { format!("CPUs {list}") }
}

/// A limit that explains a cause.
#[derive(Serialize)]
pub(super) struct LimitJson<'a> {
    cause: &'static str,
    kind: &'static str,
    file: &'a str,
    group: &'a str,
    value: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    period_ns: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    device: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cpus: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    comm: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    other_cpus: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    other_cpus_idle: Option<f64>,
    /// Threads of the run were in each other's way.
    #[serde(skip_serializing_if = "Option::is_none")]
    crowded: Option<bool>,
    hits: u64,
    hit_ns: u64,
    periods: u64,
    refaults: u64,
    stalled_ns: u64,
    text: String,
}

pub(super) fn json<'a>(limited: &Limited<'a>) -> LimitJson<'a> {
    let Limited { cause, limit, crowded } = *limited;
    LimitJson {
        cause: cause.name(),
        kind: limit.kind.name(),
        file: &limit.file,
        group: &limit.group,
        value: limit.value,
        period_ns: (limit.kind == Kind::Quota).then_some(limit.period_ns),
        device: &limit.device,
        cpus: &limit.cpus,
        comm: &limit.comm,
        pid: (limit.pid != 0).then_some(limit.pid),
        other_cpus: &limit.other_cpus,
        other_cpus_idle: (limit.kind == Kind::Cpus).then(|| limit.idle_cpus()),
        crowded: (limit.kind == Kind::Cpus).then_some(crowded.is_some()),
        hits: limit.hits,
        hit_ns: limit.hit_ns,
        periods: limit.periods,
        refaults: limit.refaults,
        stalled_ns: limit.stalled_ns,
        text: words(limited),
    }
}

#[cfg(test)]
mod tests;
