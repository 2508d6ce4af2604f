//! Limits of the control groups of a process, on every level that the guest shows, and what the kernel counts
//! of them.
//!
//! Yields a [`Bound`] for each limit, in the words of its version of control groups, and a [`Count`] whenever
//! it is asked for. Whether a limit was hit between two counts is for the caller to judge.

mod bound;
mod counts;
mod masks;

pub use bound::{Bound, What};
pub use counts::{Count, Short};
pub use masks::{Mask, idle_ns, masks, queued_ns};

use super::{
    cgroup::{Place, UNLIMITED_BYTES},
    root::{Root, Subject},
};
use crate::mounts::Membership;

/// Most limits that are looked at: a process is in a dozen groups at most, and each limits a few devices.
const MOST: usize = 64;

/// The limits of a process's groups.
pub fn bounds(root: &Root, pid: u32) -> Vec<Bound> {
    let groups = root.text(&Subject::Process(pid).file("cgroup")).unwrap_or_default();
    let mounts = root.bytes("/proc/self/mountinfo").unwrap_or_default();
    let place = |controller: &str| Place::find(&groups, &mounts, controller);
    let mut found = Vec::new();
    if let Some(place) = place("memory") {
        found.extend(place.levels().flat_map(|level| memory(root, place.version, &level)));
    }
    if let Some(place) = place("cpu") {
        found.extend(place.levels().filter_map(|level| quota(root, &place, &level)));
    }
    let has_blkio = Membership::all(&groups).any(|group| group.is_version_1_of("blkio"));
    if let Some(place) = place(if has_blkio { "blkio" } else { "io" }) {
        // In version 1 these limits hold for the group itself, not for those below it.
        let levels = if place.version == 1 { 1 } else { usize::MAX };
        found.extend(place.levels().take(levels).flat_map(|level| io(root, place.version, &level)));
    }
    found.truncate(MOST);
    found
}

/// Directory and name of a group.
type Level = (String, String);

fn memory(root: &Root, version: u8, (directory, group): &Level) -> Vec<Bound> {
    let files: &[&'static str] =
        if version == 1 { &["memory.limit_in_bytes"] } else { &["memory.max", "memory.high"] };
    let one = |&file: &&'static str| {
        let value: u64 = root.value(&format!("{directory}/{file}"))?.parse().ok()?;
        let bound = Bound {
            what: What::Memory,
            value,
            version,
            file,
            group: group.clone(),
            device: String::new(),
            directory: directory.clone(),
        };
        (value < UNLIMITED_BYTES).then_some(bound)
    };
    files.iter().filter_map(one).collect()
}

fn quota(root: &Root, place: &Place, (directory, group): &Level) -> Option<Bound> {
    let (quota_us, period_us) = place.quota_us(root, directory)?;
    Some(Bound {
        what: What::Quota { period_ns: period_us.checked_mul(1_000).filter(|&ns| ns > 0)? },
        value: quota_us.checked_mul(1_000)?,
        version: place.version,
        file: if place.version == 1 { "cpu.cfs_quota_us" } else { "cpu.max" },
        group: group.clone(),
        device: String::new(),
        directory: directory.clone(),
    })
}

/// Files of version 1 and keys of `io.max`: by what they count, and by direction.
const IO: [(&str, &str, bool, bool); 4] = [
    ("blkio.throttle.read_bps_device", "rbps=", false, false),
    ("blkio.throttle.write_bps_device", "wbps=", false, true),
    ("blkio.throttle.read_iops_device", "riops=", true, false),
    ("blkio.throttle.write_iops_device", "wiops=", true, true),
];

fn io(root: &Root, version: u8, (directory, group): &Level) -> Vec<Bound> {
    let bound = |file: &'static str, device: &str, value: u64, (is_count, is_write): (bool, bool)| Bound {
        what: What::Io { is_count, is_write },
        value,
        version,
        file,
        group: group.clone(),
        device: device.to_owned(),
        directory: directory.clone(),
    };
    let mut found = Vec::new();
    if version == 1 {
        for (file, _, is_count, is_write) in IO {
            let text = root.text(&format!("{directory}/{file}")).unwrap_or_default();
            let lines = text.lines().filter_map(|line| line.split_once(' ')).take(MOST);
            let values = lines.filter_map(|(device, value)| Some((device, value.trim().parse().ok()?)));
            found.extend(values.map(|(device, value)| bound(file, device, value, (is_count, is_write))));
        }
        return found;
    }
    let text = root.text(&format!("{directory}/io.max")).unwrap_or_default();
    for (device, keys) in text.lines().filter_map(|line| line.split_once(' ')).take(MOST) {
        for (_, key, is_count, is_write) in IO {
            let value = keys.split(' ').find_map(|word| word.strip_prefix(key)?.trim().parse().ok());
            found.extend(value.map(|value| bound("io.max", device, value, (is_count, is_write))));
        }
    }
    found
}

#[cfg(test)]
mod tests;
