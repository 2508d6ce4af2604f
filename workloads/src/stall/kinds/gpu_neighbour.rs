//! `gpu-neighbour`: another process computes on the request's GPU for SIZE while the request wants it too.
//! The request waits for the card: the part `cpu.gpu` of `cpu` with `--wait spin`, account `gpu` with `--wait
//! sleep`. Who had the card is told by NVML, not by these.
//!
//! Each request has a kernel of 200 us. While the neighbour computes, a request that is hit repeats its own
//! kernel until the neighbour is done: how a card divides its time between two processes is its own matter,
//! and only the neighbour's time is known. `ns` is that time by `CLOCK_MONOTONIC` in the neighbour, from
//! before its launch until it saw the end: at least SIZE. `count` is the number of own kernels meanwhile.

use crate::{
    cuda::{Card, Extent, Waits},
    stall::{
        Fault, Injected, Kind, Setup, Wait, error::StallError, machine::gpu_neighbour::GpuNeighbour,
        size::Unit,
    },
};

pub(super) const KIND: Kind = Kind {
    name: "gpu-neighbour",
    what: "another process computes on the GPU for SIZE while the request wants it",
    needs: "an NVIDIA GPU",
    unit: Unit::Time,
    range: 1_000_000..=10_000_000_000,
    default: 20_000_000,
    bound: false,
    make,
};

/// Length of the request's own kernel, ns.
const OWN_NS: u64 = 200_000;

struct Neighboured {
    card: Card,
    neighbour: GpuNeighbour,
}

fn make(setup: &Setup) -> Result<Box<dyn Fault>, StallError> {
    // First, so that a machine without a GPU is told by the program itself.
    let card = Card::open(match setup.wait {
        Wait::Spin => Waits::Spinning,
        Wait::Sleep => Waits::Asleep,
    })?;
    let mut made = Neighboured { card, neighbour: GpuNeighbour::start()? };
    // The first launch of a process puts the code on the card.
    made.compute()?;
    Ok(Box::new(made))
}

impl Neighboured {
    /// The request's own work on the card.
    fn compute(&mut self) -> Result<(), StallError> {
        self.card.launch(OWN_NS, Extent::Thread)?;
        Ok(self.card.wait()?)
    }
}

impl Fault for Neighboured {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let begun_ns = self.neighbour.begin(size)?;
        let mut own = 0;
        loop {
            self.compute()?;
            own += 1;
            if self.neighbour.is_done()? {
                break;
            }
        }
        let ns = self.neighbour.end_ns()?.saturating_sub(begun_ns);
        Ok(Injected { ns, count: Some(own) })
    }

    fn spare(&mut self) -> Result<(), StallError> {
        self.compute()
    }
}
