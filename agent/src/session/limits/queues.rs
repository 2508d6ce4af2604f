//! Threads that may not use all CPUs: how long they stood in run queues, and which other CPUs were idle
//! meanwhile.

use std::collections::HashMap;

use crate::{
    limits::{Kind, Limit, Timeline},
    platform::{
        CpuList, Root,
        limits::{Mask, idle_ns, masks, queued_ns},
    },
};

/// Length of the first steps of a timeline, ns: that of the readings.
pub(super) const STEP_NS: u64 = 100_000_000;
/// Most masks told apart: some programs pin each thread to a CPU of its own.
const MASKS: usize = 256;
/// Most masks kept at the end, those first whose threads waited longest.
const KEPT: usize = 8;

/// Threads by mask.
pub(super) struct Queues {
    started_ns: u64,
    masks: Vec<Masked>,
    /// The threads' masks, by their places in the list above, and their time in run queues so far.
    threads: HashMap<(u32, u32), (usize, u64)>,
    /// The threads of this look.
    looked: HashMap<(u32, u32), usize>,
    idle: HashMap<u32, u64>,
}

/// Threads with one mask.
struct Masked {
    others: CpuList,
    limit: Limit,
}

impl Queues {
    pub(super) fn new(now_ns: u64) -> Self {
        Self {
            started_ns: now_ns,
            masks: Vec::new(),
            threads: HashMap::new(),
            looked: HashMap::new(),
            idle: HashMap::new(),
        }
    }

    pub(super) fn begin_look(&mut self) {
        self.looked.clear();
    }

    pub(super) fn look(&mut self, root: &Root, pid: u32, left: &mut usize) {
        for mask in masks(root, pid, left) {
            let tid = mask.tid;
            if let Some(at) = self.place(mask) {
                self.looked.insert((pid, tid), at);
            }
        }
    }

    /// Threads that are new begin with what they have waited so far.
    pub(super) fn end_look(&mut self, root: &Root) {
        let Self { threads, looked, .. } = self;
        threads.retain(|thread, _| looked.contains_key(thread));
        for (&(pid, tid), &at) in &*looked {
            let known = threads.entry((pid, tid));
            known
                .and_modify(|known| known.0 = at)
                .or_insert_with(|| (at, queued_ns(root, pid, tid).unwrap_or(0)));
        }
        if self.threads.is_empty() {
            self.idle.clear();
        } else if self.idle.is_empty() {
            self.idle = idle_ns(root).into_iter().collect();
        }
    }

    fn place(&mut self, Mask { cpus, others, group, .. }: Mask) -> Option<usize> {
        let (text, group) = (cpus.text(), group.unwrap_or_default());
        let known = |one: &Masked| one.limit.cpus == text && one.limit.group == group;
        if let Some(at) = self.masks.iter().position(known) {
            return Some(at);
        }
        let file = if group.is_empty() { "Cpus_allowed_list" } else { "cpuset.cpus" };
        let limit = Limit {
            kind: Kind::Cpus,
            file: file.to_owned(),
            group,
            value: u64::from(cpus.count()),
            cpus: text,
            other_cpus: others.text(),
            when: Timeline::starting(self.started_ns, STEP_NS),
            ..Limit::default()
        };
        (self.masks.len() < MASKS).then(|| {
            self.masks.push(Masked { others, limit });
            self.masks.len() - 1
        })
    }

    pub(super) fn step(&mut self, root: &Root, from_ns: u64, to_ns: u64) {
        if self.threads.is_empty() || to_ns == from_ns {
            return;
        }
        let mut queued = vec![0_u64; self.masks.len()];
        self.threads.retain(|&(pid, tid), (at, before)| {
            let Some(now) = queued_ns(root, pid, tid) else { return false };
            queued[*at] += now.saturating_sub(std::mem::replace(before, now));
            true
        });
        let now: HashMap<u32, u64> = idle_ns(root).into_iter().collect();
        let idle = |cpu: &u32, ns: &u64| {
            let before = self.idle.get(cpu).copied().unwrap_or(*ns);
            (ns.saturating_sub(before) as f64 / (to_ns - from_ns) as f64).min(1.0)
        };
        let shares: Vec<(u32, f64)> = now.iter().map(|(cpu, ns)| (*cpu, idle(cpu, ns))).collect();
        let middle_ns = from_ns + (to_ns - from_ns) / 2;
        for (Masked { others, limit }, queued_ns) in self.masks.iter_mut().zip(queued) {
            let of_others = shares.iter().filter(|(cpu, _)| others.has(*cpu));
            let idle_cpus: f64 = of_others.map(|(_, share)| share).sum();
            limit.hit_ns += queued_ns;
            limit.idle_ns += (queued_ns as f64 * idle_cpus) as u64;
            limit.when.add(middle_ns, (queued_ns as f64 * idle_cpus.min(1.0)) as u64);
        }
        self.idle = now;
    }

    pub(super) fn so_far(&self) -> impl Iterator<Item = Limit> {
        let mut limits: Vec<Limit> = self.masks.iter().map(|one| one.limit.clone()).collect();
        limits.sort_by_key(|limit| std::cmp::Reverse(limit.hit_ns));
        limits.into_iter().take(KEPT)
    }

    /// Forgets what was seen; masks without threads make room.
    pub(super) fn begin_anew(&mut self, now_ns: u64) {
        self.started_ns = now_ns;
        if self.threads.is_empty() {
            self.masks.clear();
            self.looked.clear();
        }
        for one in &mut self.masks {
            one.limit.begin_anew(now_ns);
        }
    }
}
