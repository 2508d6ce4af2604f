//! What others leave of a graphics processor: processes that are not observed and use it as well, or hold its
//! memory, and clocks that are held down.
//!
//! Yields [`Limit`]s, and [`GpuHolder`]s of memory. Of times only what is read while requests run counts, and
//! only devices that observed processes use. Where the driver shows no process, as in some containers, no
//! other process is known, and clocks are those of the only device.

use std::{
    collections::{BTreeMap, HashMap},
    iter,
};

use crate::{
    clock,
    folder::GpuHolder,
    gpu::{CLOCKS_HELD, GPU_IDLE, Hello, throttle_words},
    limits::{Kind, Limit, Timeline},
    phase::{GpuMemory, GpuProcesses, GpuReading},
    tasks,
    untrusted::Untrusted,
};

/// Length of the first steps of a timeline, ns: that of the readings.
const STEP_NS: u64 = 200_000_000;
/// Longest time between two readings that one stands for, ns.
const LONGEST_NS: u64 = 1_000_000_000;
/// Most processes told apart: of others nothing is told.
const PROCESSES: usize = 256;
/// Most ancestors of a process that are looked at.
const ANCESTORS: usize = 64;
/// Most processes kept at the end, those first that had the devices longest.
const KEPT: usize = 8;

/// What is known of the devices so far.
#[derive(Debug, Default)]
pub(super) struct Others {
    started_ns: u64,
    devices: BTreeMap<u32, Device>,
    observed: Vec<u32>,
    /// Processes that use a device, by their IDs.
    processes: HashMap<u32, User>,
    /// By device and process.
    shared: BTreeMap<(u32, u32), Limit>,
    /// The same.
    held: BTreeMap<(u32, u32), GpuHolder>,
}

/// A process that uses a device.
#[derive(Clone, Debug, PartialEq, Eq)]
enum User {
    Observed,
    /// Not observed, with its name.
    Stranger(String),
    /// This guest shows no such process: NVML counts those of containers as their host does.
    Unknown,
}

#[derive(Debug, Default)]
struct Device {
    /// Time of the last reading, ns; 0 before the first.
    last_ns: u64,
    seen_ns: u64,
    /// The highest clock, by its driver.
    most_mhz: u64,
    /// The highest clock that was read while nothing held it.
    free_mhz: u64,
    reasons: u64,
    clock: Limit,
    /// Whether an observed process used it.
    is_used: bool,
}

impl Others {
    /// The devices.
    pub(super) fn known(&mut self, hello: &Hello) {
        self.started_ns = clock::now_ns();
        for device in &hello.devices {
            let clock = Limit {
                kind: Kind::GpuClock,
                device: device.index.to_string(),
                when: Timeline::starting(self.started_ns, STEP_NS),
                ..Limit::default()
            };
            let most_mhz = device.clock_sm_max_mhz.map_or(0, u64::from);
            self.devices.insert(device.index, Device { most_mhz, clock, ..Device::default() });
        }
    }

    /// These processes are observed, and their descendants.
    pub(super) fn observe(&mut self, processes: &[u32]) {
        if self.observed != processes {
            processes.clone_into(&mut self.observed);
            // One that was taken for a stranger may be observed by now.
            self.processes.clear();
            let mut shared = std::mem::take(&mut self.shared);
            shared.retain(|&(_, pid), _| !self.is_observed(pid));
            self.shared = shared;
            let mut held = std::mem::take(&mut self.held);
            for (&(_, pid), holder) in &mut held {
                holder.is_observed |= self.is_observed(pid);
            }
            self.held = held;
        }
    }

    /// Takes a reading. `is_serving`: whether requests ran since the one before.
    pub(super) fn read(&mut self, reading: &GpuReading, is_serving: bool) {
        let Some(device) = self.devices.get_mut(&reading.device) else { return };
        let before_ns = std::mem::replace(&mut device.last_ns, reading.time_ns);
        let since_ns = if before_ns == 0 { STEP_NS } else { reading.time_ns.saturating_sub(before_ns) };
        let since_ns = since_ns.min(LONGEST_NS);
        let reasons = reading.throttle_reasons.unwrap_or(0);
        let held = if reasons & GPU_IDLE == 0 { reasons & CLOCKS_HELD } else { 0 };
        let mhz = reading.clock_sm_mhz.filter(|mhz| *mhz > 0);
        if held == 0 && reasons & GPU_IDLE == 0 {
            device.free_mhz = device.free_mhz.max(mhz.unwrap_or(0));
        }
        if !is_serving {
            return;
        }
        device.seen_ns = device.seen_ns.saturating_add(since_ns);
        let Some(mhz) = mhz.filter(|_| held != 0) else { return };
        device.reasons |= held;
        let most_mhz = device.highest().max(mhz);
        let clock = &mut device.clock;
        let lost_ns = (since_ns as f64 * (1.0 - mhz as f64 / most_mhz as f64)) as u64;
        clock.hits += 1;
        clock.value = if clock.value == 0 { mhz } else { clock.value.min(mhz) };
        clock.hit_ns = clock.hit_ns.saturating_add(lost_ns);
        clock.when.add(reading.time_ns.saturating_sub(since_ns / 2), lost_ns);
    }

