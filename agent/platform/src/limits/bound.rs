//! A limit of a control group.

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Bytes of memory.
    Memory,
    /// CPU time, ns per period.
    Quota {
        /// The period, ns.
        period_ns: u64,
    },
    /// Bytes or I/Os per second of a device.
    Io {
        /// I/Os instead of bytes.
        is_count: bool,
        /// Writes instead of reads.
        is_write: bool,
    },
}

/// A limit of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// What is limited.
    pub what: What,
    /// The value, in the unit of `what`.
    pub value: u64,
    /// Version of the hierarchy: 1 or 2.
    pub version: u8,
    /// Name of the file that sets it: `memory.max`, `cpu.cfs_quota_us`.
    pub file: &'static str,
    /// The group, as the guest names it.
    pub group: String,
    /// Numbers of the device, `MAJOR:MINOR`; empty unless it is a limit of I/O.
    pub device: String,
    /// The group's directory.
    pub(super) directory: String,
}

impl Bound {
    /// Whether both are the same limit, whatever its value.
    pub fn is_of(&self, other: &Self) -> bool {
        let is_kind = match (self.what, other.what) {
            (What::Quota { .. }, What::Quota { .. }) => true,
            (one, other) => one == other,
        };
        is_kind && self.file == other.file && self.directory == other.directory && self.device == other.device
    }
}
