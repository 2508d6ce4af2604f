//! Facts about NVIDIA's graphics processors: which there are, and what they do while a program runs.
//!
//! A static binary cannot load the driver's library, so a helper does ([`helper`]): a program of its own that travels inside
//! this one. No driver, no helper: nothing is started then. That it hangs in the driver, or dies, ends the readings and
//! nothing else. Yields [`News`]; it keeps nothing.

mod facts;
mod helper;
mod library;
#[cfg(test)]
mod tests;
mod user;

use std::{future::pending, time::Duration};

use tokio::time::timeout;

pub use guestscope_nvml::{CLOCKS_HELD, Hello, throttle_words};

use self::helper::Helper;
pub use self::{
    facts::record,
    library::{Driver, find},
};
use crate::{phase::GpuReading, run::GpuRecord};

/// Between two readings of a device: drivers themselves look every sixth of a second at most.
const PERIOD: Duration = Duration::from_millis(200);

/// What the helper tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The devices that there are; comes first.
    Known(Hello),
    /// What one does.
    Reading(GpuReading),
    /// Something of no consequence for the rest, for people: a device fell off.
    Trouble(String),
    /// No more comes, and why, for people; none where there is no device to tell of.
    Over(Option<String>),
}

/// The graphics processors of this guest.
#[derive(Debug, Default)]
pub struct Gpus {
    helper: Option<Helper>,
    /// CPU time of the helper when it was last looked at.
    cpu: Duration,
}

impl Gpus {
    /// Begins to look, where there is a driver. Needs the event loop.
    ///
    /// # Errors
    /// Why the helper does not run, for people.
    pub fn start(driver: Option<&Driver>) -> Result<Self, String> {
        let helper = driver.map(|driver| Helper::start(driver, PERIOD)).transpose()?;
        Ok(Self { helper, cpu: Duration::ZERO })
    }

    /// The number of the helper's process, which is none of those that are observed.
    pub fn pid(&self) -> Option<u32> {
        self.helper.as_ref().map(Helper::pid)
    }

    /// CPU time that the helper has taken so far, user and system, all its threads: the driver's share of a reading too.
    pub fn cpu(&mut self) -> Duration {
        if let Some(cpu) = self.helper.as_ref().and_then(Helper::cpu) {
            self.cpu = cpu;
        }
        self.cpu
    }

    /// What is told next; nothing ever, where there is no driver and after the end. A call that is given up loses nothing.
    pub async fn next(&mut self) -> News {
        let Some(helper) = &mut self.helper else { return pending().await };
        let news = helper.next().await;
        if matches!(news, News::Over(_)) {
            self.cpu();
            self.helper = None;
        }
        news
    }
}

/// Looks once: the devices of this driver, or why there is nothing to tell, for people. Makes and unmakes an event loop: not for
/// async callers.
///
/// # Errors
/// For people too.
pub fn look(driver: &Driver) -> Result<GpuRecord, String> {
    /// Whoever asks waits for it.
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
                    News::Reading(_) | News::Trouble(_) => {}
                }
            }
        };
        let nothing = |_| Err("it said nothing: the driver seems to hang".to_owned());
        timeout(PATIENCE, told).await.unwrap_or_else(nothing)
    })
}

/// What another program says of itself is not ours to trust: without control characters, and no longer than this.
fn cleaned(given: &str, most: usize) -> String {
    given.chars().filter(|one| !crate::untrusted::is_unsafe(*one)).take(most).collect()
}
