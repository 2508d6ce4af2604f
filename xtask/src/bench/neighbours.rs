//! Threads that keep this machine's CPUs busy beside a measurement, one pinned to each CPU, until they are
//! dropped.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use nix::{
    errno::Errno,
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

/// How a neighbour uses its CPU.
#[derive(Clone, Copy, Debug)]
pub(super) enum Manner {
    /// Always, as an ordinary thread.
    Loop,
    /// For `size` of CPU time in every `period`, with priority over every ordinary thread. The bursts of
    /// different CPUs are evenly spaced.
    Burst { size: Duration, period: Duration },
}

/// One on each CPU that this process may use.
pub(super) struct Neighbours {
    threads: Vec<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
}

impl Neighbours {
    pub(super) fn start(manner: Manner) -> Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).context("the CPUs are not known")?;
        let all: Vec<usize> =
            (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
        let mut neighbours = Self { threads: Vec::new(), ended: Arc::new(AtomicBool::new(false)) };
        let started = Instant::now();
        for (index, cpu) in all.iter().enumerate() {
            let first = match manner {
                Manner::Loop => started,
                Manner::Burst { period, .. } => started + period * index as u32 / all.len() as u32,
            };
            neighbours.start_on(*cpu, manner, first)?;
        }
        Ok(neighbours)
    }

    /// Starts one; its thread is pinned before this returns.
    fn start_on(&mut self, cpu: usize, manner: Manner, first: Instant) -> Result<()> {
        let (placed, is_placed) = mpsc::channel();
        let ended = Arc::clone(&self.ended);
        self.threads.push(thread::spawn(move || {
            let done = place(cpu, manner);
            let stays = done.is_ok();
            // The receiver may be gone.
            let _ = placed.send(done);
            if stays {
                work(manner, first, &ended);
            }
        }));
        is_placed.recv().context("a neighbour ended")?.with_context(|| format!("no neighbour on CPU {cpu}"))
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The threads cannot panic.
            let _ = thread.join();
        }
    }
}

/// Pins the calling thread to a CPU and sets its priority.
fn place(cpu: usize, manner: Manner) -> nix::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &only)?;
    if matches!(manner, Manner::Loop) {
        return Ok(());
    }
    let lowest = nix::libc::sched_param { sched_priority: 1 };
    // SAFETY: the structure lives across the call, which changes the calling thread alone.
    Errno::result(unsafe { nix::libc::sched_setscheduler(0, nix::libc::SCHED_FIFO, &raw const lowest) })
        .map(drop)
}

fn work(manner: Manner, first: Instant, ended: &AtomicBool) {
    let Manner::Burst { size, period } = manner else {
        while !ended.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        return;
    };
    let mut next = first;
    while !ended.load(Ordering::Relaxed) {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += period;
        let Ok(began) = own_cpu_time() else { return };
        while own_cpu_time().is_ok_and(|now| now < began + size) {
            std::hint::spin_loop();
        }
    }
}

fn own_cpu_time() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from)
}
