//! One run, read once and reduced to what comparisons need.
//!
//! Yields a [`RunDigest`] per run: a few hundred numbers and the latencies, 8 bytes each. Requests stream
//! through; whole requests are kept only while they may turn out to be warm-up (the first [`MOST_WARMUP`]) or
//! part of the tail (at most [`MOST_TAIL`]). Nothing is compared here.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use super::{
    gpu_means::GpuDigest,
    kept::Parts,
    profile::{Means, Profile},
};
use crate::{analyze::tally::LeftOut, untrusted::Untrusted};
use crate::{
    analyze::{
        rows::add_counts,
        split::Sums,
        tally::Standing,
        tree::{ALL_PLACES, Leaves, OTHER_REQUESTS, Tree, latency_ns},
    },
    phase::{COUNTS, Request},
};

/// Most requests that can be left out as a warm-up.
pub const MOST_WARMUP: u64 = 2_000;
/// Most slow requests whose parts are kept, 1 KB each: a tenth of half a million, a hundredth of 5 million.
const MOST_TAIL: usize = 50_000;
/// Numbers of requests that are kept, 16 bytes each: half a million requests of six phases have 2,000,000.
const MOST_PARTS: usize = 3_000_000;
/// Kinds of requests that are kept apart.
const MOST_NAMES: usize = 8;
/// Without marked warm-ups, one request in this many is left out, from the start of the run.
const WARMUP_ONE_IN: u64 = 50;

/// Which requests at the start of a run do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Warmup {
    /// Requests that the program marked; where it marked none, the first 2 % of 50 and more.
    #[default]
    Usual,
    /// This number of requests, besides those that the program marked; at most [`MOST_WARMUP`].
    Requests(u64),
}

/// Digest of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunDigest {
    /// Kinds of requests by the name of their outermost phase, most time first.
    pub groups: Vec<GroupDigest>,
    /// Requests that the groups leave out.
    pub left_out: LeftOut,
    /// The parts of its slowest requests are more than can be kept: there is no tail.
    pub has_lost_tail: bool,
    /// The program marked no request: the only group is its longest process, as if that were one request.
    pub is_process: bool,
}

/// Requests of one name in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupDigest {
    /// Name of the outermost phase.
    pub name: Untrusted,
    /// Latencies of the requests in ns, sorted.
    pub latencies_ns: Vec<u64>,
    /// Exact mean latency, ns.
    pub mean_ns: f64,
    /// Requests per second between the first start and the last end.
    pub throughput_per_s: f64,
    /// Logarithm of the last third's mean over the first third's; none below 30 requests.
    pub drift: Option<f64>,
    /// Correlation of one latency with the next; none below 30 requests.
    pub autocorrelation: Option<f64>,
    /// Requests left out at the start.
    pub warmup: u64,
    /// Events per request, in the order of [`Metric::ALL`].
    pub counts: [f64; COUNTS],
    /// Where the time of a mean request went.
    pub profile: Profile,
    /// The slowest tenth and the slowest hundredth, as far as there are ten such requests.
    pub tails: Vec<Tail>,
    /// What a GPU did for them, if enough of them lie within windows in which that was recorded.
    pub gpu: Option<GpuDigest>,
}

/// The slowest requests of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Tail {
    /// They lie above this quantile.
    pub quantile: f64,
    /// Mean of their latencies (expected shortfall), ns.
    pub mean_ns: f64,
    /// Where the time of a mean tail request went.
    pub profile: Profile,
}

/// The quantiles above which tails are looked at.
pub const TAILS: [f64; 2] = [0.9, 0.99];

impl RunDigest {
    /// Reads a run; the order is that of the ends of the requests.
    ///
    /// # Errors
    /// The first error of the reading.
    pub fn read<E>(
        requests: impl Iterator<Item = Result<Request, E>>,
        rows_at_most: u64,
        warmup: Warmup,
    ) -> Result<Self, E> {
        let mut reading = Reading::new(rows_at_most);
        for request in requests {
            reading.add(&request?);
        }
        Ok(reading.finish(warmup))
    }

    /// Number of requests of this name.
    pub fn count(&self, name: &str) -> u64 {
        self.group(name).map_or(0, |group| group.latencies_ns.len() as u64)
    }

    /// Makes each request stand for so many in the throughput, where a part of them was chosen.
    pub fn weigh(&mut self, weight: f64) {
        self.groups.iter_mut().for_each(|group| group.throughput_per_s *= weight);
    }

    /// The requests of this name.
    pub fn group(&self, name: &str) -> Option<&GroupDigest> {
        self.groups.iter().find(|group| group.name == *name)
    }
}

struct Reading {
    room: Room,
    keep: usize,
    groups: BTreeMap<Untrusted, GroupReading>,
    left_out: LeftOut,
    longest_process: Option<Request>,
    /// Stands for names that came after there was room.
    other: Untrusted,
}

