//! The CPUs that threads may use, how long they stood in run queues, and how long each CPU was idle.

use super::super::{
    cgroup::Place,
    cores::CpuList,
    root::{Root, Subject, field},
};

/// Length of a tick of /proc/stat: USER_HZ is 100 everywhere, ns.
const TICK_NS: u64 = 10_000_000;

/// A thread that may not use all online CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// The thread.
    pub tid: u32,
    /// Online CPUs that it may use.
    pub cpus: CpuList,
    /// Online CPUs that it may not use.
    pub others: CpuList,
    /// The topmost group that limits it to just these CPUs, as the guest names it; none if its own mask does.
    pub group: Option<String>,
}

/// Threads of a process that may not use all CPUs; at most `left` threads are looked at, which is counted
/// down.
pub fn masks(root: &Root, pid: u32, left: &mut usize) -> Vec<Mask> {
    let Some(online) = root.value("/sys/devices/system/cpu/online").and_then(|text| CpuList::parse(&text))
    else {
        return Vec::new();
    };
    let mut tids: Vec<u32> =
        root.names(&format!("/proc/{pid}/task")).iter().filter_map(|tid| tid.parse().ok()).collect();
    tids.sort_unstable();
    tids.truncate(*left);
    *left -= tids.len();
    let mut sets: Option<Vec<(String, CpuList)>> = None;
    let mut one = |tid: u32| {
        let status = root.text(&format!("/proc/{pid}/task/{tid}/status"))?;
        let cpus = field(&status, "Cpus_allowed_list", ':').and_then(CpuList::parse)?.and(&online);
        if cpus.count() == 0 || cpus.count() >= online.count() {
            return None;
        }
        let sets = sets.get_or_insert_with(|| cpusets(root, pid, &online));
        let group = sets.iter().rfind(|(_, set)| *set == cpus).map(|(group, _)| group.clone());
        Some(Mask { tid, others: online.without(&cpus), cpus, group })
    };
    tids.into_iter().filter_map(&mut one).collect()
}

/// Sets of the process's group and of those above it, the group's own first.
fn cpusets(root: &Root, pid: u32, online: &CpuList) -> Vec<(String, CpuList)> {
    let groups = root.text(&Subject::Process(pid).file("cgroup")).unwrap_or_default();
    let mounts = root.bytes("/proc/self/mountinfo").unwrap_or_default();
    let Some(place) = Place::find(&groups, &mounts, "cpuset") else { return Vec::new() };
    let set = |(directory, group): (String, String)| {
        let set = CpuList::parse(&root.value(&format!("{directory}/cpuset.cpus"))?)?;
        Some((group, set.and(online)))
    };
    place.levels().filter_map(set).collect()
}

/// Time that a thread stood in run queues since its start, ns; none if it has ended.
pub fn queued_ns(root: &Root, pid: u32, tid: u32) -> Option<u64> {
    let text = root.text(&format!("/proc/{pid}/task/{tid}/schedstat"))?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// Idle time of each CPU since the guest's start, ns, in ticks of 10 ms.
pub fn idle_ns(root: &Root) -> Vec<(u32, u64)> {
    let text = root.text("/proc/stat").unwrap_or_default();
    let one = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        let cpu: u32 = words.next()?.parse().ok()?;
        let numbers: Vec<u64> = words.skip(3).take(2).filter_map(|word| word.parse().ok()).collect();
        // Waiting for a disk is idling, too.
        let ticks = numbers.iter().fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
        Some((cpu, ticks.saturating_mul(TICK_NS)))
    };
    text.lines().filter_map(one).collect()
}
