//! `spin-neighbour`: a thread of higher priority takes the request's CPU for SIZE while the request wants to
//! run. Charged to `runq`. It needs CAP_SYS_NICE.
//!
//! `ns` is the neighbour's own CPU time: the least that the request waited. Switching to it and back adds
//! some microseconds, and a hypervisor that takes the CPU away meanwhile (steal) adds what `wall_ns` shows.
//! The kernel keeps 5 % of each second for ordinary threads, hence the upper bound of SIZE.

use crate::stall::{
    Fault, Injected, Kind, Setup,
    error::StallError,
    machine::{cpus, neighbour::Neighbour},
    size::Unit,
};

const NAME: &str = "spin-neighbour";

pub(super) const KIND: Kind = Kind {
    name: NAME,
    what: "a thread of higher priority takes the request's CPU for SIZE",
    needs: "root (CAP_SYS_NICE)",
    unit: Unit::Time,
    range: 10_000..=500_000_000,
    default: 20_000_000,
    bound: true,
    make: |setup: &Setup| Ok(Box::new(SpinNeighbour(Neighbour::start(NAME, setup.cpu)?))),
};

struct SpinNeighbour(Neighbour);

impl Fault for SpinNeighbour {
    fn arm(&mut self, _: u64) -> Result<(), StallError> {
        self.0.move_to(cpus::current()?)
    }

    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        // Again, because an earlier fault may have moved the request. Otherwise this costs nothing.
        self.0.move_to(cpus::current()?)?;
        self.0.hold(size);
        Ok(Injected { ns: self.0.held_ns(), count: None })
    }
}
