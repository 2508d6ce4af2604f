//! `touch`: the request touches SIZE pages of new memory, one minor fault each, and gives them back. Charged
//! to `cpu`: a minor fault does not wait.
//!
//! `count` is the growth of the thread's minor faults by its rusage: at least SIZE, and a few more for new
//! page tables. `ns` is the thread's CPU time in mapping, touching and unmapping. Small pages only.

use crate::stall::{
    Fault, Injected, Kind,
    error::StallError,
    machine::{
        clock::{self, Faults},
        mapping::Mapping,
    },
    size::Unit,
};

pub(super) const KIND: Kind = Kind {
    name: "touch",
    what: "the request touches SIZE pages of new memory",
    needs: "nothing",
    unit: Unit::Pages,
    range: 1..=1 << 20,
    default: 4096,
    bound: false,
    make: |_| Ok(Box::new(Touch)),
};

struct Touch;

impl Fault for Touch {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let (start_ns, faults) = (clock::thread_cpu_ns(), Faults::now());
        let mut memory = Mapping::anonymous(size as usize)?;
        memory.write_each();
        drop(memory);
        let count = Faults::now().minor - faults.minor;
        Ok(Injected { ns: clock::thread_cpu_ns() - start_ns, count: Some(count) })
    }
}
