//! A long wait as JSON, for the summary.

use serde::Serialize;

use crate::phase::{Blame, Stopper, Wait, WaitedIo};
use crate::untrusted::Untrusted;

/// One long wait.
#[derive(Serialize)]
pub(super) struct WaitJson<'a> {
    start_ns: u64,
    duration_ns: u64,
    account: &'static str,
    blocked_ns: u64,
    throttled_ns: u64,
    runq_ns: u64,
    cpu: u32,
    waker_tid: Option<u32>,
    waker_comm: Option<&'a Untrusted>,
    ran_before_pid: u32,
    ran_before: &'a Untrusted,
    ns_tid: Option<u32>,
    cgroup: Option<&'a Untrusted>,
    blame: Option<BlameJson>,
    device: Option<&'a Untrusted>,
    device_name: Option<&'a Untrusted>,
    io_direction: Option<&'static str>,
    io_held_back: Option<bool>,
    reads_in_flight: Option<u32>,
    writes_in_flight: Option<u32>,
    stopped_by: Option<&'static str>,
}

#[derive(Serialize)]
struct BlameJson {
    tid: u32,
    account: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_by: Option<&'static str>,
    ns: u64,
    depth: u32,
}

/// The wait in the summary's form.
pub(super) fn wait(wait: &Wait) -> WaitJson<'_> {
    let in_flight = wait.io.as_ref().and_then(|io| io.in_flight);
    WaitJson {
        start_ns: wait.start_ns,
        duration_ns: wait.duration_ns,
        account: wait.account.name(),
        blocked_ns: wait.blocked_ns,
        throttled_ns: wait.throttled_ns,
        runq_ns: wait.runq_ns(),
        cpu: wait.cpu,
        waker_tid: wait.waker_tid,
        waker_comm: wait.waker_comm.as_ref(),
        ran_before_pid: wait.ran_before_tgid,
        ran_before: &wait.ran_before_comm,
        ns_tid: wait.ns_tid,
        cgroup: wait.cgroup.as_ref(),
        blame: wait.blame.map(|Blame { tid, account, stopped_by, ns, depth }| BlameJson {
            tid,
            account: account.name(),
            stopped_by: stopped_by.map(Stopper::name),
            ns,
            depth,
        }),
        device: wait.io.as_ref().map(|io| &io.device),
        device_name: wait.io.as_ref().map(|io| &io.name),
        io_direction: wait.io.as_ref().map(WaitedIo::direction),
        io_held_back: wait.io.as_ref().map(|io| io.is_held),
        reads_in_flight: in_flight.map(|most| most.reads),
        writes_in_flight: in_flight.map(|most| most.writes),
        stopped_by: wait.stopped_by.map(Stopper::name),
    }
}
