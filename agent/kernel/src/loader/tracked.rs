//! The processes that the kernel side tracks, for readers that need only their numbers.

use std::os::unix::fs::MetadataExt as _;

use aya::maps::{HashMap, MapData};

use super::loaded::Loaded;

/// The initial PID namespace's inode (PROC_PID_INIT_INO).
const INITIAL: u64 = 0xefff_fffc;

/// Processes by their numbers.
pub struct Tracked(HashMap<MapData, u32, u32>);

impl Tracked {
    /// Whether threads of this process are tracked.
    pub fn has(&self, process: u32) -> bool {
        self.0.get(&process, 0).is_ok()
    }
}

/// Whether processes have the same numbers here as on the kernel side: in the initial PID namespace.
pub fn is_initial_namespace() -> bool {
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == INITIAL)
}

impl Loaded {
    /// The tracked processes, now and later. To be taken once; none in a PID namespace other than the initial
    /// one, where processes have other numbers than on the kernel side.
    pub fn take_tracked(&mut self) -> Option<Tracked> {
        if !is_initial_namespace() {
            return None;
        }
        HashMap::try_from(self.ebpf.take_map("PROCESS_OF")?).ok().map(Tracked)
    }
}
