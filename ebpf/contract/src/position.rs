//! Position of a CPU, and its distance from another one: part of the contract.
//!
//! Plain numbers: the agent determines them, and the programs compare them.

/// Distance of two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Distance {
    /// Two threads of one core.
    Smt = 0,
    /// Cores that share the last level of cache.
    Cache = 1,
    /// Cores of one memory node without a common cache.
    Node = 2,
    /// Cores of different memory nodes.
    Remote = 3,
}

/// Number of distances: a power of two, since it is also a mask.
pub const DISTANCES: usize = 4;

/// Position of a CPU: numbers of its core, of its last level of cache and of its memory node, arbitrary but
/// distinct. An element of the map `TOPOLOGY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Position {
    /// The core.
    pub core: u16,
    /// The last level of cache.
    pub cache: u16,
    /// The memory node.
    pub node: u16,
    /// Zero: an array rounds its elements up to 8 bytes.
    pub reserved: u16,
}

impl Position {
    /// Distance to another CPU.
    #[inline]
    #[must_use]
    pub const fn distance(self, other: Position) -> Distance {
        if self.core == other.core {
            Distance::Smt
        } else if self.cache == other.cache {
            Distance::Cache
        } else if self.node == other.node {
            Distance::Node
        } else {
            Distance::Remote
        }
    }
}
