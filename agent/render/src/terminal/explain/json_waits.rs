//! An explanation's waits and their culprits as JSON.
//!
//! Yields the parts of [`super::json`] that come from waits.

use serde::Serialize;

use crate::analyze::explain::{By, Case, Circle, Culprit, InCall, LongWait, Waits, Whose};
use crate::phase::{InFlight, Stopper};
use crate::untrusted::Untrusted;

#[derive(Serialize)]
pub(super) struct WaitsJson {
    count: u64,
    total_ns: u64,
    longest: Vec<LongWaitJson>,
    by: Vec<ByJson>,
    calls: Vec<CallJson>,
}

/// The waits in one system call.
#[derive(Serialize)]
struct CallJson {
    syscall: u32,
    argument: Option<u64>,
    ns: u64,
}

#[derive(Serialize)]
struct LongWaitJson {
    after_ns: u64,
    ns: u64,
    cpu: u32,
    syscall: Option<u32>,
    took_tid: Option<u32>,
    culprit: CulpritJson,
}

/// Whose processes had the CPU, as seen from one request.
pub(super) struct Seen<'a> {
    pub(super) circle: &'a Circle,
    pub(super) case: &'a Case,
}

impl Seen<'_> {
    fn culprit(&self, culprit: &Culprit) -> CulpritJson {
        of_culprit(culprit, self.circle.group(culprit, self.case))
    }
}

#[derive(Serialize)]
pub(super) struct ByJson {
    culprit: CulpritJson,
    count: u64,
    ns: u64,
    kept_ns: u64,
}

/// A culprit; fields that are not known are left out.
#[derive(Default, Serialize)]
pub(super) struct CulpritJson {
    kind: &'static str,
    /// Whose process had the CPU: `own_thread`, `sibling`, `agent` or `stranger`.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<Untrusted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<u32>,
    /// The thread that the worker waited for, or the worker itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    delayed_tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_name: Option<Untrusted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    io_direction: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_held_back: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reads_in_flight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    writes_in_flight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Untrusted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<Untrusted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    syscall: Option<u32>,
}

pub(super) fn of_waits(waits: &Waits, seen: &Seen<'_>) -> WaitsJson {
    WaitsJson {
        count: waits.count,
        total_ns: waits.total_ns,
        longest: waits.longest.iter().map(|wait| of_wait(wait, seen)).collect(),
        by: waits.by.iter().map(|one| by(one, seen)).collect(),
        calls: waits
            .calls
            .iter()
            .map(|&InCall { syscall, argument, ns }| CallJson { syscall, argument, ns })
            .collect(),
    }
}

fn of_wait(wait: &LongWait, seen: &Seen<'_>) -> LongWaitJson {
    let LongWait { after_ns, ns, cpu, syscall, took_tid, culprit } = wait;
    let (after_ns, ns, cpu, syscall, took_tid) = (*after_ns, *ns, *cpu, *syscall, *took_tid);
    LongWaitJson { after_ns, ns, cpu, syscall, took_tid, culprit: seen.culprit(culprit) }
}

pub(super) fn by(By { culprit, count, ns, kept_ns }: &By, seen: &Seen<'_>) -> ByJson {
    ByJson { culprit: seen.culprit(culprit), count: *count, ns: *ns, kept_ns: *kept_ns }
}

pub(super) fn of_culprit(culprit: &Culprit, group: Option<Whose>) -> CulpritJson {
    let of = |kind| CulpritJson { kind, group: group.map(Whose::name), ..CulpritJson::default() };
    match culprit {
        Culprit::Ran { comm, pid } => {
            CulpritJson { comm: Some(comm.clone()), pid: Some(*pid), ..of("cpu_user") }
        }
        Culprit::Idle => of("idle_cpu"),
        Culprit::Kept(blame) => CulpritJson {
            tid: Some(blame.tid),
            account: Some(blame.account.name()),
            depth: Some(blame.depth),
            stopped_by: blame.stopped_by.map(Stopper::name),
            ..of("kept_thread")
        },
        Culprit::Given { to, blame } => CulpritJson {
            tid: Some(*to),
            account: blame.map(|blame| blame.account.name()),
            depth: blame.map(|blame| blame.depth),
            delayed_tid: blame.map(|blame| blame.tid),
            stopped_by: blame.and_then(|blame| blame.stopped_by).map(Stopper::name),
            ..of("worker")
        },
        Culprit::Woken { tid } => CulpritJson { tid: Some(*tid), ..of("waker") },
        Culprit::AddressSpace { tid } => CulpritJson { tid: Some(*tid), ..of("address_space_lock") },
        Culprit::Stopped { by, tid } => {
            CulpritJson { tid: *tid, stopped_by: Some(by.name()), ..of("stopped") }
        }
        Culprit::Held { tid } => CulpritJson { tid: Some(*tid), ..of("lock_holder") },
        Culprit::Beside { tid } => CulpritJson { tid: Some(*tid), ..of("timed_out_while_running") },
        Culprit::TimedOut => of("timed_out"),
        Culprit::Device { name, is_write, is_held } => CulpritJson {
            device_name: Some(name.clone()),
            io_direction: Some(if *is_write { "write" } else { "read" }),
            is_held_back: is_held.then_some(true),
            ..of("device")
        },
        Culprit::InFlight { name, most: InFlight { reads, writes } } => CulpritJson {
            device_name: Some(name.clone()),
            reads_in_flight: Some(*reads),
            writes_in_flight: Some(*writes),
            ..of("in_flight")
        },
        Culprit::Phase { name, request } => {
            CulpritJson { phase: name.clone(), request: *request, ..of("phase") }
        }
        Culprit::Group { path } => CulpritJson { cgroup: Some(path.clone()), ..of("cgroup") },
        Culprit::Syscall(number) => CulpritJson { syscall: Some(*number), ..of("syscall") },
        Culprit::Unknown => of("unknown"),
        Culprit::Others => of("others"),
    }
}
