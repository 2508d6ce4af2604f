//! Activity of graphics processors over a run: a line for each device. It reads nothing itself.

use super::{
    facts::RunFacts,
    health_lines::fact,
    page::{Emphasis, Page},
    units::bytes,
};
use crate::run::{GpuDevice, GpuFault, GpuHolder, GpuRecord};

/// Most devices listed for people.
const LISTED: usize = 8;
/// Most processes that are named for each.
const NAMED: usize = 2;
/// Memory below 1 / `MATTERS` of a device's is not told of processes that are not observed.
const MATTERS: u64 = 20;

/// The devices, and why readings ended early, if they did.
pub(super) fn lines(page: &mut Page, facts: &RunFacts) {
    let record = &facts.gpu;
    for device in record.devices.iter().take(LISTED) {
        let text = page.safe(described(device, record.driver.as_deref()));
        let matters = is_held(device) || !strangers(device).is_empty();
        let emphasis = if matters { Emphasis::Warning } else { Emphasis::None };
        fact(page, &format!("gpu {}", device.index), &text, emphasis);
    }
    if let Some(left) = record.devices.len().checked_sub(LISTED).filter(|left| *left > 0) {
        fact(page, "", &format!("{left} more: manifest.json has them all"), Emphasis::None);
    }
    if let Some(why) = &record.ended_early {
        let why = page.name(why, 300);
        fact(page, "gpu", &format!("not read to the end: {why}"), Emphasis::Warning);
    }
}

/// Lines of the doctor: evidence of the driver, and its devices or why it does not list them.
pub(super) fn doctor(page: &mut Page, found: Option<&(String, Result<GpuRecord, String>)>) {
    let (text, emphasis) = match found {
        None => ("no driver of NVIDIA's here".to_owned(), Emphasis::None),
        Some((evidence, Err(why))) => {
            (format!("a driver is here ({evidence}), and tells nothing: {why}"), Emphasis::Warning)
        }
        Some((evidence, Ok(record))) if record.devices.is_empty() => {
            (format!("a driver is here ({evidence}), and no device"), Emphasis::None)
        }
        Some((_, Ok(record))) => {
            let one = |device: &GpuDevice| {
                let memory = device.memory_bytes.map(|memory| format!(", {}", bytes(memory)));
                let driver = about(device, record.driver.as_deref());
                format!("{}{}{driver}", device.name, memory.unwrap_or_default())
            };
            let all: Vec<String> = record.devices.iter().take(LISTED).map(one).collect();
            (all.join("; "), Emphasis::None)
        }
    };
    let text = page.safe(&text);
    fact(page, "gpu", &text, emphasis);
}

/// ` (driver 550.54.15, passthrough)`.
fn about(device: &GpuDevice, driver: Option<&str>) -> String {
    let mut about: Vec<String> = driver.map(|version| format!("driver {version}")).into_iter().collect();
    about.extend(device.virtualization.clone().filter(|mode| mode != "none"));
    if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) }
}

/// Whether clocks were throttled often enough to matter: a driver briefly reports some reasons at every
/// change of clocks.
fn is_held(device: &GpuDevice) -> bool {
    device.throttled * 20 >= device.readings.max(1)
}

/// Processes that are not observed and held much of the memory of a device that observed ones use.
fn strangers(device: &GpuDevice) -> Vec<&GpuHolder> {
    let is_ours = device.is_used == Some(true) || device.holders.iter().any(|one| one.is_observed);
    let least = device.memory_bytes.filter(|_| is_ours).map_or(u64::MAX, |bytes| bytes / MATTERS);
    device.holders.iter().filter(|one| !one.is_observed && one.memory_bytes >= least.max(1)).collect()
}

/// `memory of processes that are not observed: python (pid 71) up to 2.10 GB`
fn held(device: &GpuDevice) -> Option<String> {
    let strangers = strangers(device);
    let one = |holder: &&GpuHolder| {
        format!("{} (pid {}) up to {}", holder.comm, holder.pid, bytes(holder.memory_bytes))
    };
    let mut named: Vec<String> = strangers.iter().take(NAMED).map(one).collect();
    if strangers.len() > NAMED {
        named.push(format!("{} more", strangers.len() - NAMED));
    }
    (!named.is_empty()).then(|| format!("memory of processes that are not observed: {}", named.join(" and ")))
}