impl Reading {
    fn new(rows_at_most: u64) -> Self {
        // A tenth of the requests (there are at most as many as rows), and some for a manifest that lags.
        let keep = usize::try_from(rows_at_most / 10).unwrap_or(MOST_TAIL).saturating_add(1_000);
        Self {
            room: Room { places: ALL_PLACES, parts: MOST_PARTS },
            keep: keep.min(MOST_TAIL),
            groups: BTreeMap::new(),
            left_out: LeftOut::default(),
            longest_process: None,
            other: OTHER_REQUESTS.into(),
        }
    }

    fn add(&mut self, request: &Request) {
        match Standing::of(request) {
            Standing::Counted => {
                let mut name = &request.root().name;
                // A program may name each request after its number.
                if !self.groups.contains_key(name) && self.groups.len() >= MOST_NAMES {
                    name = &self.other;
                }
                if !self.groups.contains_key(name) {
                    self.groups.insert(name.clone(), GroupReading::new(name));
                }
                if let Some(group) = self.groups.get_mut(name) {
                    group.add(request, self.keep, &mut self.room);
                }
            }
            Standing::Warmup => self.left_out.warmups += 1,
            Standing::Unfinished => self.left_out.unfinished += 1,
            Standing::Damaged => self.left_out.damaged += 1,
            Standing::Process => {
                let longest = self.longest_process.as_ref().map_or(0, |known| known.root().duration_ns);
                if self.longest_process.is_none() || request.root().duration_ns > longest {
                    self.longest_process = Some(request.clone());
                }
            }
        }
    }

    fn finish(mut self, warmup: Warmup) -> RunDigest {
        let is_process = self.groups.is_empty();
        if is_process && let Some(process) = &self.longest_process {
            let mut group = GroupReading::new(&process.root().name);
            group.add(process, 1, &mut self.room);
            self.groups.insert(process.root().name.clone(), group);
        }
        let marked = self.left_out.warmups > 0;
        let skip = |count: u64| match warmup {
            Warmup::Requests(requests) => requests,
            Warmup::Usual if marked || is_process => 0,
            Warmup::Usual => count / WARMUP_ONE_IN,
        };
        let has_lost_tail = self.groups.values().any(|group| group.has_lost_tail);
        let mut groups: Vec<GroupDigest> = self
            .groups
            .into_iter()
            .map(|(name, group)| {
                let skipped = skip(group.latencies_ns.len() as u64);
                group.finish(name, skipped)
            })
            .collect();
        let time = |group: &GroupDigest| group.mean_ns * group.latencies_ns.len() as f64;
        groups.sort_by(|a, b| time(b).total_cmp(&time(a)));
        RunDigest { groups, left_out: self.left_out, has_lost_tail, is_process }
    }
}

/// Memory that all groups of a run share.
struct Room {
    places: usize,
    parts: usize,
}

/// A request that is kept whole. The order of the fields is the order of requests in the tail.
#[derive(Clone, Debug)]
struct Kept {
    latency_ns: u64,
    index: u64,
    start_ns: u64,
    own: Parts,
}

struct GroupReading {
    tree: Tree,
    latencies_ns: Vec<u64>,
    sums: Vec<Sums>,
    counts: [u128; COUNTS],
    /// The first requests of the run, each with its events.
    first: Vec<(Kept, [u64; COUNTS])>,
    first_start_ns: u64,
    last_end_ns: u64,
    slowest: BinaryHeap<Reverse<(u64, Reverse<u64>)>>,
    slow: BTreeMap<u64, Kept>,
    has_lost_tail: bool,
}

impl GroupReading {
    fn new(name: &Untrusted) -> Self {
        Self {
            tree: Tree::new(name),
            latencies_ns: Vec::new(),
            sums: Vec::new(),
            counts: [0; COUNTS],
            first: Vec::new(),
            first_start_ns: u64::MAX,
            last_end_ns: 0,
            slowest: BinaryHeap::new(),
            slow: BTreeMap::new(),
            has_lost_tail: false,
        }
    }

    fn add(&mut self, request: &Request, keep: usize, room: &mut Room) {
        let root = request.root();
        let located = self.tree.learn(request, &mut room.places);
        let leaves = Leaves::of(request, &located);
        self.sums.resize(self.tree.len(), Sums::default());
        for (place, split) in &leaves.own {
            self.sums[*place].add(split);
        }
        add_counts(&mut self.counts, &root.counts);
        let index = self.latencies_ns.len() as u64;
        let latency_ns = latency_ns(request);
        self.latencies_ns.push(latency_ns);
        self.last_end_ns = self.last_end_ns.max(root.start_ns.saturating_add(root.duration_ns));
        let mut parts_left = room.parts;
        let mut kept = || {
            let kept = Kept { latency_ns, index, start_ns: root.start_ns, own: Parts::of(&leaves.own) };
            parts_left = parts_left.checked_sub(kept.own.len())?;
            Some(kept)
        };
        let is_first = index < MOST_WARMUP && self.first.len() as u64 == index;
        if let Some(kept) = is_first.then(&mut kept).flatten() {
            self.first.push((kept, root.counts.to_array()));
        } else {
            self.first_start_ns = self.first_start_ns.min(root.start_ns);
        }
        let smallest = self.slowest.peek().map(|Reverse((smallest, _))| *smallest);
        let keep = keep.saturating_add(MOST_WARMUP as usize); // those may yet drop out
        if self.slowest.len() < keep || smallest.is_some_and(|smallest| latency_ns > smallest) {
            match kept() {
                Some(kept) => {
                    self.slowest.push(Reverse((latency_ns, Reverse(index))));
                    self.slow.insert(index, kept);
                }
                None => self.has_lost_tail = true,
            }
            if self.slowest.len() > keep
                && let Some(Reverse((_, Reverse(fastest)))) = self.slowest.pop()
                && let Some(kept) = self.slow.remove(&fastest)
            {
                parts_left += kept.own.len();
            }
        }
        room.parts = parts_left;
    }

