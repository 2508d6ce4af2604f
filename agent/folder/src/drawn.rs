//! Rows that tests draw: anything that a program, a kernel or a damaged record could put into a folder.

use guestscope_contract::{ACCOUNTS, Account, SOURCES, Source};
use proptest::{collection::vec, option, prelude::*};

use super::sample::Sample;
use crate::phase::{
    Accounts, Blame, COUNTS, Counts, Ending, GpuReading, HelperWait, Helpers, Holder, InFlight, KEPT, LISTED,
    Mark, Phase, PhaseKind, QueueUser, QueueUsers, Request, Stopper, Thread, ThreadId, TraceIds, Wait,
    WaitedIo,
};

fn thread_id() -> impl Strategy<Value = ThreadId> {
    any::<(u32, u32, u64)>().prop_map(|(tid, tgid, born_ns)| ThreadId { tid, tgid, born_ns })
}

fn counts() -> impl Strategy<Value = Counts> {
    any::<[u64; COUNTS]>().prop_map(Counts::from_array)
}

fn trace() -> impl Strategy<Value = TraceIds> {
    any::<([u8; 16], [u8; 8], Option<[u8; 8]>, bool)>().prop_map(
        |(trace_id, span_id, parent_span_id, parent_is_remote)| TraceIds {
            trace_id,
            span_id,
            parent_span_id,
            parent_is_remote,
        },
    )
}

fn helpers() -> impl Strategy<Value = Helpers> {
    let waits = any::<[[u64; KEPT.len()]; 2]>().prop_map(|[on_cpu, waiting]| HelperWait { on_cpu, waiting });
    (any::<[u64; ACCOUNTS]>(), any::<u32>(), any::<[bool; 2]>(), waits).prop_map(
        |(accounts, threads, [shared, partial], wait)| Helpers {
            accounts: Accounts(accounts),
            threads,
            shared,
            partial,
            wait,
        },
    )
}

fn holder() -> impl Strategy<Value = Box<Holder>> {
    let phase = any::<Option<String>>().prop_map(|phase| phase.map(Into::into));
    (any::<[u64; 2]>(), phase).prop_map(|([request, ns], phase)| Box::new(Holder { request, phase, ns }))
}

fn phase() -> impl Strategy<Value = Phase> {
    let kind = prop_oneof![Just(PhaseKind::Phase), Just(PhaseKind::Queue), Just(PhaseKind::Process)];
    let ending = prop_oneof![
        Just(Ending::Ended),
        Just(Ending::ThreadExited),
        Just(Ending::Exec),
        Just(Ending::Lost),
        Just(Ending::ObservationStopped)
    ];
    let name = prop_oneof![
        Just(String::new()),
        Just("inference".to_owned()),
        Just("warmup".to_owned()),
        any::<String>()
    ];
    let numbers = any::<[u64; 6]>();
    let sums = (any::<[u64; ACCOUNTS]>(), counts(), helpers());
    let made = (any::<bool>(), 0..SOURCES, any::<Option<u32>>(), option::of(holder()), any::<String>());
    (kind, ending, name, thread_id(), numbers, made, sums, trace()).prop_map(
        |(kind, ending, name, thread, numbers, made, (accounts, counts, helpers), trace)| {
            let (name_damaged, source, status, holder, comm) = made;
            let [request, start_ns, duration_ns, suspended_ns, edges_lost, pause_ns] = numbers;
            Phase {
                id: 0,
                parent: None,
                root: 0,
                kind,
                name: name.into(),
                name_damaged,
                request,
                thread,
                comm: comm.into(),
                start_ns,
                duration_ns,
                suspended_ns,
                accounts: Accounts(accounts),
                counts,
                pause_ns,
                holder,
                helpers,
                trace,
                ending,
                edges_lost,
                source: Source::ALL[source],
                status,
            }
        },
    )
}

/// Requests with the numbers that the agent gives: ids from 1, the outermost phase first.
pub(super) fn requests() -> impl Strategy<Value = Vec<Request>> {
    vec(vec(phase(), 1..5), 0..12).prop_map(|mut requests| {
        let mut id = 0;
        for phases in &mut requests {
            let root = id + 1;
            for phase in phases.iter_mut() {
                id += 1;
                (phase.id, phase.root) = (id, root);
                phase.parent = (id != root).then_some(root);
            }
            phases[0].kind = PhaseKind::Request;
        }
        requests.into_iter().map(|phases| Request { phases }).collect()
    })
}

pub(super) fn threads() -> impl Strategy<Value = Vec<Thread>> {
    let thread = (
        thread_id(),
        any::<String>(),
        any::<[u64; 2]>(),
        any::<[[u64; ACCOUNTS]; 2]>(),
        counts(),
        any::<bool>(),
    );
    vec(
        thread.prop_map(|(id, comm, [end_ns, phases], [accounts, inside], counts, exited)| Thread {
            id,
            comm: comm.into(),
            end_ns,
            accounts: Accounts(accounts),
            inside: Accounts(inside),
            counts,
            phases,
            exited,
        }),
        0..5,
    )
}

