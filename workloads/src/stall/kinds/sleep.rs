//! `sleep`: the request sleeps for SIZE, in nanosleep. Charged to `sleep`.
//!
//! `ns` is by `CLOCK_MONOTONIC` around the call. Its end, from the timer's expiry until the thread runs
//! again, is scheduling delay: an observer charges it to `runq`.

use std::{thread, time::Duration};

use crate::stall::{Fault, Injected, Kind, error::StallError, machine::clock, size::Unit};

pub(super) const KIND: Kind = Kind {
    name: "sleep",
    what: "the request sleeps for SIZE",
    needs: "nothing",
    unit: Unit::Time,
    range: 1_000..=10_000_000_000,
    default: 20_000_000,
    bound: false,
    make: |_| Ok(Box::new(Sleep)),
};

struct Sleep;

impl Fault for Sleep {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let start_ns = clock::monotonic_ns();
        thread::sleep(Duration::from_nanos(size));
        Ok(Injected { ns: clock::monotonic_ns() - start_ns, count: None })
    }
}
