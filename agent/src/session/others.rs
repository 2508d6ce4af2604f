//! What others leave of a graphics processor: processes that are not observed and use it as well, and clocks
//! that are held down.
//!
//! Yields [`Limit`]s. Only what is read while requests run counts, and only devices that observed processes
//! use. Where there are several and the driver shows no process, as in some containers, nothing is known of
//! that.

use std::collections::{BTreeMap, HashMap};

use super::limits::with_descendants;
use crate::{
    clock,
    gpu::{CLOCKS_HELD, Hello, throttle_words},
    limits::{Kind, Limit, Timeline},
    phase::{GpuProcesses, GpuReading},
    untrusted::Untrusted,
};

/// Length of the first steps of a timeline, ns: that of the readings.
const STEP_NS: u64 = 200_000_000;
/// Longest time between two readings that one stands for, ns.
const LONGEST_NS: u64 = 1_000_000_000;
/// Most processes told apart.
const PROCESSES: usize = 256;
/// Most processes kept at the end, those first that had the devices longest.
const KEPT: usize = 8;

/// What is known of the devices so far.
#[derive(Debug, Default)]
pub(super) struct Others {
    started_ns: u64,
    devices: BTreeMap<u32, Device>,
    observed: Vec<u32>,
    /// Processes that use a device, by their IDs; no name if observed.
    processes: HashMap<u32, Option<String>>,
    /// By device and process.
    shared: BTreeMap<(u32, u32), Limit>,
}

#[derive(Debug, Default)]
struct Device {
    /// Time of the last reading, ns; 0 before the first.
    last_ns: u64,
    seen_ns: u64,
    most_mhz: u64,
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
        }
    }

    /// Takes a reading.
    pub(super) fn read(&mut self, reading: &GpuReading) {
        let Some(device) = self.devices.get_mut(&reading.device) else { return };
        let before_ns = std::mem::replace(&mut device.last_ns, reading.time_ns);
        let since_ns = if before_ns == 0 { STEP_NS } else { reading.time_ns.saturating_sub(before_ns) };
        let since_ns = since_ns.min(LONGEST_NS);
        device.seen_ns = device.seen_ns.saturating_add(since_ns);
        let Some(mhz) = reading.clock_sm_mhz.filter(|mhz| *mhz > 0) else { return };
        device.most_mhz = device.most_mhz.max(mhz);
        let reasons = reading.throttle_reasons.unwrap_or(0) & CLOCKS_HELD;
        if reasons == 0 {
            return;
        }
        device.reasons |= reasons;
        let Device { clock, most_mhz, .. } = device;
        let lost_ns = (since_ns as f64 * (1.0 - mhz as f64 / *most_mhz as f64)) as u64;
        clock.hits += 1;
        clock.value = if clock.value == 0 { mhz } else { clock.value.min(mhz) };
        clock.hit_ns = clock.hit_ns.saturating_add(lost_ns);
        clock.when.add(reading.time_ns.saturating_sub(since_ns / 2), lost_ns);
    }

    /// Takes what processes used.
    pub(super) fn used(&mut self, told: &GpuProcesses) {
        for &(pid, percent) in &told.list {
            let Some(comm) = self.stranger(pid) else {
                self.devices.entry(told.device).and_modify(|device| device.is_used = true);
                continue;
            };
            let begun_ns = self.started_ns;
            let limit = self.shared.entry((told.device, pid)).or_insert_with(|| Limit {
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

    /// The name of a process that is not observed.
    fn stranger(&mut self, pid: u32) -> Option<String> {
        if let Some(known) = self.processes.get(&pid) {
            return known.clone();
        }
        let is_observed = with_descendants(self.observed.clone()).contains(&pid);
        let name = (!is_observed).then(|| name(pid));
        if self.processes.len() < PROCESSES {
            self.processes.insert(pid, name.clone());
        }
        name
    }

    /// What was seen of each device.
    pub(super) fn limits(&self) -> Vec<Limit> {
        let seen_ns = |device: u32| self.devices.get(&device).map_or(0, |device| device.seen_ns);
        let of_process = |(&(device, _), limit): (&(u32, u32), &Limit)| Limit {
            seen_ns: seen_ns(device).max(limit.hit_ns),
            ..limit.clone()
        };
        let is_only = self.devices.len() == 1;
        let used = self.devices.iter().filter(|(_, device)| is_only || device.is_used);
        let used: BTreeMap<u32, &Device> = used.map(|(&index, device)| (index, device)).collect();
        let shared = self.shared.iter().filter(|((device, _), _)| used.contains_key(device));
        let mut limits: Vec<Limit> = shared.map(of_process).collect();
        limits.sort_by_key(|limit| std::cmp::Reverse(limit.hit_ns));
        limits.truncate(KEPT);
        let of_clock = |device: &Device| Limit {
            file: throttle_words(device.reasons).collect::<Vec<_>>().join(", "),
            seen_ns: device.seen_ns,
            most_mhz: device.most_mhz,
            ..device.clock.clone()
        };
        limits.extend(used.into_values().filter(|device| device.clock.hit_ns > 0).map(of_clock));
        limits
    }
}

/// The name of a process, empty where this guest does not show it.
fn name(pid: u32) -> String {
    let text = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    Untrusted::of_bytes(text.trim_ascii_end()).stored().to_owned()
}

#[cfg(test)]
#[path = "others_tests.rs"]
mod tests;
