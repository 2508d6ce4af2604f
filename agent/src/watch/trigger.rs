//! Triggers: what makes the seconds around it an incident.
//!
//! Pure: a request or a sample in, what was noticed out.

use std::{collections::HashMap, fmt};

use guestscope_base::wildcard;
use serde::Deserialize;

use super::values::Time;
use crate::{
    analyze::{Band, Cause, TailVerdict},
    folder::Sample,
    untrusted::Untrusted,
};

/// A quantile trigger also asks for this many times the typical duration, if nothing else is given: one of a
/// thousand requests is always the slowest of them.
const TIMES: f64 = 2.0;
/// Samples, one a second, that pressure must be above its bound.
const SUSTAINED: usize = 5;

/// What is noticed. All that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Trigger {
    /// Pattern for names of requests.
    pub(super) request: Option<String>,
    /// The request took longer than this.
    pub(super) slower_than: Option<Time>,
    /// It took longer than this quantile of those of its name before it.
    pub(super) beyond: Option<Beyond>,
    /// It took more than so many times as long as the typical request of its name.
    pub(super) times: Option<f64>,
    /// The largest part of what it took longer, such as `throttled`.
    pub(super) cause: Option<String>,
    /// Instead of a request: the guest waits for this resource (pressure stall information).
    pub(super) pressure: Option<Pressure>,
    /// Part of the last five seconds in which some task waited for it, per cent.
    pub(super) above_percent: Option<f64>,
}

/// A quantile of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Beyond {
    #[serde(rename = "p99")]
    P99,
    #[serde(rename = "p99.9")]
    P999,
}

/// A resource of which the kernel says how long tasks wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Pressure {
    Cpu,
    Memory,
    Io,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended<'a> {
    pub(super) name: &'a Untrusted,
    /// Its duration, with the wait before it, ns.
    pub(super) duration_ns: u64,
    /// Duration of the typical request of its name, ns; none before there is one.
    pub(super) typical_ns: Option<u64>,
    pub(super) verdict: Option<&'a TailVerdict>,
}

impl Trigger {
    /// One that works everywhere.
    pub(super) fn usual() -> Self {
        Self { beyond: Some(Beyond::P999), ..Self::default() }
    }

    /// What is wrong with it, for people.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { slower_than, beyond, times, cause, pressure, above_percent, request } = self;
        let is_of_requests = slower_than.is_some() || beyond.is_some() || times.is_some() || cause.is_some();
        if pressure.is_some() == is_of_requests {
            return Err("triggers: give pressure, or any of slower_than, beyond, times, cause".to_owned());
        }
        if pressure.is_some() != above_percent.is_some() || pressure.is_some() && request.is_some() {
            return Err("triggers: pressure goes with above_percent, and with nothing else".to_owned());
        }
        if above_percent.is_some_and(|percent| !(percent > 0.0 && percent < 100.0)) {
            return Err("triggers: above_percent: not between 0 and 100".to_owned());
        }
        if times.is_some_and(|times| !(1.0..=1e6).contains(&times)) {
            return Err("triggers: times: less than 1".to_owned());
        }
        let is_cause = |name: &str| Cause::all().any(|cause| cause.name() == name);
        if let Some(cause) = cause.as_deref().filter(|name| !is_cause(name)) {
            let known: Vec<&str> = Cause::all().map(Cause::name).collect();
            let (cause, known) = (Untrusted::from(cause), known.join(", "));
            return Err(format!("triggers: cause: {cause}: not one of {known}"));
        }
        Ok(())
    }

    /// Whether this request is noticed.
    fn fits(&self, ended: &Ended<'_>) -> bool {
        let Ended { name, duration_ns, typical_ns, verdict } = *ended;
        let is_named = |pattern: &String| wildcard::matches(pattern, name.stored());
        let is_beyond = |beyond: Beyond| {
            let least = if beyond == Beyond::P99 { Band::P99 } else { Band::P999 };
            verdict.and_then(|verdict| verdict.tail).is_some_and(|tail| tail >= least)
        };
        let is_cause =
            |cause: &String| verdict.and_then(|verdict| verdict.cause).is_some_and(|one| one.name() == cause);
        let times = self.times.or(self.beyond.map(|_| TIMES));
        let is_long = |times: f64| typical_ns.is_some_and(|ns| duration_ns as f64 > times * ns as f64);
        self.pressure.is_none()
            && self.request.as_ref().is_none_or(is_named)
            && self.slower_than.is_none_or(|time| duration_ns > time.ns())
            && self.beyond.is_none_or(is_beyond)
            && times.is_none_or(is_long)
            && self.cause.as_ref().is_none_or(is_cause)
    }
}