fn reading((time_ns, device, optional): (u64, u32, [Option<u64>; 10])) -> GpuReading {
    let [
        utilization_percent,
        memory_utilization_percent,
        memory_used_bytes,
        clock_sm_mhz,
        clock_memory_mhz,
        power_mw,
        temperature_celsius,
        pcie_to_device_bytes_per_s,
        pcie_from_device_bytes_per_s,
        throttle_reasons,
    ] = optional;
    GpuReading {
        time_ns,
        device,
        utilization_percent,
        memory_utilization_percent,
        memory_used_bytes,
        clock_sm_mhz,
        clock_memory_mhz,
        power_mw,
        temperature_celsius,
        pcie_to_device_bytes_per_s,
        pcie_from_device_bytes_per_s,
        throttle_reasons,
    }
}

pub(super) fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let gpu = option::of((any::<u64>(), any::<u32>(), any::<[Option<u64>; 10]>()).prop_map(reading));
    let sample = (any::<[u64; 4]>(), any::<[Option<u64>; 4]>(), gpu);
    vec(
        sample.prop_map(|([time_ns, agent_cpu_ns, agent_rss_bytes, edges_read], optional, gpu)| {
            let [psi_cpu_some_ns, psi_memory_some_ns, psi_io_some_ns, steal_ns] = optional;
            Sample {
                time_ns,
                agent_cpu_ns,
                agent_rss_bytes,
                psi_cpu_some_ns,
                psi_memory_some_ns,
                psi_io_some_ns,
                steal_ns,
                edges_read,
                gpu,
            }
        }),
        0..5,
    )
}

pub(super) fn marks() -> impl Strategy<Value = Vec<Mark>> {
    let mark = (thread_id(), any::<String>(), any::<u64>(), option::of(any::<u64>()));
    let mark =
        mark.prop_map(|(thread, name, time_ns, phase)| Mark { thread, name: name.into(), time_ns, phase });
    vec(mark, 0..5)
}

/// A wait with what its system call asked for, who was on a CPU meanwhile, and nothing else.
fn asked() -> impl Strategy<Value = Wait> {
    let user = (any::<String>(), any::<u32>(), 1..1_u64 << 40);
    let user = user.prop_map(|(comm, pid, ns)| QueueUser { comm: comm.into(), pid, ns });
    let users = (vec(user, 0..=LISTED), 0..1_u64 << 40)
        .prop_map(|(listed, others_ns)| QueueUsers { listed, others_ns });
    let asked = any::<(Option<u32>, Option<u64>, bool, Option<u32>, Option<u32>)>();
    (asked, users, stopper(), option::of(any::<String>())).prop_map(
        |((waker_syscall, argument, is_limited, limit_ms, beside_tid), users, stopped_by, comm)| Wait {
            waker_syscall,
            argument,
            is_limited,
            limit_ms,
            beside_tid,
            stopped_by,
            waker_comm: comm.map(Into::into),
            users,
            ..Wait::default()
        },
    )
}

fn stopper() -> impl Strategy<Value = Option<Stopper>> {
    option::of((0..3_usize).prop_map(|at| Stopper::ALL[at]))
}

fn blame() -> impl Strategy<Value = Blame> {
    (any::<[u32; 2]>(), 0..ACCOUNTS, any::<u64>(), stopper()).prop_map(
        |([tid, depth], account, ns, stopped_by)| {
            let account = Account::ALL[account];
            Blame { tid, account, stopped_by, ns, depth }
        },
    )
}

pub(super) fn waits() -> impl Strategy<Value = Vec<Wait>> {
    let ids = any::<(Option<u64>, Option<u64>, Option<u32>, Option<u32>)>();
    let times = (0..1_u64 << 40, 0..1_u64 << 40, 0..1_u64 << 40, any::<u64>());
    let account = (0..ACCOUNTS).prop_map(|account| Account::ALL[account]);
    let io = any::<([String; 2], [bool; 2], Option<[u32; 2]>)>().prop_map(
        |([device, name], [is_write, is_held], in_flight)| WaitedIo {
            device: device.into(),
            name: name.into(),
            is_write,
            is_held,
            in_flight: in_flight.map(|[reads, writes]| InFlight { reads, writes }),
        },
    );
    let home = (option::of(any::<u32>()), option::of(any::<u64>()), option::of(any::<String>()));
    let causes = (option::of(blame()), option::of(io), home);
    let wait = (thread_id(), ids, times, account, any::<[u32; 5]>(), any::<String>(), causes, asked());
    let wait = wait.prop_map(
        |(
            thread,
            (phase, root, syscall, waker_tid),
            times,
            account,
            numbers,
            name,
            (blame, io, home),
            asked,
        )| {
            let (ns_tid, cgroup_number, cgroup) = home;
            let (blocked_ns, throttled_ns, runq_ns, start_ns) = times;
            let [left_cpu, cpu, replaced_by_tid, ran_before_tid, ran_before_tgid] = numbers;
            let duration_ns = blocked_ns + throttled_ns + runq_ns;
            Wait {
                phase,
                root,
                thread,
                start_ns,
                duration_ns,
                account,
                blocked_ns,
                throttled_ns,
                syscall,
                left_cpu,
                cpu,
                waker_tid,
                replaced_by_tid,
                ran_before_tid,
                ran_before_tgid,
                ran_before_comm: name.into(),
                ns_tid,
                cgroup_number,
                cgroup: cgroup.map(Into::into),
                blame,
                io,
                ..asked
            }
        },
    );
    vec(wait, 0..5)
}