    /// Takes the first requests out of all sums again.
    fn forget(&mut self, skipped: u64) -> u64 {
        let skipped = skipped.min(self.first.len() as u64).min(self.latencies_ns.len() as u64 - 1);
        for (kept, counts) in self.first.drain(..skipped as usize) {
            for (place, split) in kept.own.splits() {
                self.sums[place].remove(&split);
            }
            for (sum, count) in self.counts.iter_mut().zip(counts) {
                *sum -= u128::from(count);
            }
            self.slow.remove(&kept.index);
        }
        self.latencies_ns.drain(..skipped as usize);
        skipped
    }

    fn finish(mut self, name: Untrusted, skipped: u64) -> GroupDigest {
        let warmup = self.forget(skipped);
        let requests = self.latencies_ns.len() as u64;
        let starts = self.first.iter().map(|(kept, _)| kept.start_ns).min();
        let first_start_ns = starts.unwrap_or(u64::MAX).min(self.first_start_ns);
        let wall_ns = self.last_end_ns.saturating_sub(first_start_ns).max(1);
        let total: u128 = self.latencies_ns.iter().map(|&ns| u128::from(ns)).sum();
        let in_order: Vec<f64> = self.latencies_ns.iter().map(|&ns| ns as f64).collect();
        let mut slow: Vec<Kept> = std::mem::take(&mut self.slow).into_values().collect();
        slow.sort_by_key(|kept| (Reverse(kept.latency_ns), kept.index));
        let means: Vec<Means> = self.sums.iter().map(|sums| Means::of(sums, requests)).collect();
        let tails = TAILS.into_iter().filter_map(|quantile| self.tail(&slow, quantile, requests)).collect();
        self.latencies_ns.sort_unstable();
        GroupDigest {
            name,
            mean_ns: total as f64 / requests.max(1) as f64,
            throughput_per_s: requests as f64 * 1e9 / wall_ns as f64,
            drift: drift(&in_order),
            autocorrelation: autocorrelation(&in_order),
            warmup,
            counts: self.counts.map(|sum| sum as f64 / requests.max(1) as f64),
            profile: self.profile(&means),
            tails,
            gpu: None,
            latencies_ns: self.latencies_ns,
        }
    }

    fn profile(&self, means: &[Means]) -> Profile {
        let order = self.tree.order().into_iter().chain([super::super::tree::ROOT]);
        let known = order.filter_map(|place| means.get(place).map(|means| (self.tree.path(place), *means)));
        let mut profile = Profile::default();
        for (path, means) in known.filter(|(_, means)| *means != Means::default()) {
            // A program may call a phase of its own `queue`, as the time before a request is called.
            profile.add(path, &means);
        }
        profile
    }

    /// The slowest requests up to this number, the last of them in part: the number need not be whole.
    fn tail(&self, slow: &[Kept], quantile: f64, requests: u64) -> Option<Tail> {
        let count = (1.0 - quantile) * requests as f64;
        // 0.1 * 100 is a little more than 10 in floating point.
        if self.has_lost_tail || count < 10.0 - 1e-9 || (slow.len() as f64) < count - 1e-9 {
            return None;
        }
        let mut means = vec![Means::default(); self.tree.len()];
        let (mut left, mut sum) = (count, 0.0);
        for kept in slow {
            let weight = left.min(1.0);
            if weight <= 1e-9 {
                break;
            }
            left -= weight;
            sum += kept.latency_ns as f64 * weight;
            for (place, split) in kept.own.splits() {
                means[place].add(&split, weight / count);
            }
        }
        Some(Tail { quantile, mean_ns: sum / count, profile: self.profile(&means) })
    }
}

fn drift(in_order: &[f64]) -> Option<f64> {
    let third = in_order.len() / 3;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let ratio = || mean(&in_order[in_order.len() - third..]) / mean(&in_order[..third]);
    (third >= 10).then(ratio).filter(|ratio| ratio.is_finite() && *ratio > 0.0).map(f64::ln)
}

fn autocorrelation(in_order: &[f64]) -> Option<f64> {
    let mean = in_order.iter().sum::<f64>() / in_order.len() as f64;
    let variance: f64 = in_order.iter().map(|value| (value - mean) * (value - mean)).sum();
    let next: f64 = in_order.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    (in_order.len() >= 30 && variance > 0.0).then(|| next / variance)
}
