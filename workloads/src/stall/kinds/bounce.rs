//! `bounce`: the request is moved from CPU to CPU, exactly SIZE times. Counted as migrations; each move also
//! costs some `runq` (the kernel's own thread carries it out) and cold caches afterwards, in `cpu`.
//!
//! `count` is how often the thread was found on the next CPU after sched_setaffinity; `ns` is all moves
//! together by `CLOCK_MONOTONIC`. The requests are bound to one CPU at a time, so nothing else moves them.

use crate::stall::{
    Fault, Injected, Kind, Setup,
    error::StallError,
    machine::{clock, cpus},
    size::Unit,
};

const NAME: &str = "bounce";

pub(super) const KIND: Kind = Kind {
    name: NAME,
    what: "the request is moved between CPUs SIZE times",
    needs: "two CPUs",
    unit: Unit::Moves,
    range: 1..=100_000,
    default: 16,
    bound: true,
    make,
};

struct Bounce {
    cpus: Vec<usize>,
}

fn make(setup: &Setup) -> Result<Box<dyn Fault>, StallError> {
    let cpus = setup.cpus.clone();
    if cpus.len() < 2 {
        return Err(StallError::Cpus { kind: NAME, found: cpus.len() });
    }
    Ok(Box::new(Bounce { cpus }))
}

impl Fault for Bounce {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let start_ns = clock::monotonic_ns();
        let mut cpu = cpus::current()?;
        let mut moves = 0;
        for _ in 0..size {
            let place = self.cpus.iter().position(|own| *own == cpu).unwrap_or(0);
            let next = self.cpus[(place + 1) % self.cpus.len()];
            cpus::bind(0, next)?;
            let now = cpus::current()?;
            moves += u64::from(now == next && now != cpu);
            cpu = now;
        }
        Ok(Injected { ns: clock::monotonic_ns() - start_ns, count: Some(moves) })
    }
}
