//! `gpu-copy`: the request copies memory to the GPU, as it was allocated and not page-locked, until the
//! copies together took SIZE. Charged to `cpu`, inside a call of the driver: the part `cpu.gpu` of it. A
//! driver that waits for the card asleep has account `gpu` for that time.
//!
//! `ns` is the sum of the copies, each by `CLOCK_MONOTONIC` with the wait for its end, at least SIZE and at
//! most one copy more; `count` is the number of bytes. A copy has 16 MiB, or 256 KiB if less is left of SIZE
//! than the slowest large one took (at least 4 ms), to end close to SIZE.

use crate::{
    cuda::{Card, Waits},
    stall::{Fault, Injected, Kind, error::StallError, machine::clock, size::Unit},
};

pub(super) const KIND: Kind = Kind {
    name: "gpu-copy",
    what: "the request copies pageable memory to the GPU for SIZE",
    needs: "an NVIDIA GPU",
    unit: Unit::Time,
    range: 100_000..=10_000_000_000,
    default: 20_000_000,
    bound: false,
    make: |_| {
        let mut card = Card::open(Waits::Spinning)?;
        card.reserve(LARGE)?;
        // Written, so that no copy causes a page fault.
        let mut copies = Copies { card, memory: vec![1; LARGE], large_ns: LARGE_NS };
        // The first copy of a process takes memory for the driver.
        copies.copy(LARGE)?;
        Ok(Box::new(copies))
    },
};

const LARGE: usize = 16 << 20;
const SMALL: usize = 256 << 10;
/// Assumed time of a large copy until a slower one was seen, ns.
const LARGE_NS: u64 = 4_000_000;

struct Copies {
    card: Card,
    memory: Vec<u8>,
    /// Time of the slowest large copy so far, ns.
    large_ns: u64,
}

impl Copies {
    /// Copies so many bytes and waits for that; gives how many there were.
    fn copy(&mut self, bytes: usize) -> Result<usize, StallError> {
        let bytes = self.card.copy_in(&self.memory[..bytes])?;
        self.card.wait()?;
        Ok(bytes)
    }
}

impl Fault for Copies {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let (mut ns, mut copied) = (0, 0);
        while ns < size {
            let is_large = size - ns >= self.large_ns;
            let start_ns = clock::monotonic_ns();
            copied += self.copy(if is_large { LARGE } else { SMALL })? as u64;
            let took_ns = clock::monotonic_ns() - start_ns;
            if is_large {
                self.large_ns = self.large_ns.max(took_ns);
            }
            ns += took_ns;
        }
        Ok(Injected { ns, count: Some(copied) })
    }
}
