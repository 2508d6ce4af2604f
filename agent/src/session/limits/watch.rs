//! Counts of limits become amounts over time.

use std::collections::VecDeque;

use super::queues::{Queues, STEP_NS};
use crate::{
    limits::{Kind, Limit, Timeline},
    platform::{
        Devices, Root,
        limits::{Bound, Count, Short, What, bounds},
    },
};

/// Most limits that are watched.
const MOST: usize = 64;
/// Most threads whose masks are read per look.
const THREADS: usize = 512;
/// Readings over which a rate is taken: I/Os come in bursts.
const READINGS: usize = 4;
/// Share of an I/O limit that counts as having reached it.
const REACHED: f64 = 0.85;
/// I/Os that were asked for and may not be done yet, as time at the limit: less is a burst.
const BURST_S: f64 = 0.05;

/// All limits of the observed processes.
pub(super) struct Watch {
    root: Root,
    groups: Vec<Watched>,
    queues: Queues,
    devices: Devices,
    last_ns: u64,
}

impl Watch {
    pub(super) fn new(root: Root, now_ns: u64) -> Self {
        let devices = Devices::below(root.clone());
        Self { root, groups: Vec::new(), queues: Queues::new(now_ns), devices, last_ns: now_ns }
    }

    /// Looks for limits that are new. Returns the number of threads that were looked at.
    pub(super) fn look(&mut self, processes: &[u32]) -> u64 {
        let mut left = THREADS;
        self.queues.begin_look();
        for &pid in processes {
            for bound in bounds(&self.root, pid) {
                // A limit may be changed at any time.
                if let Some(known) = self.groups.iter_mut().find(|one| one.bound.is_of(&bound)) {
                    known.set(bound);
                } else if self.groups.len() < MOST {
                    let new = Watched::new(&self.root, bound, &mut self.devices, self.last_ns);
                    self.groups.extend(new);
                }
            }
            self.queues.look(&self.root, pid, &mut left);
        }
        self.queues.end_look(&self.root);
        (THREADS - left) as u64
    }

    /// Reads all counts.
    pub(super) fn step(&mut self, now_ns: u64) {
        let (from_ns, to_ns) = (self.last_ns, now_ns.max(self.last_ns));
        for one in &mut self.groups {
            one.step(&self.root, from_ns, to_ns);
        }
        self.queues.step(&self.root, from_ns, to_ns);
        self.last_ns = to_ns;
    }

    /// What was seen so far; limits of groups first.
    pub(super) fn so_far(&self) -> Vec<Limit> {
        let groups = self.groups.iter().map(|one| one.limit.clone());
        groups.chain(self.queues.so_far()).collect()
    }

    /// Forgets what was seen, and goes on from here. Limits of groups that are gone are forgotten as well.
    pub(super) fn begin_anew(&mut self, now_ns: u64) {
        self.groups.retain_mut(|one| {
            one.limit.begin_anew(now_ns);
            one.bound.count(&self.root).is_some()
        });
        self.queues.begin_anew(now_ns);
    }
}

/// A limit of a group.
struct Watched {
    bound: Bound,
    limit: Limit,
    last: Count,
    short: Short,
    /// Bytes or I/Os that were asked for beyond what the limit lets through.
    waiting: f64,
    /// Lengths and amounts of the last readings.
    recent: VecDeque<(u64, u64)>,
}

impl Watched {
    /// None if the kernel counts nothing for it.
    fn new(root: &Root, bound: Bound, devices: &mut Devices, now_ns: u64) -> Option<Self> {
        let last = bound.count(root)?;
        let is_memory = bound.what == What::Memory;
        let short = if is_memory { bound.short(root) } else { Short::default() };
        let device = devices.name(&bound.device.as_str().into());
        let device = device.map_or_else(|| bound.device.clone(), |name| name.stored().to_owned());
        let mut limit = Limit {
            file: bound.file.to_owned(),
            group: bound.group.clone(),
            value: bound.value,
            device,
            when: Timeline::starting(now_ns, STEP_NS),
            when_refaults: Timeline::starting(now_ns, STEP_NS),
            ..Limit::default()
        };
        match bound.what {
            What::Memory => limit.kind = Kind::Memory,
            What::Quota { period_ns } => (limit.kind, limit.period_ns) = (Kind::Quota, period_ns),
            What::Io { is_count, .. } => (limit.kind, limit.is_count) = (Kind::Io, is_count),
        }
        Some(Self { bound, limit, last, short, waiting: 0.0, recent: VecDeque::new() })
    }

    fn set(&mut self, bound: Bound) {
        self.limit.value = bound.value;
        if let What::Quota { period_ns } = bound.what {
            self.limit.period_ns = period_ns;
        }
        self.bound = bound;
    }

    fn step(&mut self, root: &Root, from_ns: u64, to_ns: u64) {
        let Some(now) = self.bound.count(root) else { return };
        let Self { bound, limit, last, short, .. } = self;
        let middle_ns = from_ns + (to_ns - from_ns) / 2;
        let hits = now.hits.saturating_sub(last.hits);
        let amount = now.amount.saturating_sub(last.amount);
        limit.hits += hits;
        limit.when.add(middle_ns, hits);
        limit.periods += now.periods.saturating_sub(last.periods);
        limit.hit_ns += now.without_ns.saturating_sub(last.without_ns);
        *last = now;
        match bound.what {
            What::Memory if hits > 0 => {
                let before = std::mem::replace(short, bound.short(root));
                let refaults = short.refaults.saturating_sub(before.refaults);
                limit.refaults += refaults;
                limit.when_refaults.add(middle_ns, refaults);
                limit.stalled_ns += short.stalled_ns.saturating_sub(before.stalled_ns);
            }
            What::Io { .. } => {
                if self.is_reached(to_ns - from_ns, amount) {
                    self.limit.hit_ns += to_ns - from_ns;
                    self.limit.when.add(middle_ns, to_ns - from_ns);
                }
            }
            What::Memory | What::Quota { .. } => {}
        }
    }

    /// Whether I/O is at its limit. Version 1 counts what is asked for, before it has to wait; version 2 what
    /// is let through.
    fn is_reached(&mut self, ns: u64, amount: u64) -> bool {
        let per_s = self.bound.value as f64;
        self.recent.push_back((ns, amount));
        if self.recent.len() > READINGS {
            self.recent.pop_front();
        }
        self.waiting = (self.waiting + amount as f64 - per_s * ns as f64 / 1e9).max(0.0);
        let (time_ns, sum) =
            self.recent.iter().fold((0, 0), |(time, sum), &(ns, amount)| (time + ns, sum + amount));
        let is_full = self.recent.len() == READINGS;
        is_full && sum as f64 >= REACHED * per_s * time_ns as f64 / 1e9 || self.waiting > per_s * BURST_S
    }
}
