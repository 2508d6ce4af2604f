//! `gpu-launch`: the request launches kernels that do nothing, one after the other, for SIZE: the GPU is done
//! with each at once and waits for the next. Charged to `cpu`, most of it the program's own; nothing waits.
//!
//! A launch comes every 20 us: that much a framework computes for each kernel (a decoder of PyTorch on an
//! H100 took 22 us), and no card needs as long for an empty one. `ns` is by `CLOCK_MONOTONIC`, from before
//! the first launch until the card has done the last, at least SIZE; `count` is the number of kernels.

use std::hint::spin_loop;

use crate::{
    cuda::{Card, Extent, Waits},
    stall::{Fault, Injected, Kind, error::StallError, machine::clock, size::Unit},
};

pub(super) const KIND: Kind = Kind {
    name: "gpu-launch",
    what: "the request launches empty kernels on the GPU for SIZE",
    needs: "an NVIDIA GPU",
    unit: Unit::Time,
    range: 100_000..=10_000_000_000,
    default: 20_000_000,
    bound: false,
    make: |_| {
        let mut launches = Launches { card: Card::open(Waits::Spinning)? };
        // The first launch of a process puts the code on the card.
        launches.inject(1)?;
        Ok(Box::new(launches))
    },
};

/// Time from one launch to the next, ns.
const EVERY_NS: u64 = 20_000;

struct Launches {
    card: Card,
}

impl Fault for Launches {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let start_ns = clock::monotonic_ns();
        let mut count = 0;
        let mut now_ns = start_ns;
        while now_ns - start_ns < size {
            self.card.launch(0, Extent::Thread)?;
            count += 1;
            let next_ns = now_ns + EVERY_NS;
            while now_ns < next_ns {
                spin_loop();
                now_ns = clock::monotonic_ns();
            }
        }
        self.card.wait()?;
        Ok(Injected { ns: clock::monotonic_ns() - start_ns, count: Some(count) })
    }
}
