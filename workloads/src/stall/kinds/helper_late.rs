//! `helper-late`: the request waits for work of a helper thread, while a neighbour of higher priority keeps
//! the helper from its CPU for SIZE. The request itself is charged to `cpu` with `--wait spin`, to `lock`
//! with `--wait sleep`; the cause is the helper's `runq`. It needs two CPUs and CAP_SYS_NICE.
//!
//! Every request hands the same work over (an eighth of its own), so spared ones differ by the fault alone.
//! `ns` is the neighbour's CPU time from when the helper had its work: the least that the helper waited. The
//! pool is written by hand: the helper sleeps while idle, and only the request may spin.

use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc::{Receiver, channel},
    },
    thread::{self, Thread},
};

use crate::stall::{
    Fault, Injected, Kind, Setup, Wait,
    error::StallError,
    machine::{cpus, neighbour::Neighbour, partner::Partner, work::Work},
    size::Unit,
};

const NAME: &str = "helper-late";

pub(super) const KIND: Kind = Kind {
    name: NAME,
    what: "the request waits for a helper that is kept from its CPU for SIZE",
    needs: "root (CAP_SYS_NICE), and two CPUs",
    unit: Unit::Time,
    range: 10_000..=500_000_000,
    default: 20_000_000,
    bound: true,
    make,
};

struct HelperLate {
    helper: Partner<Thread, ()>,
    done: Arc<AtomicBool>,
    neighbour: Neighbour,
    wait: Wait,
}

fn make(setup: &Setup) -> Result<Box<dyn Fault>, StallError> {
    let other = setup.cpus.iter().copied().find(|cpu| *cpu != setup.cpu);
    let Some(cpu) = other else {
        return Err(StallError::Cpus { kind: NAME, found: setup.cpus.len() });
    };
    let done = Arc::new(AtomicBool::new(false));
    let of_helper = Arc::clone(&done);
    let (bound, is_bound) = channel();
    let work = setup.work.eighths(1);
    let helper = Partner::start("helper", move |orders, _| {
        let ready = cpus::bind(0, cpu);
        let goes_on = ready.is_ok();
        // The receiver may be gone; then the message is not needed.
        let _ = bound.send(ready);
        if goes_on {
            serve(&orders, &of_helper, work);
        }
    })?;
    is_bound.recv().map_err(|_| StallError::PartnerGone { name: "helper".to_owned() })??;
    Ok(Box::new(HelperLate { helper, done, neighbour: Neighbour::start(NAME, cpu)?, wait: setup.wait }))
}

fn serve(orders: &Receiver<Thread>, done: &AtomicBool, work: Work) {
    for leader in orders {
        work.run();
        done.store(true, SeqCst);
        leader.unpark();
    }
}

impl Fault for HelperLate {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        self.neighbour.take(size);
        self.hand_over()?;
        self.neighbour.go();
        self.wait();
        Ok(Injected { ns: self.neighbour.held_ns(), count: None })
    }

    fn spare(&mut self) -> Result<(), StallError> {
        self.hand_over()?;
        self.wait();
        Ok(())
    }
}

impl HelperLate {
    fn hand_over(&self) -> Result<(), StallError> {
        self.done.store(false, SeqCst);
        self.helper.order(thread::current())
    }

    fn wait(&self) {
        while !self.done.load(SeqCst) {
            match self.wait {
                Wait::Spin => spin_loop(),
                Wait::Sleep => thread::park(),
            }
        }
    }
}
