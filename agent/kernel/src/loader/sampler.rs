//! The clocks that sample what account `cpu` consists of: one for each thread, inherited by the threads that
//! it starts; or, where the guest switches often, one for each CPU.
//!
//! The kernel stops a thread's clock whenever the thread leaves a CPU and starts it when it is back, which
//! took 0.4 us of a switch on a two-CPU guest whose hypervisor sets its timers: half of the cost of being
//! observed there. A CPU's clock is never stopped, but also ticks while the CPU is idle or runs others, at 1
//! to 11 us each. So threads have clocks until those cost more. There is no way back: finding all threads
//! again takes a walk, and threads that they start during it would be missed. If the kernel refuses clocks
//! the hook reports it; the accounts do not need them.

use std::time::{Duration, Instant};

use aya::{
    programs::{
        PerfEvent,
        perf_event::{PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent},
    },
    util::online_cpus,
};
use guestscope_contract::{Counter, SAMPLES_PER_S};

use super::{clock_error::ClockError, loaded::Loaded};
use crate::{
    descriptors,
    health::{Outcome, Verdict},
    probes::cpu,
};

const PROGRAM: &str = "sample";
/// Context switches of a CPU per second from which on it has a separate clock: 1.6 ms a second at 0.4 us
/// each. Its clock costs 0.5 ms (1 us a tick) to 5.5 ms (11 us, under nested virtualization) more than those
/// of threads, and only while it is idle or runs others; a busy one ticks as often either way. So this is a
/// compromise, in favour of what is observed.
const SWITCHES_PER_S: u64 = 4_000;
/// The shortest time over which a rate is taken.
const WINDOW: Duration = Duration::from_millis(200);
/// Maximum number of threads with separate clocks; the threads that they start inherit theirs. Each takes two
/// descriptors.
const THREADS_MOST: usize = 1024;

impl Loaded {
    /// Samples the calling thread and all threads that it starts from now on, from their first instruction;
    /// samples of the calling thread itself are dropped. If the kernel refuses, the hook reports it.
    ///
    /// A clock that a started program gets is too late: the first clock of a thread takes the kernel 15 ms,
    /// as it rewrites its switch and waits until every CPU has seen that, and threads created by then have
    /// none.
    pub fn sample_children(&mut self) -> bool {
        self.sample_by(PerfEventScope::CallingProcess { cpu: None })
    }

    /// Samples a thread and all threads that it starts from now on. If the kernel refuses, the hook reports
    /// it. Returns whether to try further threads.
    pub fn sample(&mut self, tid: u32) -> bool {
        self.sample_by(PerfEventScope::OneProcess { pid: tid, cpu: None })
    }

    fn sample_by(&mut self, scope: PerfEventScope) -> bool {
        if self.samples_cpus() {
            return true;
        }
        let sampled = self.sampler.threads.len();
        if sampled >= THREADS_MOST || !descriptors::are_free() {
            if self.sampler.is_refused {
                return false;
            }
            let Err(error) = self.sample_cpus() else { return true };
            let why = error.to_string();
            self.sampling_failed(&format!("only {sampled} threads were sampled: {why}"), None);
            return false;
        }
        let error = match self.start_clock(scope) {
            Ok(link) => {
                self.sampler.threads.push(link);
                return true;
            }
            Err(error) => error,
        };
        let number = error.number();
        // The thread ended before it could be sampled.
        if number == Some(libc::ESRCH) {
            return true;
        }
        // The kernel lowers this limit by itself where sampling takes long.
        let remedy = (number == Some(libc::EINVAL))
            .then(|| format!("sysctl -w kernel.perf_event_max_sample_rate={SAMPLES_PER_S}"));
        self.sampling_failed(&error.to_string(), remedy.as_deref());
        false
    }

    /// Gives clocks to CPUs if, at the guest's rate of switches, that is cheaper; later checks that all of
    /// them tick.
    pub fn keep_sampling(&mut self) {
        if self.samples_cpus() {
            if self.counted(Self::ticks).is_some_and(|(_, before, now)| {
                self.sampler.cpus.iter().any(|&cpu| stands_still(cpu as usize, &before, &now))
            }) {
                self.sampler.cpus.clear();
            }
            let kept = self.clocks_on_all_cpus();
            // A CPU may go offline between the check and the start: only a second failure in a row is
            // reported by the hook.
            let had_failed = std::mem::replace(&mut self.sampler.has_failed, kept.is_err());
            if had_failed && let Err(error) = kept {
                self.sampling_failed(&error.to_string(), None);
            }
            return;
        }
        if self.sampler.threads.is_empty() || self.sampler.is_refused {
            return;
        }
        let read = |_: &Self| Some(vec![switches(&std::fs::read_to_string("/proc/stat").ok()?)?]);
        let Some((elapsed, before, now)) = self.counted(read) else { return };
        let switches = now[0].saturating_sub(before[0]);
        if is_cheaper_on_cpus(switches, elapsed, online_cpus().map_or(1, |cpus| cpus.len())) {
            // Threads keep their clocks where CPUs cannot have any.
            let _ = self.sample_cpus();
        }
    }

    /// The counts of the last look and of now, if that is long enough ago.
    fn counted(
        &mut self,
        read: impl Fn(&Self) -> Option<Vec<u64>>,
    ) -> Option<(Duration, Vec<u64>, Vec<u64>)> {
        let elapsed = self.sampler.counted.as_ref().map(|(then, _)| then.elapsed());
        if elapsed.is_some_and(|elapsed| elapsed < WINDOW) {
            return None;
        }
        let counts = read(self)?;
        let (_, before) = self.sampler.counted.replace((Instant::now(), counts.clone()))?;
        Some((elapsed?, before, counts))
    }

