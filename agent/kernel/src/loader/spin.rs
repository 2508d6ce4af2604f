//! Address ranges of busy-waiting code in a process, for the sampler.
//!
//! Without them such samples count as the program's own code; nothing else depends on it.

use std::os::unix::fs::MetadataExt as _;

use aya::maps::{Array, HashMap, MapData};
use guestscope_contract::SpinCode;

use super::{globals::Globals, loaded::Loaded};

/// The agent's PID namespace, in which it and the programs number processes alike.
pub(super) struct PidNamespace {
    device: u32,
    inode: u32,
}

impl PidNamespace {
    /// Zeros where it cannot be known: then no process matches.
    pub(super) fn own() -> Self {
        let known = std::fs::metadata("/proc/self/ns/pid").ok().and_then(|file| {
            Some(Self { device: file.dev().try_into().ok()?, inode: file.ino().try_into().ok()? })
        });
        known.unwrap_or(Self { device: 0, inode: 0 })
    }

    pub(super) fn tell(&self, globals: &mut Globals) {
        globals.set("PID_NAMESPACE_DEVICE", self.device);
        globals.set("PID_NAMESPACE_INODE", self.inode);
    }
}

impl Loaded {
    /// Counts samples in this code of a process as spinning from now on.
    pub fn set_spin_code(&mut self, pid: u32, code: &SpinCode) {
        if *code == SpinCode::default() {
            return self.forget_spin_code(pid);
        }
        if let Some(mut map) = self.spin_code() {
            // With a full table, the samples of this process stay the program's own code.
            let _ = map.insert(pid, code, 0);
        }
    }

    /// The process is gone.
    pub fn forget_spin_code(&mut self, pid: u32) {
        if let Some(mut map) = self.spin_code() {
            // Most processes have no such code.
            let _ = map.remove(&pid);
        }
    }

    /// Samples of busy-waiting so far by the number of the library, over all processes.
    pub fn spun(&self) -> Vec<u64> {
        self.counts("SPUN")
    }

    /// Samples in system calls so far by the name of the call, over all processes.
    pub fn called(&self) -> Vec<u64> {
        self.counts("CALLED")
    }

    fn counts(&self, name: &str) -> Vec<u64> {
        let map = self.ebpf.map(name).and_then(|map| Array::<_, u64>::try_from(map).ok());
        map.map_or_else(Vec::new, |map| map.iter().map(|count| count.unwrap_or(0)).collect())
    }

    fn spin_code(&mut self) -> Option<HashMap<&mut MapData, u32, SpinCode>> {
        HashMap::try_from(self.ebpf.map_mut("SPIN_CODE")?).ok()
    }
}
