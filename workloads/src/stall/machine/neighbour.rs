//! A real-time thread that takes a CPU away: while it spins there, no ordinary thread runs on that CPU.
//! Yields the CPU time that it held, by its own thread clock. It needs CAP_SYS_NICE.
//!
//! It belongs to the disturbed process; to a ledger it is a neighbour like any other. Orders go through
//! atomics and a parked thread, never through a lock: the caller is preempted before the call returns.

use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst},
        mpsc::channel,
    },
    thread::{self, Builder, JoinHandle},
};

use super::{clock, cpus};
use crate::stall::error::StallError;

const NAME: &str = "neighbour";

#[derive(Debug, Default)]
struct Shared {
    tid: AtomicI32,
    /// Time to hold the CPU next; 0 when there is nothing to do.
    order_ns: AtomicU64,
    /// Whether it has the CPU.
    holding: AtomicBool,
    /// Set when the time to hold starts to count.
    go: AtomicBool,
    /// CPU time of the last hold; 0 until it is over.
    held_ns: AtomicU64,
    end: AtomicBool,
}

/// The thread, bound to one CPU at a time.
#[derive(Debug)]
pub struct Neighbour {
    shared: Arc<Shared>,
    cpu: usize,
    thread: Option<JoinHandle<()>>,
}

impl Neighbour {
    /// Starts the thread on `cpu`; it sleeps there until it is ordered to hold the CPU.
    pub fn start(kind: &'static str, cpu: usize) -> Result<Self, StallError> {
        let shared = Arc::new(Shared::default());
        let (ready, is_ready) = channel();
        let of_thread = Arc::clone(&shared);
        let thread = Builder::new()
            .name(NAME.to_owned())
            .spawn(move || {
                of_thread.tid.store(nix::unistd::gettid().as_raw(), SeqCst);
                let permitted = cpus::become_real_time();
                // The receiver may be gone; then the message is not needed.
                let _ = ready.send(permitted);
                if permitted.is_ok() {
                    serve(&of_thread);
                }
            })
            .map_err(|source| StallError::Thread { name: NAME, source })?;
        let neighbour = Self { shared, cpu, thread: Some(thread) };
        let permitted = is_ready.recv().map_err(|_| StallError::PartnerGone { name: NAME.to_owned() })?;
        permitted.map_err(|source| StallError::RealTime { kind, source: source.into() })?;
        cpus::bind(neighbour.tid(), cpu)?;
        Ok(neighbour)
    }

    /// Binds the thread to another CPU, from outside.
    pub fn move_to(&mut self, cpu: usize) -> Result<(), StallError> {
        if cpu != self.cpu {
            cpus::bind(self.tid(), cpu)?;
            self.cpu = cpu;
        }
        Ok(())
    }

    /// Makes it take its CPU for `ns`. An ordinary thread on that CPU is preempted inside this call.
    pub fn hold(&self, ns: u64) {
        self.prepare(ns, true);
    }

    /// Takes its CPU and returns; holds it for `ns` more once [`Self::go`] is called.
    pub fn take(&self, ns: u64) {
        self.prepare(ns, false);
        while !self.shared.holding.load(SeqCst) {
            spin_loop();
        }
    }

    pub fn go(&self) {
        self.shared.go.store(true, SeqCst);
    }

    /// Spins until the CPU is free again. Returns the CPU time of the hold, counted from `go`.
    pub fn held_ns(&self) -> u64 {
        loop {
            let held_ns = self.shared.held_ns.load(SeqCst);
            if held_ns != 0 {
                return held_ns;
            }
            spin_loop();
        }
    }

    fn prepare(&self, ns: u64, go: bool) {
        self.shared.held_ns.store(0, SeqCst);
        self.shared.holding.store(false, SeqCst);
        self.shared.go.store(go, SeqCst);
        self.shared.order_ns.store(ns.max(1), SeqCst);
        self.wake();
    }

    fn tid(&self) -> i32 {
        self.shared.tid.load(SeqCst)
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.shared.end.store(true, SeqCst);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // The thread has nothing that could panic.
            let _ = thread.join();
        }
    }
}

fn serve(shared: &Shared) {
    while !shared.end.load(SeqCst) {
        let ns = shared.order_ns.swap(0, SeqCst);
        if ns == 0 {
            thread::park();
            continue;
        }
        shared.holding.store(true, SeqCst);
        while !shared.go.load(SeqCst) && !shared.end.load(SeqCst) {
            spin_loop();
        }
        let start_ns = clock::thread_cpu_ns();
        let mut held_ns = 0;
        while held_ns < ns {
            held_ns = clock::thread_cpu_ns() - start_ns;
        }
        shared.held_ns.store(held_ns, SeqCst);
    }
}
