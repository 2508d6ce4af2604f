//! The NVIDIA GPUs of this machine, as the device nodes that containers of the lab get. Guests get none: a
//! lab takes no card from this machine.
//!
//! Yields [`Node`]s. The driver's libraries are this machine's, which containers see anyway.

use std::{
    fs::{self, Metadata},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use anyhow::Result;
use nix::sys::stat::{major, minor};
use serde_json::{Value, json};

use crate::failure::failure;

/// Folders of device nodes; the second has those of parts of a card (MIG).
const FOLDERS: [&str; 2] = ["/dev", "/dev/nvidia-caps"];
/// Nodes of all cards together, beside one for each card.
const OF_ALL: [&str; 3] = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"];
/// Why guests are skipped.
pub(super) const NOT_FOR_GUESTS: &str =
    "a lab gives no GPU to a guest: run guestscope in one that has it, and copy the folders";

/// A character device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) path: PathBuf,
    major: u64,
    minor: u64,
}

/// The nodes of this machine's cards.
pub(super) fn nodes() -> Result<Vec<Node>> {
    let mut nodes = Vec::new();
    for folder in FOLDERS.map(Path::new) {
        // The second folder is missing where no card is divided.
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let found = entries.filter(|entry| is_of_nvidia(folder, &entry.file_name().to_string_lossy()));
        nodes.extend(found.filter_map(|entry| Node::of(entry.path(), &fs::metadata(entry.path()).ok()?)));
    }
    nodes.sort_by(|one, other| one.path.cmp(&other.path));
    has_card(&nodes).then_some(nodes).ok_or_else(|| {
        failure(
            "no NVIDIA GPU on this machine: /dev/nvidia0",
            "load its driver (`nvidia-smi` makes the device nodes), or take the plan without a GPU",
        )
    })
}

/// Whether a node of that name belongs to a card.
fn is_of_nvidia(folder: &Path, name: &str) -> bool {
    if folder != Path::new(FOLDERS[0]) {
        return name.starts_with("nvidia-cap");
    }
    OF_ALL.contains(&name) || number(name).is_some()
}

/// The number of a card, by the name of its node.
fn number(name: &str) -> Option<u32> {
    name.strip_prefix("nvidia")?.parse().ok()
}

fn has_card(nodes: &[Node]) -> bool {
    let is_card =
        |node: &Node| node.path.file_name().and_then(|name| name.to_str()).and_then(number).is_some();
    nodes.iter().any(is_card)
}

impl Node {
    fn of(path: PathBuf, data: &Metadata) -> Option<Self> {
        let (major, minor) = (major(data.rdev()), minor(data.rdev()));
        data.file_type().is_char_device().then_some(Self { path, major, minor })
    }

    /// As runc makes it in a container.
    pub(super) fn made(&self) -> Value {
        let Self { path, major, minor } = self;
        json!({
            "path": path, "type": "c", "major": major, "minor": minor,
            "fileMode": 0o666, "uid": 0, "gid": 0,
        })
    }

    /// As runc allows it to a container's control group.
    pub(super) fn allowed(&self) -> Value {
        let Self { major, minor, .. } = self;
        json!({ "allow": true, "type": "c", "major": major, "minor": minor, "access": "rwm" })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::{fs, path::Path};

    use rstest::rstest;
    use serde_json::json;

    use super::{Node, has_card, is_of_nvidia};

    pub(in crate::lab) fn card() -> Vec<Node> {
        let node = |name: &str, major, minor| Node { path: Path::new("/dev").join(name), major, minor };
        vec![node("nvidia-uvm", 511, 0), node("nvidia0", 195, 0), node("nvidiactl", 195, 255)]
    }

    #[rstest]
    #[case("/dev", "nvidia0", true)]
    #[case("/dev", "nvidia15", true)]
    #[case("/dev", "nvidiactl", true)]
    #[case("/dev", "nvidia-uvm", true)]
    #[case("/dev", "nvidia-modeset", false)]
    #[case("/dev", "nvidia-caps", false)]
    #[case("/dev", "nvme0", false)]
    #[case("/dev/nvidia-caps", "nvidia-cap2", true)]
    #[case("/dev/nvidia-caps", "other", false)]
    fn nodes_are_known_by_their_names(#[case] folder: &str, #[case] name: &str, #[case] expected: bool) {
        assert_eq!(is_of_nvidia(Path::new(folder), name), expected);
    }

    #[test]
    fn what_belongs_to_no_card_is_none() {
        let mut nodes = card();
        assert!(has_card(&nodes));
        nodes.retain(|node| node.path != Path::new("/dev/nvidia0"));
        assert!(!has_card(&nodes));
    }

    #[test]
    fn a_device_has_its_numbers() {
        let of = |path: &str| Node::of(path.into(), &fs::metadata(path).unwrap());
        let null = of("/dev/null").unwrap();
        assert_eq!((null.major, null.minor), (1, 3));
        assert_eq!(of("/dev"), None);
        assert_eq!(
            null.made(),
            json!({
                "path": "/dev/null", "type": "c", "major": 1, "minor": 3,
                "fileMode": 438, "uid": 0, "gid": 0,
            })
        );
        assert_eq!(
            null.allowed(),
            json!({"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rwm"})
        );
    }
}
