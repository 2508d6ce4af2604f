//! Activity of graphics processors over a run: a line for each device. It reads nothing itself.

use super::{
    facts::RunFacts,
    health_lines::fact,
    page::{Emphasis, Page},
    units::bytes,
};
use crate::run::{GpuDevice, GpuFault, GpuRecord};

/// Most devices listed for people.
const LISTED: usize = 8;

/// The devices, and why readings ended early, if they did.
pub(super) fn lines(page: &mut Page, facts: &RunFacts) {
    let record = &facts.gpu;
    for device in record.devices.iter().take(LISTED) {
        let text = page.safe(described(device, record.driver.as_deref()));
        let emphasis = if is_held(device) { Emphasis::Warning } else { Emphasis::None };
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
