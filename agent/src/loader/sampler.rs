//! The clocks of observed programs: one for each thread that is there, inherited by what it starts.
//!
//! Where they are refused the hook says so; the accounts do not need them.

use std::io;

use aya::programs::{
    PerfEvent,
    perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent},
};
use guestscope_ebpf::SAMPLES_PER_S;

use super::{LoadError, Loaded};
use crate::{
    failure,
    health::{Outcome, Verdict},
    probes::cpu,
};

impl Loaded {
    /// Samples a thread and everything that it starts from now on. Where that is refused its hook says so. Whether it is
    /// worth while to go on.
    pub fn sample(&mut self, tid: u32) -> bool {
        let Err(error) = self.try_sample(tid) else { return true };
        let number = error.chain().find_map(|error| error.downcast_ref::<io::Error>()?.raw_os_error());
        // It was over before it could be sampled.
        if number == Some(libc::ESRCH) {
            return true;
        }
        // The kernel lowers this limit by itself where sampling takes long.
        let remedy = (number == Some(libc::EINVAL))
            .then(|| format!("sysctl -w kernel.perf_event_max_sample_rate={SAMPLES_PER_S}"));
        self.sampling_failed(&failure::chain(error.chain()), remedy.as_deref());
        false
    }

    /// Not all threads are sampled: the hook does not count as in place, and says why.
    pub fn sampling_failed(&mut self, why: &str, remedy: Option<&str>) {
        let is_ours = |verdict: &&mut Verdict| cpu::HOOKS.iter().any(|hook| hook.id == verdict.hook);
        for verdict in self.verdicts.iter_mut().filter(is_ours).filter(|ours| ours.outcome == Outcome::Ok) {
            verdict.fail(why);
            verdict.remedy = remedy.map(str::to_owned);
        }
    }

    fn try_sample(&mut self, tid: u32) -> Result<(), anyhow::Error> {
        let program = self.ebpf.program_mut("sample").ok_or(LoadError::Missing("sample"))?;
        let program: &mut PerfEvent = program.try_into()?;
        let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
        let scope = PerfEventScope::OneProcess { pid: tid, cpu: None };
        program.attach(clock, scope, SamplePolicy::Frequency(SAMPLES_PER_S), true)?;
        Ok(())
    }
}