    /// Takes what processes used. `is_serving` as above.
    pub(super) fn used(&mut self, told: &GpuProcesses, is_serving: bool) {
        for &(pid, percent) in &told.list {
            let comm = match self.user(pid) {
                User::Observed => {
                    self.devices.entry(told.device).and_modify(|device| device.is_used = true);
                    continue;
                }
                User::Unknown => continue,
                User::Stranger(comm) => comm,
            };
            let (begun_ns, key) = (self.started_ns, (told.device, pid));
            let has_room = self.shared.len() < PROCESSES || self.shared.contains_key(&key);
            if !is_serving || !has_room {
                continue;
            }
            let limit = self.shared.entry(key).or_insert_with(|| Limit {
                kind: Kind::GpuShared,
                device: told.device.to_string(),
                comm,
                pid,
                when: Timeline::starting(begun_ns, STEP_NS),
                ..Limit::default()
            });
            let used_ns = told.over_ns / 100 * percent;
            limit.hits += 1;
            limit.hit_ns = limit.hit_ns.saturating_add(used_ns);
            limit.when.add(told.time_ns.saturating_sub(told.over_ns / 2), used_ns);
        }
    }

    /// Takes what processes hold of a device's memory. Only where an observed one is among them, the driver
    /// surely counts processes as this guest does.
    pub(super) fn held(&mut self, told: &GpuMemory) {
        let users: Vec<User> = told.list.iter().map(|&(pid, _)| self.user(pid)).collect();
        if !users.contains(&User::Observed) {
            return;
        }
        for (&(pid, bytes), user) in told.list.iter().zip(users) {
            let (is_observed, comm) = match user {
                User::Observed => (true, name(pid).unwrap_or_default()),
                User::Stranger(comm) => (false, comm),
                User::Unknown => continue,
            };
            let key = (told.device, pid);
            if self.held.len() < PROCESSES || self.held.contains_key(&key) {
                let new = || GpuHolder { pid, comm, ..GpuHolder::default() };
                let holder = self.held.entry(key).or_insert_with(new);
                holder.is_observed |= is_observed;
                holder.memory_bytes = bytes.max(holder.memory_bytes);
            }
        }
    }

    /// The processes that held most of a device's memory, those first.
    pub(super) fn holders(&self, device: u32) -> Vec<GpuHolder> {
        let of_device = self.held.range((device, 0)..=(device, u32::MAX));
        let mut holders: Vec<GpuHolder> = of_device.map(|(_, holder)| holder.clone()).collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.memory_bytes));
        holders.truncate(KEPT);
        holders
    }

    /// Whether an observed process uses this device; none where the driver shows no process.
    pub(super) fn is_used(&self, device: u32) -> Option<bool> {
        let is_shown = self.devices.values().any(|one| one.is_used);
        is_shown.then(|| self.devices.get(&device).is_some_and(|one| one.is_used))
    }

    fn user(&mut self, pid: u32) -> User {
        if let Some(known) = self.processes.get(&pid) {
            return known.clone();
        }
        if self.processes.len() >= PROCESSES {
            return User::Unknown;
        }
        let user = match name(pid) {
            _ if self.is_observed(pid) => User::Observed,
            Some(name) => User::Stranger(name),
            None => User::Unknown,
        };
        self.processes.insert(pid, user.clone());
        user
    }

    /// Whether a process or one of its ancestors is observed.
    fn is_observed(&self, pid: u32) -> bool {
        let line = iter::successors(Some(pid), |pid| parent(*pid).filter(|parent| *parent > 1));
        line.take(ANCESTORS).any(|pid| self.observed.contains(&pid))
    }

    /// What was seen of each device.
    pub(super) fn limits(&self) -> Vec<Limit> {
        let seen_ns = |device: u32| self.devices.get(&device).map_or(0, |device| device.seen_ns);
        let of_process = |(&(device, _), limit): (&(u32, u32), &Limit)| Limit {
            seen_ns: seen_ns(device).max(limit.hit_ns),
            ..limit.clone()
        };
        let shared = self.shared.iter().filter(|((device, _), _)| self.is_used(*device) == Some(true));
        let mut limits: Vec<Limit> = shared.map(of_process).collect();
        limits.sort_by_key(|limit| std::cmp::Reverse(limit.hit_ns));
        limits.truncate(KEPT);
        let of_clock = |device: &Device| Limit {
            file: throttle_words(device.reasons).collect::<Vec<_>>().join(", "),
            seen_ns: device.seen_ns,
            most_mhz: device.highest().max(device.clock.value),
            ..device.clock.clone()
        };
        let is_only = self.devices.len() == 1;
        let used = self.devices.iter().filter(|(device, _)| self.is_used(**device).unwrap_or(is_only));
        limits.extend(used.map(|(_, device)| device).filter(|device| device.clock.hit_ns > 0).map(of_clock));
        limits
    }
}

impl Device {
    /// The clock that work would have: the highest one that nothing held, else the highest of all, MHz.
    fn highest(&self) -> u64 {
        if self.free_mhz > 0 { self.free_mhz } else { self.most_mhz }
    }
}

/// The name of a process; none if this guest shows no such process.
fn name(pid: u32) -> Option<String> {
    let text = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(Untrusted::of_bytes(text.trim_ascii_end()).stored().to_owned())
}

fn parent(pid: u32) -> Option<u32> {
    let status = tasks::status(format!("/proc/{pid}").as_ref()).ok()?;
    tasks::field(&status, "PPid")?.parse().ok()
}

#[cfg(test)]
#[path = "others_tests.rs"]
mod tests;