impl Beyond {
    /// As it is written.
    const fn name(self) -> &'static str {
        match self {
            Beyond::P99 => "p99",
            Beyond::P999 => "p99.9",
        }
    }
}

/// The first of these triggers that notices this request.
pub(super) fn of_request<'a>(triggers: &'a [Trigger], ended: &Ended<'_>) -> Option<&'a Trigger> {
    triggers.iter().find(|trigger| trigger.fits(ended))
}

impl fmt::Display for Trigger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, slower_than, beyond, times, cause, pressure, above_percent } = self;
        if let (Some(pressure), Some(percent)) = (pressure, above_percent) {
            return write!(formatter, "pressure on {} above {percent} % for 5 s", pressure.name());
        }
        let times = times.or(beyond.map(|_| TIMES));
        let words = [
            slower_than.map(|time| format!("slower than {time}")),
            beyond.map(|beyond| format!("beyond {}", beyond.name())),
            times.map(|times| format!("{times} times the typical duration")),
            cause.as_ref().map(|cause| format!("because of {}", Untrusted::from(cause.as_str()))),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        let request = request.as_deref().map(|name| format!(" of {}", Untrusted::from(name)));
        write!(formatter, "request{}: {}", request.unwrap_or_default(), words.join(", "))
    }
}

impl Pressure {
    /// As it is written.
    const fn name(self) -> &'static str {
        match self {
            Pressure::Cpu => "cpu",
            Pressure::Memory => "memory",
            Pressure::Io => "io",
        }
    }

    fn total_ns(self, sample: &Sample) -> Option<u64> {
        match self {
            Pressure::Cpu => sample.psi_cpu_some_ns,
            Pressure::Memory => sample.psi_memory_some_ns,
            Pressure::Io => sample.psi_io_some_ns,
        }
    }
}

/// Pressure over the last seconds.
#[derive(Debug, Default)]
pub(super) struct Pressed {
    last: Option<Sample>,
    /// Parts of the last seconds, by resource.
    parts: HashMap<Pressure, Vec<f64>>,
}

impl Pressed {
    /// Takes a sample of the guest. Returns the first trigger that notices it; then five more seconds of its
    /// resource have to pass. Triggers of other resources have their turn with the next sample.
    pub(super) fn take<'a>(&mut self, sample: &Sample, triggers: &'a [Trigger]) -> Option<&'a Trigger> {
        if sample.gpu.is_some() {
            return None;
        }
        let last = self.last.replace(*sample)?;
        let over_ns = sample.time_ns.saturating_sub(last.time_ns).max(1) as f64;
        for resource in [Pressure::Cpu, Pressure::Memory, Pressure::Io] {
            let Some((before, now)) = resource.total_ns(&last).zip(resource.total_ns(sample)) else {
                continue;
            };
            let parts = self.parts.entry(resource).or_default();
            parts.push(now.saturating_sub(before) as f64 / over_ns);
            if parts.len() > SUSTAINED {
                parts.remove(0);
            }
        }
        let is_above = |trigger: &&Trigger| {
            let (Some(resource), Some(percent)) = (trigger.pressure, trigger.above_percent) else {
                return false;
            };
            let parts = self.parts.get(&resource);
            parts.is_some_and(|parts| {
                parts.len() == SUSTAINED && parts.iter().all(|part| part * 100.0 > percent)
            })
        };
        let found = triggers.iter().find(is_above)?;
        self.parts.retain(|resource, _| Some(*resource) != found.pressure);
        Some(found)
    }
}

#[cfg(test)]
#[path = "trigger_tests.rs"]
mod tests;