/// `errors: Xid 79, an ECC error that was not corrected`
fn errors(device: &GpuDevice) -> Option<String> {
    let mut names: Vec<String> = device.errors.iter().map(GpuFault::name).collect();
    names.dedup();
    (!names.is_empty()).then(|| format!("errors: {}", names.join(", ")))
}

fn described(device: &GpuDevice, driver: Option<&str>) -> String {
    let mut used = Vec::new();
    used.extend(device.utilization_percent.map(|percent| format!("busy {percent} %")));
    used.extend(match (device.memory_used_bytes, device.memory_bytes) {
        (Some(used), Some(all)) => Some(format!("memory up to {} of {}", bytes(used), bytes(all))),
        (Some(used), None) => Some(format!("memory up to {}", bytes(used))),
        (None, _) => None,
    });
    used.extend(held(device));
    used.extend(device.power_mw.map(|power| format!("{} W", (power + 500) / 1000)));
    used.extend(device.temperature_celsius.map(|celsius| format!("up to {celsius} C")));
    if !device.throttled_by.is_empty() {
        let (throttled, all) = (device.throttled, device.readings);
        let why = device.throttled_by.join(", ");
        used.push(format!("clocks held down in {throttled} of {all} readings by {why}"));
    }
    used.extend(errors(device));
    if used.is_empty() {
        used.push("it was not seen to do anything".to_owned());
    }
    format!("{}{}: {}", device.name, about(device, driver), used.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(is_used: Option<bool>, holders: &[(u64, bool)]) -> String {
        let holder = |(pid, &(gigabytes, is_observed)): (u32, &(u64, bool))| GpuHolder {
            pid,
            comm: "python".to_owned(),
            memory_bytes: gigabytes * 1_000_000_000,
            is_observed,
        };
        let holders = (70..).zip(holders).map(holder).collect();
        let (name, memory_bytes) = ("Stub".to_owned(), Some(80_000_000_000));
        described(&GpuDevice { name, memory_bytes, is_used, holders, ..GpuDevice::default() }, None)
    }

    #[test]
    fn who_holds_the_memory_of_a_device_is_named() {
        let told = "Stub: memory of processes that are not observed: python (pid 71) up to 40.0 GB";
        assert_eq!(holding(None, &[(30, true), (40, false)]), told);
        assert_eq!(holding(Some(true), &[(1, true), (40, false)]), told);
        let four = holding(None, &[(9, true), (8, false), (7, false), (6, false), (4, false)]);
        let names = "python (pid 71) up to 8.00 GB and python (pid 72) up to 7.00 GB and 2 more";
        assert_eq!(four, format!("Stub: memory of processes that are not observed: {names}"));
    }

    /// Neither of a little, nor of one's own, nor of a device that no observed process uses.
    #[test]
    fn memory_that_takes_nothing_away_is_not_told() {
        let nothing = "Stub: it was not seen to do anything";
        for holders in [&[(30, true), (3, false)][..], &[(30, true), (40, true)], &[(40, false)], &[]] {
            assert_eq!(holding(None, holders), nothing, "{holders:?}");
        }
    }

    #[test]
    fn errors_are_named_once() {
        let fault = |xid| GpuFault { time_ns: 1, xid };
        let errors = vec![fault(Some(79)), fault(Some(79)), fault(None)];
        let device = GpuDevice { name: "Stub".to_owned(), errors, ..GpuDevice::default() };
        assert_eq!(described(&device, None), "Stub: errors: Xid 79, an ECC error that was not corrected");
        let device = GpuDevice { name: "Stub".to_owned(), ..GpuDevice::default() };
        assert_eq!(described(&device, None), "Stub: it was not seen to do anything");
    }
}
