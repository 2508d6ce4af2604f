//! Graphics processors during a run: readings become rows, their totals go into the manifest.

use std::{collections::BTreeMap, time::Duration};

use super::others::Others;
use crate::{
    folder::{GpuFault, GpuRecord, Sample},
    gpu::{self, CLOCKS_HELD, Gpus, Hello, News, throttle_words},
    limits::Limit,
    out,
    phase::{GpuError, GpuMemory, GpuProcesses, GpuReading, GpuTally},
    platform::Root,
};

/// Most errors of a device that are told: a broken one may have any number.
const MOST_ERRORS: usize = 16;

/// GPU readings and totals so far.
#[derive(Debug, Default)]
pub(crate) struct Graphics {
    gpus: Gpus,
    record: GpuRecord,
    tallies: BTreeMap<u32, GpuTally>,
    others: Others,
    /// Whether requests ran at the last reading.
    had_requests: bool,
    /// Rows that wait for the next tick.
    rows: Vec<Sample>,
    /// The last sample of the guest and the agent.
    last: Sample,
}

impl Graphics {
    /// Starts reading, if there is a driver.
    pub(crate) fn start() -> Self {
        let driver = gpu::find(&Root::system());
        match Gpus::start(driver.as_ref()) {
            Ok(gpus) => Self { gpus, ..Self::default() },
            Err(why) => {
                let mut graphics = Self::default();
                graphics.over(&why);
                graphics
            }
        }
    }

    /// See [`Gpus::pid`].
    pub(crate) fn pid(&self) -> Option<u32> {
        self.gpus.pid()
    }

    /// See [`Gpus::cpu`].
    pub(crate) fn cpu(&mut self) -> Duration {
        self.gpus.cpu()
    }

    /// See [`Gpus::next`].
    pub(crate) async fn next(&mut self) -> News {
        self.gpus.next().await
    }

    pub(super) fn known(&mut self, hello: &Hello) {
        self.record = gpu::record(hello);
        self.others.known(hello);
    }

    pub(super) fn over(&mut self, why: &str) {
        let more = if self.tallies.is_empty() { "" } else { " any more" };
        out::say(&format!("warning: graphics processors are not read{more}: {why}\n"));
        self.record.ended_early = Some(why.to_owned());
    }

    /// Takes a sample of the guest and the agent: rows of devices carry its numbers until the next one.
    pub(crate) fn looked(&mut self, sample: &Sample) {
        self.last = *sample;
    }

    /// Takes a reading. `has_requests`: whether requests run now.
    pub(super) fn add(&mut self, reading: GpuReading, has_requests: bool) {
        // A reading is of the time before it.
        let is_serving = std::mem::replace(&mut self.had_requests, has_requests) && has_requests;
        self.tallies.entry(reading.device).or_default().add(&reading, CLOCKS_HELD, is_serving);
        self.others.read(&reading, is_serving);
        self.rows.push(Sample { gpu: Some(reading), ..self.last });
    }

    /// Takes an error of a device.
    pub(super) fn failed(&mut self, error: &GpuError) {
        let Some(device) = self.record.devices.iter_mut().find(|one| one.index == error.device) else {
            return;
        };
        if device.errors.len() < MOST_ERRORS {
            let fault = GpuFault { time_ns: error.time_ns, xid: error.xid };
            out::say(&format!("warning: graphics processor {}: {}\n", device.index, fault.name()));
            device.errors.push(fault);
        }
    }

    /// These processes are observed.
    pub(super) fn observe(&mut self, processes: &[u32]) {
        self.others.observe(processes);
    }

    /// Takes what processes used, which comes right behind a reading of the device.
    pub(super) fn used(&mut self, told: &GpuProcesses) {
        self.others.used(told, self.had_requests);
    }

    /// Takes what processes hold of a device's memory.
    pub(super) fn held(&mut self, told: &GpuMemory) {
        self.others.held(told);
    }

    /// What others and its clocks left of each device.
    pub(super) fn limits(&self) -> Vec<Limit> {
        self.others.limits()
    }

    /// Rows since the last call.
    pub(super) fn take_rows(&mut self) -> Vec<Sample> {
        std::mem::take(&mut self.rows)
    }

    /// Record so far.
    pub(crate) fn record(&self) -> GpuRecord {
        let mut record = self.record.clone();
        for device in &mut record.devices {
            if let Some(tally) = self.tallies.get(&device.index) {
                let total = tally.total();
                device.used(&total);
                device.is_used = self.others.is_used(device.index);
                device.holders = self.others.holders(device.index);
                device.throttled_by = throttle_words(total.throttle_reasons).map(str::to_owned).collect();
            }
        }
        record
    }
}
