//! Records of the pulse: a CPU's timer came late, and the signs of life of the others until then.
//!
//! Plain integers, as in the rest of the contract. The agent decides, over all CPUs, whether a machine was
//! stopped.

/// Period of a CPU's pulse, ns: 20 a second, as often as the agent looks at its rings. An idle CPU is woken
/// for it.
pub const BEAT_NS: u64 = 50_000_000;
/// A beat later than this, ns, is reported. Timers of this machine are late by up to 0.2 ms where all is
/// well; a tick takes up to 10 ms where there is no other clock.
pub const LATE_NS: u64 = 5_000_000;
/// Signs of life closer together than this, ns, count as one, so that busy CPUs do not contend for their
/// cache line.
pub const GRAIN_NS: u64 = 1_000_000;

/// A span in which no timer ran on any CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Silence {
    /// The last timer before, CLOCK_MONOTONIC, ns; up to [`GRAIN_NS`] too early.
    pub begin_ns: u64,
    /// Due time of the timer that ended it, ns.
    pub due_ns: u64,
    /// Time at which that timer ran, ns.
    pub end_ns: u64,
}

/// A beat came late. Each is reported twice: at once, and with the next beat, when the kernel's copy of the
/// stolen time is fresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct GapRecord {
    /// Time of the beat, CLOCK_MONOTONIC, ns; the same in both records.
    pub time_ns: u64,
    /// Due time of the beat, ns.
    pub due_ns: u64,
    /// The last silence of all CPUs until then.
    pub silence: Silence,
    /// Settled: time that the hypervisor took from this CPU from the beat before the late one to that after
    /// it, ns. Else 0.
    pub stolen_ns: u64,
    /// Number of the CPU.
    pub cpu: u32,
    /// Number of CPUs with a pulse.
    pub cpus: u32,
    /// 1 if this is the second record of the gap.
    pub is_settled: u64,
}

/// The pulse of one CPU. The agent sets `cpus` and zeroes the rest when it starts one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Pulse {
    /// The last beat, CLOCK_MONOTONIC, ns; 0 before the first.
    pub last_ns: u64,
    /// Time that the hypervisor had taken from this CPU by then, ns.
    pub stolen_ns: u64,
    /// Number of CPUs with a pulse.
    pub cpus: u64,
    /// The late beat that is not settled, if its time is not 0. Its `stolen_ns` is that of the beat before
    /// it.
    pub gap: GapRecord,
}

const _: () = assert!(size_of::<Silence>() == 24 && size_of::<GapRecord>() == 16 + 24 + 8 + 4 + 4 + 8);
const _: () = assert!(size_of::<Pulse>() == 24 + size_of::<GapRecord>());
