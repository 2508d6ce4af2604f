//! Whether the requests of a group keep their graphics processor waiting: their threads launch work too
//! slowly, or their input comes late.
//!
//! Takes a group and how busy the device was while requests ran; yields [`Starved`] with the numbers that
//! prove it. It speaks of all requests of the group, not of the slow ones.

use guestscope_contract::Account;

use super::{
    cause::Cause,
    headline::ENOUGH_REQUESTS,
    rows::{Row, RowKind},
    summary::Group,
};
use crate::phase::{COUNTS, Metric};
use crate::untrusted::Untrusted;

/// Calls of the driver that wait or copy, per request, without which a group does not use a device.
const CALLS: f64 = 0.5;
/// A device that is busy for this part of the time is not kept waiting, percent.
const BUSY_PERCENT: u64 = 50;
/// Part of the requests' time in which they compute or launch, from which on they are bound by launching.
const LAUNCHING: f64 = 0.5;
/// Part of the requests' time that they wait in a phase before the first that uses the device, from which on
/// they are bound by their input.
const INPUT: f64 = 0.3;
/// Mean number of requests at a time from which on the device's time is theirs. With fewer, what it does for
/// short requests is little of each of its samples, however busy it is then.
const ALWAYS: f64 = 0.8;

/// Accounts of waits for input.
const WAITS: [Account; 6] =
    [Account::BlockIo, Account::Net, Account::Poll, Account::Lock, Account::Fault, Account::Other];

/// What the device waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Starver {
    /// Threads that launch work, and compute themselves.
    Launch,
    /// Input that this phase waits for.
    Input(Vec<Untrusted>),
}

/// A device that is kept waiting.
#[derive(Clone, Debug, PartialEq)]
pub struct Starved {
    /// By what.
    pub by: Starver,
    /// How much of the time in which requests ran it was busy, percent.
    pub busy_percent: u64,
    /// Part of the requests' time that they computed or launched, or waited for input: 0 to 1.
    pub share: f64,
}

/// Calls of the driver that wait or copy.
fn calls(counts: &[u128; COUNTS]) -> f64 {
    (counts[Metric::GpuWait as usize] + counts[Metric::GpuCopy as usize]) as f64
}

/// Finds whether the busiest device waits for this group. `busy_percent`: how busy that was while requests
/// ran.
pub fn starved(group: &Group, busy_percent: Option<u64>) -> Option<Starved> {
    let busy_percent = busy_percent.filter(|&busy| busy < BUSY_PERCENT)?;
    let (requests, all_ns) = (group.latency.count, group.sums.total_ns() as f64);
    if requests < ENOUGH_REQUESTS || calls(&group.counts) < CALLS * requests as f64 || all_ns <= 0.0 {
        return None;
    }
    let of = |row: &Row| WAITS.map(|account| row.sums.get(Cause::Account(account))).iter().sum::<u128>();
    if group.throughput_per_s * all_ns / 1e9 < ALWAYS * requests as f64 {
        return None;
    }
    // Rows are in the order of the phases: what comes after the device is no input.
    let phases = group.rows.iter().filter(|row| row.kind == RowKind::Phase && row.depth == 0);
    let input = phases.take_while(|row| calls(&row.counts) == 0.0).max_by_key(|row| of(row));
    let input = input.map(|row| (row, of(row) as f64 / all_ns)).filter(|(_, share)| *share >= INPUT);
    if let Some((row, share)) = input {
        return Some(Starved { by: Starver::Input(row.path.clone()), busy_percent, share });
    }
    let elsewhere_ns = group.sums.in_driver.saturating_add(group.sums.steal);
    let cpu_ns = group.sums.get(Cause::Account(Account::Cpu)).saturating_sub(elsewhere_ns);
    let share = cpu_ns as f64 / all_ns;
    (share >= LAUNCHING).then_some(Starved { by: Starver::Launch, busy_percent, share })
}

#[cfg(test)]
#[path = "starved_tests.rs"]
mod tests;
