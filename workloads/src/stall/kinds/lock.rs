//! `lock`: another thread holds a mutex for SIZE while the request wants it. Charged to `lock` (futex).
//!
//! The holder has the mutex before the request begins, and is notified when the request is about to lock it.
//! `ns` runs from then until the holder releases it, by `CLOCK_MONOTONIC` in both threads: at least SIZE. The
//! first microseconds of it are spent spinning, as the standard library's mutex does before it sleeps.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, Sender},
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
    name: "lock",
    what: "another thread holds a mutex for SIZE while the request wants it",
    needs: "nothing",
    unit: Unit::Time,
    range: 1_000..=10_000_000_000,
    default: 20_000_000,
    bound: false,
    make,
};

enum Order {
    /// Lock the mutex.
    Hold,
    /// Keep it for `after_ns`, then let go.
    Release { after_ns: u64 },
}

struct Lock {
    mutex: Arc<Mutex<()>>,
    /// Answers each order with a time: when it had the mutex, and when it was about to let go.
    holder: Partner<Order, u64>,
}

fn make(_: &Setup) -> Result<Box<dyn Fault>, StallError> {
    let mutex = Arc::new(Mutex::new(()));
    let of_holder = Arc::clone(&mutex);
    let holder = Partner::start("holder", move |orders, answers| hold(&of_holder, &orders, &answers))?;
    Ok(Box::new(Lock { mutex, holder }))
}

fn hold(mutex: &Mutex<()>, orders: &Receiver<Order>, answers: &Sender<u64>) {
    let mut held = None;
    for order in orders {
        match order {
            Order::Hold => held = Some(lock(mutex)),
            Order::Release { after_ns } => thread::sleep(Duration::from_nanos(after_ns)),
        }
        // Answers before it lets go: the request finds the answer there, and waits for the mutex alone.
        if answers.send(clock::monotonic_ns()).is_err() {
            return;
        }
        if matches!(order, Order::Release { .. }) {
            held = None;
        }
    }
    drop(held);
}

/// The mutex guards nothing that a panic could have left half done.
fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fault for Lock {
    fn arm(&mut self, _: u64) -> Result<(), StallError> {
        self.holder.order(Order::Hold)?;
        self.holder.answer().map(drop)
    }

    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let start_ns = clock::monotonic_ns();
        self.holder.order(Order::Release { after_ns: size })?;
        drop(lock(&self.mutex));
        Ok(Injected { ns: self.holder.answer()?.saturating_sub(start_ns), count: None })
    }
}
