//! A GPU's state at one moment, as its driver reports it, and during a phase. Pure.
//!
//! A driver samples its device by itself, every sixth of a second to every second, and reports the last
//! sample: a phase that is shorter lies between two samples, and gets the last one before its end.

use std::collections::{BTreeMap, VecDeque};

use super::values::Phase;

/// Readings kept for phases that have not ended: 20 s of the most devices in a guest, 200 s of six.
const KEPT: usize = 6_000;
/// Fewer readings while requests ran say nothing of these: one is of up to a second.
const SERVING: u64 = 10;
/// Age beyond which a reading says nothing about a phase, ns.
const STALE_NS: u64 = 2_000_000_000;

/// One reading of one device. Values that the driver does not report are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuReading {
    /// CLOCK_MONOTONIC when the device had been read, ns.
    pub time_ns: u64,
    /// Device number, as its driver counts.
    pub device: u32,
    /// Percentage of the driver's last sampling interval in which at least one kernel ran on the device.
    pub utilization_percent: Option<u64>,
    /// Percentage of that interval in which its memory was read or written.
    pub memory_utilization_percent: Option<u64>,
    /// Memory in use, by all processes, bytes.
    pub memory_used_bytes: Option<u64>,
    /// Clock of its multiprocessors, MHz.
    pub clock_sm_mhz: Option<u64>,
    /// Clock of its memory, MHz.
    pub clock_memory_mhz: Option<u64>,
    /// Power draw, mW.
    pub power_mw: Option<u64>,
    /// Temperature, degrees Celsius.
    pub temperature_celsius: Option<u64>,
    /// PCIe traffic to the device, bytes per second; asked less often than the rest.
    pub pcie_to_device_bytes_per_s: Option<u64>,
    /// The same from the device.
    pub pcie_from_device_bytes_per_s: Option<u64>,
    /// Why the clocks are not higher: bits of NVML's `nvmlClocksEventReasons`.
    pub throttle_reasons: Option<u64>,
}

/// What processes used of one device in an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuProcesses {
    /// CLOCK_MONOTONIC at the end of the interval, ns.
    pub time_ns: u64,
    /// Length of the interval, ns.
    pub over_ns: u64,
    /// Device number, as its driver counts.
    pub device: u32,
    /// Process IDs, and for which part of the interval a kernel of each ran, percent.
    pub list: Vec<(u32, u64)>,
}

/// What processes hold of one device's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuMemory {
    /// Device number, as its driver counts.
    pub device: u32,
    /// Process IDs, and what each holds, bytes; those first that hold most.
    pub list: Vec<(u32, u64)>,
}

/// An error of a device that its driver reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuError {
    /// CLOCK_MONOTONIC when it was read, ns.
    pub time_ns: u64,
    /// Device number, as its driver counts.
    pub device: u32,
    /// The driver's number (Xid); none for memory that could not be corrected.
    pub xid: Option<u64>,
}

/// Summary of the readings of one device during an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuUse {
    /// Readings behind it.
    pub readings: u64,
    /// Mean.
    pub utilization_percent: Option<u64>,
    /// Mean of the readings while requests ran; none of fewer than ten.
    pub serving_percent: Option<u64>,
    /// Mean.
    pub memory_utilization_percent: Option<u64>,
    /// Largest.
    pub memory_used_bytes: Option<u64>,
    /// Lowest clock: where a throttled device fell to.
    pub clock_sm_mhz: Option<u64>,
    /// Mean.
    pub power_mw: Option<u64>,
    /// Largest.
    pub temperature_celsius: Option<u64>,
    /// All throttle reasons of any reading, among those that were requested.
    pub throttle_reasons: u64,
    /// Readings with any of these.
    pub throttled: u64,
}

/// Adds readings of one device up.
#[derive(Clone, Copy, Debug, Default)]
pub struct GpuTally {
    readings: u64,
    utilization: Mean,
    serving: Mean,
    memory_utilization: Mean,
    power: Mean,
    memory_used_bytes: Option<u64>,
    clock_sm_mhz: Option<u64>,
    temperature_celsius: Option<u64>,
    throttle_reasons: u64,
    throttled: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.sum = self.sum.saturating_add(value);
            self.count += 1;
        }
    }

    fn value(self) -> Option<u64> {
        let half = self.count / 2;
        self.sum.saturating_add(half).checked_div(self.count)
    }
}

impl GpuTally {
    /// Adds a reading; `held` are the reasons that throttle clocks, the others are ignored. `is_serving`:
    /// whether requests ran then.
    pub fn add(&mut self, reading: &GpuReading, held: u64, is_serving: bool) {
        self.readings += 1;
        self.utilization.add(reading.utilization_percent);
        self.serving.add(reading.utilization_percent.filter(|_| is_serving));
        self.memory_utilization.add(reading.memory_utilization_percent);
        self.power.add(reading.power_mw);
        self.memory_used_bytes = self.memory_used_bytes.max(reading.memory_used_bytes);
        self.temperature_celsius = self.temperature_celsius.max(reading.temperature_celsius);
        let clocks = self.clock_sm_mhz.into_iter().chain(reading.clock_sm_mhz);
        self.clock_sm_mhz = clocks.min();
        let reasons = reading.throttle_reasons.unwrap_or(0) & held;
        self.throttle_reasons |= reasons;
        self.throttled += u64::from(reasons != 0);
    }

