//! `spin`: the request busy-waits for a partner that is SIZE late. Charged to `cpu`: the kernel sees only
//! work.
//!
//! The partner sleeps; `ns` runs from before it was woken until it arrives, by `CLOCK_MONOTONIC` in both
//! threads: at least SIZE. If the request shares its CPU, part of that is `runq`; `cpu_ns` is the rest. This
//! loop is written by hand and reads one variable; `spin-openmp` waits in libgomp.

use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use crate::stall::{
    Fault, Injected, Kind, Setup,
    error::StallError,
    machine::{clock, partner::Partner},
    size::Unit,
};

pub(super) const KIND: Kind = Kind {
    name: "spin",
    what: "the request busy-waits for a partner that is SIZE late",
    needs: "nothing",
    unit: Unit::Time,
    range: 1_000..=10_000_000_000,
    default: 20_000_000,
    bound: false,
    make,
};

struct Spin {
    /// Time when the partner came; 0 until then.
    came_ns: Arc<AtomicU64>,
    partner: Partner<u64, ()>,
}

fn make(_: &Setup) -> Result<Box<dyn Fault>, StallError> {
    let came_ns = Arc::new(AtomicU64::new(0));
    let of_partner = Arc::clone(&came_ns);
    let partner = Partner::start("late-partner", move |orders, _| {
        for late_ns in orders {
            thread::sleep(Duration::from_nanos(late_ns));
            of_partner.store(clock::monotonic_ns(), SeqCst);
        }
    })?;
    Ok(Box::new(Spin { came_ns, partner }))
}

impl Fault for Spin {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let start_ns = clock::monotonic_ns();
        self.came_ns.store(0, SeqCst);
        self.partner.order(size)?;
        loop {
            let came_ns = self.came_ns.load(SeqCst);
            if came_ns != 0 {
                return Ok(Injected { ns: came_ns.saturating_sub(start_ns), count: None });
            }
            spin_loop();
        }
    }
}
