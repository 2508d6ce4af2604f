//! `fault`: the request touches SIZE pages of a file that is not cached, one major fault each. Charged to
//! `fault`, the time off the CPU; the rest is `cpu`.
//!
//! `count` is the growth of the thread's major faults by its rusage; `ns` is touching all pages by
//! `CLOCK_MONOTONIC`. The file is new, without a name, on the disk of --folder. The kernel is made to forget
//! it before each hit, and a page that it keeps all the same is no major fault: `count` says so. How fast the
//! disk answers is not this program's to choose.

use crate::stall::{
    Fault, Injected, Kind, Setup,
    error::StallError,
    machine::{
        clock::{self, Faults},
        cold::ColdFile,
        mapping::Mapping,
    },
    size::Unit,
};

const NAME: &str = "fault";

pub(super) const KIND: Kind = Kind {
    name: NAME,
    what: "the request touches SIZE pages of a file that is not cached",
    needs: "a folder on a disk",
    unit: Unit::Pages,
    range: 1..=1 << 16,
    default: 64,
    bound: false,
    make: |setup: &Setup| {
        let file = ColdFile::create(NAME, &setup.folder, setup.largest as usize, false)?;
        Ok(Box::new(MajorFault { file }))
    },
};

struct MajorFault {
    file: ColdFile,
}

impl Fault for MajorFault {
    fn arm(&mut self, _: u64) -> Result<(), StallError> {
        self.file.forget().map(drop)
    }

    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let mapping = Mapping::of_file(&self.file.file, size as usize)?;
        let (start_ns, faults) = (clock::monotonic_ns(), Faults::now());
        mapping.read_each();
        let count = Faults::now().major - faults.major;
        Ok(Injected { ns: clock::monotonic_ns() - start_ns, count: Some(count) })
    }
}
