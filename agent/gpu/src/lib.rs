//! NVIDIA's graphics processors: which there are, and their readings while a program runs.
//!
//! A static binary cannot load the driver's library, so a separate program does: the NVML process
//! ([`process`]), embedded in this binary. Without a driver it is not started. If it hangs in the driver or
//! dies, only the readings end. Yields [`News`]; nothing is kept. What ran on a device is asked inside the
//! programs themselves ([`trace`]).

// Text from outside leaves only by `untrusted`, `json` and `out`: see .clippy.toml.
#![warn(clippy::disallowed_methods)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests print what they like"))]

mod carried;
mod facts;
mod library;
mod news;
mod process;
#[cfg(test)]
mod tests;
pub mod trace;
mod user;

use std::{future::pending, time::Duration};

use tokio::time::timeout;

pub use guestscope_nvml::{CLOCKS_HELD, Device, GPU_IDLE, Hello, throttle_words};

use self::process::NvmlProcess;
pub use self::{
    facts::record,
    library::{Driver, find, may_be_waited_for},
    news::News,
};
use guestscope_base::{guarded, privileges, untrusted};
use guestscope_folder::GpuRecord;
use guestscope_model::phase;
use guestscope_platform as platform;

/// Period of the readings: drivers themselves sample every sixth of a second at most.
const PERIOD: Duration = Duration::from_millis(200);

/// The graphics processors of this guest.
#[derive(Debug, Default)]
pub struct Gpus {
    process: Option<NvmlProcess>,
    /// CPU time of the NVML process when it was last read.
    cpu: Duration,
}

impl Gpus {
    /// Starts the NVML process if there is a driver. Needs the event loop.
    ///
    /// # Errors
    /// Why the NVML process does not run, for people.
    pub fn start(driver: Option<&Driver>) -> Result<Self, String> {
        let process = driver.map(|driver| NvmlProcess::start(driver, PERIOD)).transpose()?;
        Ok(Self { process, cpu: Duration::ZERO })
    }

    /// Process ID of the NVML process, which is not observed.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(NvmlProcess::pid)
    }

    /// CPU time of the NVML process so far, user and system, all threads: the driver's share of a reading
    /// included.
    pub fn cpu(&mut self) -> Duration {
        if let Some(cpu) = self.process.as_ref().and_then(NvmlProcess::cpu) {
            self.cpu = cpu;
        }
        self.cpu
    }

    /// The next news; pending forever without a driver and after the end. A cancelled call loses nothing.
    pub async fn next(&mut self) -> News {
        let Some(process) = &mut self.process else { return pending().await };
        let news = process.next().await;
        if matches!(news, News::Over(_)) {
            self.cpu();
            self.process = None;
        }
        news
    }
}

/// The devices of this driver, or why there are none, for people. Creates an event loop: not for async
/// callers.
///
/// # Errors
/// The reason, for people.
pub fn look(driver: &Driver) -> Result<GpuRecord, String> {
    /// Limit of the answer: the caller waits for it.
    const PATIENCE: Duration = Duration::from_secs(10);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("there is no event loop: {error}"))?;
    runtime.block_on(async {
        let mut gpus = Gpus::start(Some(driver))?;
        let told = async {
            loop {
                match gpus.next().await {
                    News::Known(hello) => return Ok(record(&hello)),
                    News::Over(why) => return why.map_or_else(|| Ok(GpuRecord::default()), Err),
                    News::Reading(_)
                    | News::Processes(_)
                    | News::Memory(_)
                    | News::Error(_)
                    | News::Trouble(_) => {}
                }
            }
        };
        let nothing = |_| Err("it said nothing: the driver seems to hang".to_owned());
        timeout(PATIENCE, told).await.unwrap_or_else(nothing)
    })
}
