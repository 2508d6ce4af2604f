//! `disk`: the request reads from a disk, past the page cache, until the reads together took SIZE. Charged to
//! `block_io`, the time off the CPU; `cpu_ns` of it is `cpu`.
//!
//! `ns` is the sum of the reads, each by `CLOCK_MONOTONIC`, at least SIZE and at most one read more; `count`
//! is the number of reads, at places that the seed draws. Caches of the disk or the host only make them more.
//!
//! Reads have 1 MiB, so that waiting outweighs asking: in a guest where each interrupt of its virtio disk
//! costs the CPU that asked, reads of 16 KiB were 48 % CPU time, of 256 KiB 22 %, of 1 MiB 12 %. They have 16
//! KiB if less is left of SIZE than the slowest large read took (at least 4 ms), to end close to SIZE.

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
    needs: "a folder on a disk",
    unit: Unit::Time,
    range: 10_000..=10_000_000_000,
    default: 20_000_000,
    bound: false,
    make,
};

const MIB: usize = 1 << 20;
const LARGE: usize = MIB;
const SMALL: usize = 16 << 10;
/// Assumed time of a large read until a slower one was seen, ns.
const LARGE_NS: u64 = 4_000_000;
/// Size of the file, bytes.
const BYTES: usize = 16 * MIB;

/// Alignment of memory for direct reads: that of the device's blocks, which have at most this many bytes.
const ALIGNED: usize = 4096;

struct Disk {
    file: ColdFile,
    memory: Vec<u8>,
    /// Time of the slowest large read so far.
    large_ns: u64,
    random: Random,
}

fn make(setup: &Setup) -> Result<Box<dyn Fault>, StallError> {
    let pages = BYTES / crate::stall::machine::mapping::page_bytes();
    let file = ColdFile::create(NAME, &setup.folder, pages, true)?;
    let (memory, random) = (vec![0; LARGE + ALIGNED], Random::new(setup.seed, 1));
    Ok(Box::new(Disk { file, memory, large_ns: LARGE_NS, random }))
}

impl Fault for Disk {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let (mut ns, mut reads) = (0, 0);
        let skipped = self.memory.as_ptr().align_offset(ALIGNED);
        while ns < size {
            let bytes = if size - ns >= self.large_ns { LARGE } else { SMALL };
            let place = self.random.u64() % (BYTES / bytes) as u64 * bytes as u64;
            let start_ns = clock::monotonic_ns();
            self.file
                .file
                .read_exact_at(&mut self.memory[skipped..][..bytes], place)
                .map_err(StallError::call("read past the page cache"))?;
            let took_ns = clock::monotonic_ns() - start_ns;
            if bytes == LARGE {
                self.large_ns = self.large_ns.max(took_ns);
            }
            ns += took_ns;
            reads += 1;
        }
        Ok(Injected { ns, count: Some(reads) })
    }
}
