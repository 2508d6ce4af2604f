//! `disk`: the request reads from a disk, past the page cache, until the reads together took SIZE. Charged to `block_io`,
//! the time off the CPU; `cpu_ns` of it is `cpu`.
//!
//! `ns` is the sum of the reads, each by `CLOCK_MONOTONIC`, at least SIZE and at most one read more; `count` is how many.
//! 16 KiB each, so that waiting outweighs asking, at places that the seed draws. What the disk or its host caches only
//! makes them more.

use std::os::unix::fs::FileExt as _;

use crate::{
    data::random::Random,
    stall::{
        Fault, Injected, Kind, Setup,
        error::StallError,
        machine::{clock, cold::ColdFile},
        size::Unit,
    },
};

const NAME: &str = "disk";

pub(super) const KIND: Kind = Kind {
    name: NAME,
    what: "the request reads from a disk, past the page cache, for SIZE",
    unit: Unit::Time,
    range: 10_000..=10_000_000_000,
    default: 20_000_000,
    bound: false,
    make,
};

const BLOCK: usize = 16 << 10;
const MIB: usize = 1 << 20;
/// Of the file.
const BYTES: usize = 16 * MIB;

/// A direct read needs memory that is aligned to the blocks of the device.
#[repr(align(4096))]
struct Block([u8; BLOCK]);

struct Disk {
    file: ColdFile,
    block: Box<Block>,
    random: Random,
}

fn make(setup: &Setup) -> Result<Box<dyn Fault>, StallError> {
    let pages = BYTES / crate::stall::machine::mapping::page_bytes();
    let file = ColdFile::create(NAME, &setup.folder, pages, true)?;
    Ok(Box::new(Disk { file, block: Box::new(Block([0; BLOCK])), random: Random::new(setup.seed, 1) }))
}

impl Fault for Disk {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let (mut ns, mut reads) = (0, 0);
        while ns < size {
            let place = self.random.u64() % (BYTES / BLOCK) as u64 * BLOCK as u64;
            let start_ns = clock::monotonic_ns();
            self.file
                .file
                .read_exact_at(&mut self.block.0, place)
                .map_err(StallError::call("read past the page cache"))?;
            ns += clock::monotonic_ns() - start_ns;
            reads += 1;
        }
        Ok(Injected { ns, count: Some(reads) })
    }
}
