//! Which character devices are graphics processors: major numbers of their drivers, as the kernel lists them.
//!
//! Yields numbers for the object's globals. No device is opened. Waits for other drivers stay `other`.

use guestscope_contract::GPU_MAJORS;

use crate::platform::Root;

/// Names in /proc/devices: NVIDIA's (one module or several, by age), the kernel's own drivers for displays
/// and compute, AMD's.
const DRIVERS: [&str; 7] = ["nvidia", "nvidia-frontend", "nvidiactl", "nvidia-uvm", "drm", "accel", "kfd"];

/// Major numbers of this kernel's drivers, 0 for none; a driver that is loaded later is missing.
pub fn majors(root: &Root) -> [u32; GPU_MAJORS] {
    majors_in(&root.text("proc/devices").unwrap_or_default())
}

fn majors_in(devices: &str) -> [u32; GPU_MAJORS] {
    let characters = devices.lines().skip_while(|line| !line.starts_with("Character")).skip(1);
    let listed = characters.take_while(|line| !line.is_empty()).filter_map(|line| {
        let (major, name) = line.trim().split_once(' ')?;
        DRIVERS.contains(&name).then(|| major.parse().ok())?
    });
    let mut majors = [0; GPU_MAJORS];
    // A driver may have its number under two names.
    let mut unique: Vec<u32> = listed.collect();
    unique.sort_unstable();
    unique.dedup();
    for (place, major) in majors.iter_mut().zip(unique) {
        *place = major;
    }
    majors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_of_graphics_processors_are_known_by_name() {
        let devices = "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n226 drm\n237 nvidia-uvm\n\nBlock devices:\n259 drm\n";
        assert_eq!(majors_in(devices), [195, 226, 237, 0, 0, 0, 0, 0]);
        assert_eq!(majors_in("Character devices:\n  1 mem\n 10 misc\n"), [0; GPU_MAJORS]);
        assert_eq!(majors_in(""), [0; GPU_MAJORS]);
    }
}