    /// Returns the summary.
    pub fn total(&self) -> GpuUse {
        GpuUse {
            readings: self.readings,
            utilization_percent: self.utilization.value(),
            serving_percent: self.serving.value().filter(|_| self.serving.count >= SERVING),
            memory_utilization_percent: self.memory_utilization.value(),
            memory_used_bytes: self.memory_used_bytes,
            clock_sm_mhz: self.clock_sm_mhz,
            power_mw: self.power.value(),
            temperature_celsius: self.temperature_celsius,
            throttle_reasons: self.throttle_reasons,
            throttled: self.throttled,
        }
    }
}

/// The latest readings, in the order of their times; only the NVML process makes them.
#[derive(Clone, Debug, Default)]
pub struct GpuReadings(VecDeque<GpuReading>);

impl GpuReadings {
    /// Keeps one, and forgets the oldest where there are too many.
    pub fn add(&mut self, reading: GpuReading) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(reading);
    }

    /// Each device during a phase: all readings within it, or the last one before its end. `held` as above.
    pub fn during(&self, phase: &Phase, held: u64) -> BTreeMap<u32, GpuUse> {
        let (start_ns, end_ns) = (phase.start_ns, phase.start_ns.saturating_add(phase.duration_ns));
        let mut inside: BTreeMap<u32, GpuTally> = BTreeMap::new();
        let mut before: BTreeMap<u32, &GpuReading> = BTreeMap::new();
        let first = self.0.partition_point(|reading| reading.time_ns < start_ns.saturating_sub(STALE_NS));
        for reading in self.0.range(first..).take_while(|reading| reading.time_ns <= end_ns) {
            if reading.time_ns >= start_ns {
                inside.entry(reading.device).or_default().add(reading, held, true);
            } else if end_ns - reading.time_ns <= STALE_NS {
                before.insert(reading.device, reading);
            }
        }
        for (device, reading) in before {
            inside.entry(device).or_insert_with(|| {
                let mut tally = GpuTally::default();
                tally.add(reading, held, true);
                tally
            });
        }
        inside.into_iter().map(|(device, tally)| (device, tally.total())).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{GpuReading, GpuReadings, GpuTally, GpuUse, KEPT};

    #[test]
    fn what_a_driver_does_not_tell_stays_unknown() {
        let mut tally = GpuTally::default();
        tally.add(&GpuReading::default(), 0, true);
        assert_eq!(tally.total(), GpuUse { readings: 1, ..GpuUse::default() });
    }

    #[test]
    fn what_is_busy_without_requests_is_not_serving() {
        let mut tally = GpuTally::default();
        for (percent, is_serving, serving_percent) in
            [(90, false, None)].into_iter().chain([(10, true, None); 9]).chain([(30, true, Some(12))])
        {
            let utilization_percent = Some(percent);
            tally.add(&GpuReading { utilization_percent, ..GpuReading::default() }, 0, is_serving);
            assert_eq!(tally.total().serving_percent, serving_percent);
        }
        assert_eq!(tally.total().utilization_percent, Some(19));
    }

    proptest! {
        /// Against the same sums made the long way.
        #[test]
        fn readings_add_up(all in proptest::collection::vec((0_u64..101, 1_u64..3_000, 0_u64..512), 1..50)) {
            let mut tally = GpuTally::default();
            for &(percent, clock, reasons) in &all {
                let reading = GpuReading {
                    utilization_percent: Some(percent),
                    memory_used_bytes: Some(percent),
                    clock_sm_mhz: Some(clock),
                    throttle_reasons: Some(reasons),
                    ..GpuReading::default()
                };
                tally.add(&reading, 0x66, false);
            }
            let total = tally.total();
            let mean = all.iter().map(|one| one.0 as f64).sum::<f64>() / all.len() as f64;
            prop_assert!((total.utilization_percent.unwrap() as f64 - mean).abs() <= 0.5 + 1e-9);
            prop_assert_eq!(total.memory_used_bytes, all.iter().map(|one| one.0).max());
            prop_assert_eq!(total.clock_sm_mhz, all.iter().map(|one| one.1).min());
            prop_assert_eq!(total.throttle_reasons, all.iter().fold(0, |mask, one| mask | one.2) & 0x66);
            prop_assert_eq!(total.throttled, all.iter().filter(|one| one.2 & 0x66 != 0).count() as u64);
        }
    }

    #[test]
    fn any_number_of_readings_takes_little_memory() {
        let mut readings = GpuReadings::default();
        for time_ns in 0..3 * KEPT as u64 {
            readings.add(GpuReading { time_ns, ..GpuReading::default() });
        }
        assert_eq!((readings.0.len(), readings.0[0].time_ns), (KEPT, 2 * KEPT as u64));
    }
}
