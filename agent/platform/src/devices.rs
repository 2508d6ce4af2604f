//! Names of block devices, by the numbers in the kernel's records.
//!
//! Yields sysfs's name of a device: `vda`, `nvme0n1p1`, `dm-0`. Names are read again after
//! [`Devices::forget`], since a number is reused once its device is gone. It does not resolve stacked
//! devices: `dm-0` stays that.

use std::collections::HashMap;

use super::Root;
use crate::untrusted::Untrusted;

/// Most names that are kept: a guest has a few dozen devices, and a damaged record can name any.
const MOST: usize = 256;

/// Names by number, as far as they were asked for.
#[derive(Debug)]
pub struct Devices {
    root: Root,
    names: HashMap<Untrusted, Option<Untrusted>>,
}

impl Devices {
    /// Block devices of the guest below this root.
    pub fn below(root: Root) -> Self {
        Self { root, names: HashMap::new() }
    }

    /// Name of the device with these numbers, `MAJOR:MINOR`; none where the guest shows no such device.
    pub fn name(&mut self, device: &Untrusted) -> Option<Untrusted> {
        if let Some(name) = self.names.get(device) {
            return name.clone();
        }
        if self.names.len() >= MOST {
            self.forget();
        }
        let name = self.root.link_name(&format!("/sys/dev/block/{device}")).map(Untrusted::from);
        self.names.entry(device.clone()).or_insert(name).clone()
    }

    /// Reads all names again from now on.
    pub fn forget(&mut self) {
        self.names.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use super::*;

    fn link(tree: &Path, device: &str, target: &str) {
        let place = tree.join("sys/dev/block").join(device);
        let _ = fs::remove_file(&place);
        symlink(target, place).unwrap();
    }

    #[test]
    fn a_device_has_the_name_that_sysfs_gives_it_until_it_is_another_one() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("sys/dev/block")).unwrap();
        // Longer than any value that is kept whole: the end of the path counts.
        let deep = format!("../../devices{}/block/sdb/sdb1", "/pci0000:00".repeat(40));
        link(tree.path(), "8:17", &deep);
        let hostile = format!("../../devices/\u{1b}[2J{}", "x".repeat(250));
        link(tree.path(), "8:32", &hostile);
        link(tree.path(), "8:48", "/");
        let mut devices = Devices::below(Root::at(tree.path()));
        let mut name = |device: &str| devices.name(&device.into()).map(|name| name.to_string());
        assert_eq!(name("8:17").as_deref(), Some("sdb1"));
        assert_eq!(name("8:32"), Some(format!("[2J{}", "x".repeat(250))), "no control characters");
        assert_eq!([name("8:48"), name("8:64")], [None, None]);
        link(tree.path(), "8:17", "../../devices/virtual/block/dm-3");
        assert_eq!(name("8:17").as_deref(), Some("sdb1"), "it is not asked for at every wait");
        devices.forget();
        assert_eq!(devices.name(&"8:17".into()), Some("dm-3".into()));
    }

    #[test]
    fn any_number_of_devices_takes_little_memory() {
        let tree = tempfile::tempdir().unwrap();
        let mut devices = Devices::below(Root::at(tree.path()));
        for minor in 0..10 * MOST {
            assert_eq!(devices.name(&format!("8:{minor}").into()), None);
            assert!(devices.names.len() <= MOST);
        }
    }
}
