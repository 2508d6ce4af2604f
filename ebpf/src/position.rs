//! Where a CPU is, and how far from another one: part of the contract.
//!
//! Plain numbers; the agent finds them out, and the programs compare them.

/// How far apart two CPUs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Distance {
    /// Two threads of one core.
    Smt = 0,
    /// Cores that share the last level of cache.
    Cache = 1,
    /// Cores of one memory node that do not.
    Node = 2,
    /// Of different memory nodes.
    Remote = 3,
}

/// Number of distances: a power of two, since it is also a mask.
pub const DISTANCES: usize = 4;

/// Where a CPU is: numbers of its core, of its last level of cache and of its memory node, each any number that tells
/// them apart. An element of the map `TOPOLOGY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Position {
    /// The core.
    pub core: u16,
    /// The last level of cache.
    pub cache: u16,
    /// The memory node.
    pub node: u16,
    /// An array rounds its elements up to 8 bytes; zero.
    pub reserved: u16,
}

impl Position {
    /// How far another CPU is.
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
