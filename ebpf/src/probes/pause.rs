//! Family `pause`: was the whole machine stopped?
//!
//! Hooks: tp_btf or raw_tp hrtimer_expire_entry, where each CPU shows that it is alive, and a clock on each
//! CPU that beats 20 times a second (the software event cpu-clock, idle CPUs too). Yields a record of each
//! late beat, with the last time span in which no CPU ran a timer. All of it runs in interrupts, so that no
//! thread's wait for a CPU, in particular the agent's, can look like a pause. The agent decides what is a
//! pause: a delay of one CPU is none.

use aya_ebpf::{
    bindings::BPF_RB_NO_WAKEUP,
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns, generated::bpf_get_current_task},
    macros::perf_event,
    programs::PerfEventContext,
};
use guestscope_contract::pause::{BEAT_NS, GRAIN_NS, GapRecord, LATE_NS, Pulse, Silence};

use crate::{
    maps::{GAPS, OFFSET_TIMER_EXPIRES, PULSES},
    memory::{Arguments, Memory as _, Plain, load, twins},
    steal,
    task::Task,
};

/// Signs of life of all CPUs together.
pub(crate) struct Life {
    /// The last sign of life.
    pub(crate) last_ns: u64,
    /// The last long silence.
    pub(crate) silence: Silence,
}

/// The last signs of life of any CPU.
#[unsafe(no_mangle)]
static mut LIFE: Life = Life { last_ns: 0, silence: Silence { begin_ns: 0, due_ns: 0, end_ns: 0 } };

twins! {
    hrtimer_expire_entry raw_hrtimer_expire_entry "hrtimer_expire_entry" expires;
}

#[inline(always)]
fn expires<C: Arguments>(ctx: &C) -> i32 {
    // SAFETY: the clock has no preconditions.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let (timer, clock): (u64, u64) = (ctx.at(0), ctx.at(1));
    alive(now_ns, || late_ns(timer, clock));
    0
}

/// Lateness of a timer by its own clock, ns. Called only where it ends a silence: it costs two reads by a BPF
/// helper.
#[inline(always)]
fn late_ns(timer: u64, clock: u64) -> u64 {
    if OFFSET_TIMER_EXPIRES.load() == 0 {
        return 0;
    }
    // SAFETY: the BPF helper checks the memory; any words are times. The agent resolved the offset.
    let late = unsafe {
        let now: u64 = Plain::read(clock as *const u8);
        now.wrapping_sub(load::<Plain, u64>(timer as *const u8, &OFFSET_TIMER_EXPIRES))
    };
    if late.cast_signed() < 0 { 0 } else { late }
}

/// A CPU shows that it is alive. Two at once may both end the same silence, and write nearly the same.
#[inline(always)]
fn alive(now_ns: u64, late_ns: impl FnOnce() -> u64) {
    let life = &raw mut LIFE;
    // SAFETY: aligned words of a global that lives as long as the program.
    unsafe {
        let last_ns = core::ptr::read_volatile(&raw const (*life).last_ns);
        let still_ns = now_ns.wrapping_sub(last_ns);
        if still_ns.cast_signed() < GRAIN_NS.cast_signed() {
            return;
        }
        if still_ns >= LATE_NS {
            let late_ns = late_ns();
            let due_ns = if late_ns < still_ns { now_ns - late_ns } else { last_ns };
            core::ptr::write_volatile(&raw mut (*life).silence.begin_ns, last_ns);
            core::ptr::write_volatile(&raw mut (*life).silence.due_ns, due_ns);
            core::ptr::write_volatile(&raw mut (*life).silence.end_ns, now_ns);
        }
        core::ptr::write_volatile(&raw mut (*life).last_ns, now_ns);
    }
}

#[perf_event]
pub(crate) fn pulse(_ctx: PerfEventContext) -> u32 {
    // SAFETY: neither has preconditions.
    let (now_ns, cpu) = unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id()) };
    // Without the other hook, beats are the only signs of life.
    alive(now_ns, || 0);
    let Some(pulse) = PULSES.get_ptr_mut(cpu) else { return 0 };
    // SAFETY: a value of a map, which only this CPU writes, in this program, once the agent has started its
    // pulse.
    unsafe { beat(&mut *pulse, now_ns, cpu) };
    0
}

#[inline(always)]
fn beat(pulse: &mut Pulse, now_ns: u64, cpu: u32) {
    let stolen_ns = stolen();
    if pulse.gap.time_ns != 0 {
        pulse.gap.stolen_ns = stolen_ns.wrapping_sub(pulse.gap.stolen_ns);
        pulse.gap.is_settled = 1;
        tell(&pulse.gap);
        pulse.gap.time_ns = 0;
    }
    let due_ns = pulse.last_ns + BEAT_NS;
    if pulse.last_ns != 0 && now_ns > due_ns + LATE_NS {
        let life = &raw const LIFE;
        // SAFETY: as above.
        let silence = unsafe {
            Silence {
                begin_ns: core::ptr::read_volatile(&raw const (*life).silence.begin_ns),
                due_ns: core::ptr::read_volatile(&raw const (*life).silence.due_ns),
                end_ns: core::ptr::read_volatile(&raw const (*life).silence.end_ns),
            }
        };
        let cpus = pulse.cpus as u32;
        let gap = GapRecord { time_ns: now_ns, due_ns, silence, stolen_ns: 0, cpu, cpus, is_settled: 0 };
        tell(&gap);
        pulse.gap = GapRecord { stolen_ns: pulse.stolen_ns, ..gap };
    }
    pulse.last_ns = now_ns;
    pulse.stolen_ns = stolen_ns;
}

/// At most 40 records a second come from each CPU, and 64 KiB hold 900 of them: a record without room would
/// add nothing new.
#[inline(always)]
fn tell(gap: &GapRecord) {
    let _ = GAPS.output::<GapRecord>(gap, u64::from(BPF_RB_NO_WAKEUP));
}

/// Time that the hypervisor has taken from this CPU; 0 where the kernel keeps none. The idle task has a queue
/// too.
#[inline(always)]
fn stolen() -> u64 {
    // SAFETY: the BPF helper has no preconditions.
    steal::clock(Task::<Plain>::at(unsafe { bpf_get_current_task() } as *const u8))
}
