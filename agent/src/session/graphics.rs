//! The graphics processors during a run: what is told of them goes into rows, and what it comes to into the manifest.

use std::collections::BTreeMap;

use super::{Session, cost, sight::Sight};
use crate::{
    failure,
    gpu::{self, Gpus, News},
    phase::{GpuReading, GpuTally},
    platform::Root,
    run::{GpuRecord, Sample},
};

/// What was told so far.
#[derive(Debug, Default)]
pub(super) struct Graphics {
    gpus: Gpus,
    record: GpuRecord,
    tallies: BTreeMap<u32, GpuTally>,
}

impl Graphics {
    /// Begins to look, where there is a driver.
    pub(super) fn start() -> Self {
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

    /// See [`Gpus::next`].
    pub(super) async fn next(&mut self) -> News {
        self.gpus.next().await
    }

    fn over(&mut self, why: &str) {
        failure::say(&format!("warning: graphics processors are not looked at: {why}\n"));
        self.record.ended_early = Some(why.to_owned());
    }

    fn add(&mut self, reading: &GpuReading) {
        self.tallies.entry(reading.device).or_default().add(reading);
    }

    /// All of it so far.
    pub(super) fn record(&self) -> GpuRecord {
        let mut record = self.record.clone();
        for device in &mut record.devices {
            if let Some(tally) = self.tallies.get(&device.index) {
                let total = tally.total();
                device.used(&total);
                device.throttled_by = gpu::held_by(total.throttle_reasons).map(str::to_owned).collect();
            }
        }
        record
    }
}

impl<F: Sight> Session<F> {
    /// Keeps what was told.
    pub(super) fn gpu(&mut self, news: News) {
        match news {
            News::Reading(reading) => {
                self.graphics.add(&reading);
                let sample = cost::sample(self.feed.edges_read());
                self.outlet.sample(Sample { gpu: Some(reading), ..sample });
                return;
            }
            News::Known(hello) => self.graphics.record = gpu::record(&hello),
            News::Trouble(what) => failure::say(&format!("warning: graphics processors: {what}\n")),
            News::Over(why) => why.iter().for_each(|why| self.graphics.over(why)),
        }
        self.outlet.gpu(self.graphics.record());
    }
}