    /// Ticks of the sampler's clocks, by CPU.
    fn ticks(&self) -> Option<Vec<u64>> {
        Some(self.counters().ok()?.by_cpu(Counter::Tick).collect())
    }

    /// Gives clocks to all CPUs and removes those of threads. Both tick for the moment in between.
    ///
    /// # Errors
    ///
    /// The kernel refuses it. Threads keep their clocks then, and it is not tried again.
    pub fn sample_cpus(&mut self) -> Result<(), ClockError> {
        if let Err(error) = self.clocks_on_all_cpus() {
            self.sampler.is_refused = true;
            return Err(error);
        }
        self.sampler.counted = None;
        let threads = std::mem::take(&mut self.sampler.threads);
        self.stop_clocks(PROGRAM, threads)
    }

    /// Stops all of them, even if one cannot be stopped: clocks that stay would count twice.
    pub(super) fn stop_clocks(
        &mut self,
        program: &'static str,
        links: Vec<PerfEventLinkId>,
    ) -> Result<(), ClockError> {
        let program = self.clock_program(program)?;
        let mut stopped = Ok(());
        for link in links {
            stopped = stopped.and(program.detach(link));
        }
        Ok(stopped?)
    }

    /// Whether CPUs have the clocks.
    pub fn samples_cpus(&self) -> bool {
        !self.sampler.on_cpus.is_empty() || self.sampler.has_failed
    }

    /// Marks the hook as failed, with the reason: not all threads are sampled.
    pub fn sampling_failed(&mut self, why: &str, remedy: Option<&str>) {
        let is_ours = |verdict: &&mut Verdict| cpu::HOOKS.iter().any(|hook| hook.id == verdict.hook);
        for verdict in self.verdicts.iter_mut().filter(is_ours).filter(|ours| ours.outcome == Outcome::Ok) {
            verdict.fail(why);
            verdict.remedy = remedy.map(str::to_owned);
        }
    }

    /// Starts the clocks of all CPUs, if others are online than the last time: that of a CPU which was taken
    /// away is gone for good.
    fn clocks_on_all_cpus(&mut self) -> Result<(), ClockError> {
        let cpus = online_cpus().map_err(ClockError::of_cpus)?;
        if cpus == self.sampler.cpus {
            return Ok(());
        }
        self.stop_clocks_of_cpus()?;
        for &cpu in &cpus {
            match self.start_clock(PerfEventScope::AllProcessesOneCpu { cpu }) {
                Ok(link) => self.sampler.on_cpus.push(link),
                Err(error) => {
                    self.stop_clocks_of_cpus()?;
                    return Err(error);
                }
            }
        }
        self.sampler.cpus = cpus;
        Ok(())
    }

    fn stop_clocks_of_cpus(&mut self) -> Result<(), ClockError> {
        self.sampler.cpus.clear();
        let links = std::mem::take(&mut self.sampler.on_cpus);
        self.stop_clocks(PROGRAM, links)
    }

    fn start_clock(&mut self, scope: PerfEventScope) -> Result<PerfEventLinkId, ClockError> {
        let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
        let is_inherited = !matches!(scope, PerfEventScope::AllProcessesOneCpu { .. });
        let policy = SamplePolicy::Frequency(SAMPLES_PER_S);
        Ok(self.clock_program(PROGRAM)?.attach(clock, scope, policy, is_inherited)?)
    }

    /// The program that runs at each tick.
    pub(super) fn clock_program(&mut self, name: &'static str) -> Result<&mut PerfEvent, ClockError> {
        let program = self.ebpf.program_mut(name).ok_or(ClockError::Missing(name))?;
        Ok(program.try_into()?)
    }
}

/// Such a clock was once seen to stand still from its start (6.18 under Firecracker), among the pulses, which
/// tick in the same way.
fn stands_still(cpu: usize, before: &[u64], now: &[u64]) -> bool {
    before.get(cpu).zip(now.get(cpu)).is_some_and(|(before, now)| before == now)
}

/// Whether clocks of this number of CPUs cost less than those of threads, at this number of switches.
fn is_cheaper_on_cpus(switches: u64, elapsed: Duration, cpus: usize) -> bool {
    u128::from(switches) * 1_000_000_000
        > u128::from(SWITCHES_PER_S) * u128::from(cpus as u64) * elapsed.as_nanos()
}

/// All context switches of the guest so far, from the text of /proc/stat.
fn switches(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{is_cheaper_on_cpus, stands_still, switches};

    #[test]
    fn cpus_have_clocks_where_threads_switch_often() {
        let second = Duration::from_secs(1);
        assert!(!is_cheaper_on_cpus(8_000, second, 2), "4,000 of each");
        assert!(is_cheaper_on_cpus(8_001, second, 2));
        assert!(!is_cheaper_on_cpus(8_001, second * 2, 2));
        assert!(is_cheaper_on_cpus(2_001, second / 4, 2));
        assert!(
            !is_cheaper_on_cpus(200_000, second, 64),
            "one busy CPU of many: the others would tick for nothing"
        );
        assert!(is_cheaper_on_cpus(u64::MAX, Duration::from_nanos(1), 4096));
    }

    #[test]
    fn a_clock_stands_still_that_has_not_ticked_since_the_last_look() {
        assert_eq!([0, 1, 2].map(|cpu| stands_still(cpu, &[5, 7], &[6, 7])), [false, true, false]);
    }

    #[test]
    fn switches_are_those_of_the_whole_guest() {
        assert_eq!(switches("cpu  1 2 3\nintr 5 0\nctxt 1990473\nbtime 1\n"), Some(1_990_473));
        assert_eq!(switches("cpu  1 2 3\nctxt many\n"), None);
        assert_eq!(switches(""), None);
    }
}
