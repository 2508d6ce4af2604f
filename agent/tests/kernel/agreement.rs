//! Compares a phase with what its own thread read from the kernel's counters, and keeps a table of all
//! comparisons.
//!
//! Each counter only grows. It was read outside the phase and inside it, on both sides: the phase's share
//! lies between the two differences, whatever else the machine does. The distance from this interval is the
//! disagreement. The table is printed after all tests.

use std::{
    io::Write as _,
    sync::{LazyLock, Mutex, Once},
};

use guestscope::{phase::Phase, platform::Cpuid};
use guestscope_contract::Account;

use crate::{
    book::{Entry, Row},
    machine::{TICK_NS, has_one_cpu, was_disturbed},
};

/// Largest relative disagreement of times: invariant 3.
const SHARE: f64 = 0.01;
/// Our times are taken at the tracepoint, the kernel's from the run queue's clock, which was updated earlier
/// in the same switch. This shifts both ends of an interval, so little remains: measured below 0.1 us per
/// switch.
const SWITCH_NS: u64 = 300;
/// For us a wait ends when the wakeup begins, for the kernel when the thread is enqueued. We count the time
/// between them separately (19 us if it takes an interrupt to a halted virtual CPU, below 1 us on the same
/// CPU), and it is added here. What remains is that we read both clocks of an interval a little later, the
/// first at the enqueueing and the last at the switch: measured 0.7 us per wakeup.
const ENQUEUE_NS: u64 = 1_000;
/// The same on a CPU that was idle for long and has cold caches: measured 4 to 13 us. Rare wakeups only.
const COLD_ENQUEUE_NS: u64 = 10_000;
/// Most wakeups that count as rare.
const COLD_WAKEUPS: u64 = 500;
/// Smaller differences of times mean nothing: the hypervisor may take a virtual CPU away for this long.
const LEAST_NS: u64 = 100_000;
/// Smaller times are not compared as shares.
const LEAST_SHARED_NS: u64 = 1_000_000;

/// The same for a thread that moves another one to its CPU: negligible on a physical CPU, and 11.1 us on an
/// emulated one, which executes an instruction in 2 ns of its own time (`cargo xtask vm`), measured over 500
/// moves on 6.12. Everything else agrees there as well as on physical CPUs, or better.
const EMULATED_MOVE_NS: u64 = 15_000;
/// Two emulated CPUs take turns of some 1.2 ms, also between the reading of the kernel's clock at the start
/// of a switch and its tracepoint: 4.0 us per wait for a page of a file on 6.12, and 13.3 us beside another
/// guest. With one CPU, which takes no turns, 3.9 us on 5.10 are within the other tolerances.
const EMULATED_WAIT_NS: u64 = 15_000;
/// For the kernel a preempted thread waits from the moment when the other one was enqueued, for us from the
/// switch: between them the clock of the run queue stands still. This makes the kernel's `cpu` less and its
/// `runq` more: by 1.9 to 7.2 us each on an emulated CPU under 5.10, by 5.7 to 9.8 us on a CPU that its
/// hypervisor shares (6.18), and once by some 20 us beside an emulated guest; on an unshared CPU it is within
/// [`SWITCH_NS`].
const SHARED_PREEMPTION_NS: u64 = 30_000;

/// perf's task clock starts after the switch and the programs at its tracepoint, ours before them. Measured
/// 3.3 to 4.4 us per stay on a machine with seven times as much load as CPUs, and up to 10 us if the thread
/// had slept for milliseconds.
const TASK_CLOCK_NS: u64 = 6_000;
/// perf's task clock ends after the programs at the tracepoint of the switch that ends a stay, ours before
/// them. Where a program does more for a thread that leaves than for one that comes, perf's stay is the
/// longer one: measured up to 1.0 us per stay for waits at a socket or a pipe, on two machines.
const TASK_CLOCK_LEAVING_NS: u64 = 1_500;
/// Tolerance of the task clock for rare wakeups, whose caches are cold.
const COLD_TASK_CLOCK_NS: u64 = 10_000;
/// The two kernel clocks are compared by the least difference over this many switches: a larger number would
/// add tolerance.
const TASK_CLOCK_SWITCHES: u64 = 100;

/// Whether this is a guest whose CPUs take turns: between two clock readings the other CPU may have its turn.
pub(crate) fn is_emulated() -> bool {
    *IS_EMULATED
}

static IS_EMULATED: LazyLock<bool> = LazyLock::new(|| {
    let vendors = Cpuid::here().unwrap_or_default().vendors;
    vendors.iter().any(|vendor| vendor == "TCGTCGTCGTCG") || is_of_nobody()
});

/// Whether the processor is an arm64 one without a vendor (implementer 0, reserved for software): the
/// emulator's.
fn is_of_nobody() -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let makers = text.lines().filter_map(|line| line.strip_prefix("CPU implementer"));
    makers.filter_map(|rest| rest.split(':').nth(1)).any(|maker| maker.trim() == "0x00")
}

/// One comparison.
struct Line {
    case: String,
    what: String,
    ours: u64,
    bounds: (u64, u64),
    /// Tolerance below and above the bounds.
    allowed: (u64, u64),
    is_time: bool,
    /// Whether a disagreement makes the case run again.
    is_patient: bool,
}

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());

/// Distance of a value from an interval; positive above it.
fn outside(value: u64, (low, high): (u64, u64)) -> i64 {
    if value < low { -(low.abs_diff(value) as i64) } else { value.saturating_sub(high) as i64 }
}

impl Line {
    fn agrees(&self) -> bool {
        let outside = outside(self.ours, self.bounds);
        outside.unsigned_abs() <= if outside < 0 { self.allowed.0 } else { self.allowed.1 }
    }

    fn text(&self) -> String {
        let Self { case, what, ours, bounds: (low, high), allowed, is_time, is_patient: _ } = self;
        let outside = outside(*ours, self.bounds);
        if !*is_time {
            let high = if *high == u64::MAX { String::new() } else { high.to_string() };
            return format!("{case:<12} {what:<12} {ours:>11}    {low:>11} ..{high:>11}    {outside:>10}");
        }
        let share = match *high {
            LEAST_SHARED_NS.. => format!("{:>8.3} %", outside as f64 / *high as f64 * 100.0),
            _ => format!("{:>10}", "-"),
        };
        let (ms, us) = (|ns: u64| ns as f64 / 1e6, |ns: u64| ns as f64 / 1e3);
        format!(
            "{case:<12} {what:<12} {:>11.3} ms {:>11.3} ..{:>11.3} ms {:>10.1} us {share}  -{:.0} +{:.0} us",
            ms(*ours),
            ms(*low),
            ms(*high),
            outside as f64 / 1e3,
            us(allowed.0),
            us(allowed.1),
        )
    }
}

/// Prints the table; written past libtest's capture.
extern "C" fn print_table() {
    let Ok(lines) = LINES.lock() else { return };
    let mut out = std::io::stdout().lock();
    let _ = writeln!(
        out,
        "\n{:<12} {:<12} {:>14} {:>28} {:>13} {:>10}  allowed",
        "case", "what", "guestscope", "kernel's books", "outside", "share"
    );
    for line in lines.iter() {
        let _ = writeln!(out, "{}", line.text());
    }
}

fn record(line: Line) {
    static PRINTER: Once = Once::new();
    PRINTER.call_once(|| {
        // SAFETY: the function takes nothing, returns nothing and does not unwind.
        unsafe { libc::atexit(print_table) };
    });
    let (text, agrees, is_patient) = (line.text(), line.agrees(), line.is_patient);
    LINES.lock().expect("nobody panics with the table").push(line);
    if !agrees && is_patient {
        disagree(text);
    }
    assert!(agrees, "{text}");
}

/// Panics with a disagreement, without the panic hook's message: the next attempt may agree.
pub(crate) fn disagree(text: String) -> ! {
    std::panic::resume_unwind(Box::new(Disagreement(text)));
}

/// Payload of that panic: a time that disagrees, or a count that is checked again. A hypervisor that takes
/// the CPU away between two clock readings causes the same (the kernel counts stolen time in ticks of 10 ms),
/// but not every time.
struct Disagreement(String);

/// Attempts for each regular one, if other load disturbed those that disagreed.
const PATIENCE: u32 = 3;

/// Asserts what holds unless other load disturbed it: on an idle machine it fails at once.
pub(crate) fn holds(what: bool, text: impl FnOnce() -> String) {
    if !what && was_disturbed() {
        disagree(text());
    }
    assert!(what, "{}", text());
}

/// Runs a case again if a time disagreed, up to three times, not counting attempts during which other load
/// used the CPUs (by the kernel's own counters), of which there are at most twice as many. A wrong ledger is
/// wrong every time; other failures fail at once.
pub(crate) fn up_to_three_times(case: impl Fn()) {
    up_to(3, case);
}

/// Runs a case again if a time disagreed, up to this many times.
pub(crate) fn up_to(attempts: u32, case: impl Fn()) {
    up_to_or(attempts, case, |last| panic!("{attempts} times and more: {last}"));
}

/// The same; `otherwise` gets the last disagreement instead of a panic.
pub(crate) fn up_to_or(attempts: u32, case: impl Fn(), otherwise: impl FnOnce(&str)) {
    let mut left = attempts;
    for attempt in 1..=attempts * PATIENCE {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&case));
        let Err(thrown) = outcome else { return };
        match thrown.downcast::<Disagreement>() {
            Ok(disagreement) => {
                let disturbed = was_disturbed();
                left -= u32::from(!disturbed);
                if left == 0 || attempt == attempts * PATIENCE {
                    return otherwise(&disagreement.0);
                }
                let word = if disturbed { "disturbed" } else { "again" };
                let _ = writeln!(std::io::stdout(), "{word}: {}", disagreement.0);
            }
            Err(other) => std::panic::resume_unwind(other),
        }
    }
}

/// Compares a number of events, which must lie within the bounds.
pub(crate) fn count(case: &str, what: &str, ours: u64, bounds: (u64, u64)) {
    count_within(case, what, ours, bounds, 0);
}

/// Compares a number of events, with a tolerance whose reason the caller states.
pub(crate) fn count_within(case: &str, what: &str, ours: u64, bounds: (u64, u64), allowed: u64) {
    let (case, what) = (case.to_owned(), what.to_owned());
    let allowed = (allowed, allowed);
    record(Line { case, what, ours, bounds, allowed, is_time: false, is_patient: false });
}

/// Compares a number of events of which some may occasionally reach no BPF program, as some kernels hide
/// events in some tasks (KERNELS.md), or belong to something else, as a read of the program's own pages that
/// the machine has evicted: a wrong count is wrong every time.
pub(crate) fn count_again(case: &str, what: &str, ours: u64, bounds: (u64, u64)) {
    count_again_within(case, what, ours, bounds, 0);
}

/// The same, with a tolerance whose reason the caller states.
pub(crate) fn count_again_within(case: &str, what: &str, ours: u64, bounds: (u64, u64), allowed: u64) {
    let (case, what) = (case.to_owned(), what.to_owned());
    let allowed = (allowed, allowed);
    record(Line { case, what, ours, bounds, allowed, is_time: false, is_patient: true });
}

/// Compares a time, with a tolerance of 1 %, or an absolute one whose reason the caller states.
pub(crate) fn time(case: &str, what: &str, ours: u64, bounds: (u64, u64), slack_ns: u64) {
    time_within(case, what, ours, bounds, slack_ns, (0, 0));
}

/// Compares a time with further tolerances below and above, whose reasons the caller states.
fn time_within(case: &str, what: &str, ours: u64, bounds: (u64, u64), slack_ns: u64, more: (u64, u64)) {
    let allowed = ((bounds.1 as f64 * SHARE) as u64).max(slack_ns).max(LEAST_NS);
    let (case, what) = (case.to_owned(), what.to_owned());
    let allowed = (allowed + more.0, allowed + more.1);
    record(Line { case, what, ours, bounds, allowed, is_time: true, is_patient: true });
}

/// Whether thread numbers in /proc are those of the initial PID namespace, which BPF programs use.
pub(crate) fn in_initial_namespace() -> bool {
    // PROC_PID_INIT_INO, the same on every kernel.
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

/// Time off the CPU without waiting for a CPU.
pub(crate) fn waited_ns(phase: &Phase) -> u64 {
    let [cpu, runq, throttled] =
        [Account::Cpu, Account::Runq, Account::Throttled].map(|account| phase.accounts.get(account));
    phase.accounts.total_ns() - cpu - runq - throttled
}

/// Asserts that the phase lies inside the thread's outer measurement, and around its inner one.
pub(crate) fn check_interval(phase: &Phase, row: &Row) {
    let [before, begun, ending, after] = row.readings.map(|reading| reading[Entry::Monotonic as usize]);
    let end_ns = phase.start_ns + phase.duration_ns;
    assert!(before <= phase.start_ns && phase.start_ns <= begun, "{before} <= {} <= {begun}", phase.start_ns);
    assert!(ending <= end_ns && end_ns <= after, "{ending} <= {end_ns} <= {after}");
}

/// Compares everything that both sides know of a phase that ran on one thread from start to end. `signals` is
/// the number of signals that may have arrived while the thread was about to sleep: the kernel then counts a
/// voluntary switch, and tells the tracepoint that the thread was runnable.
pub(crate) fn compare(case: &str, phase: &Phase, row: &Row, signals: u64) {
    count(case, "fault.minor", phase.counts.fault_minor, row.bounds(Entry::MinorFaults));
    count(case, "fault.major", phase.counts.fault_major, row.bounds(Entry::MajorFaults));
    compare_switches(case, phase, row, signals);
}

/// Compares the values of such a phase that are known without BTF.
pub(crate) fn compare_switches(case: &str, phase: &Phase, row: &Row, signals: u64) {
    check_interval(phase, row);
    assert_eq!(phase.suspended_ns, 0, "{phase:?}");
    assert!(!in_initial_namespace() || u64::from(phase.thread.tid) == row.tid, "{phase:?}");
    let counts = &phase.counts;
    let (voluntary, involuntary) = (row.bounds(Entry::Voluntary), row.bounds(Entry::Involuntary));
    count_within(case, "voluntary", counts.switch_voluntary, voluntary, signals);
    count_within(case, "involuntary", counts.switch_involuntary, involuntary, signals);
    let switches = counts.switch_voluntary + counts.switch_involuntary;
    count(case, "switches", switches, (voluntary.0 + involuntary.0, voluntary.1 + involuntary.1));
    let moves = counts.migrate_smt + counts.migrate_llc + counts.migrate_node + counts.migrate_remote;
    let is_shared = *IS_EMULATED || row.bounds(Entry::Steal).1 > 0;
    let preempted_ns = if is_shared { counts.switch_involuntary * SHARED_PREEMPTION_NS } else { 0 };
    let moved_ns = if *IS_EMULATED { moves * EMULATED_MOVE_NS } else { 0 };
    let takes_turns = *IS_EMULATED && !has_one_cpu();
    let turns_ns = if takes_turns { counts.switch_voluntary * EMULATED_WAIT_NS } else { 0 };
    compare_times(case, phase, row, switches * SWITCH_NS + preempted_ns + moved_ns + turns_ns);
}

/// The four times that both sides know; `slack_ns` is the tolerance for the clocks of all its switches.
fn compare_times(case: &str, phase: &Phase, row: &Row, slack_ns: u64) {
    let (cpu, delay) = (row.bounds(Entry::Cpu), row.bounds(Entry::RunDelay));
    let wall = row.bounds(Entry::Monotonic);
    let cpu_ns = phase.accounts.get(Account::Cpu);
    let stale_ns = compare_with_task_clock(case, phase, row);
    let delay_ns = phase.counts.wakeup_delay_ns;
    let runq_ns = phase.accounts.get(Account::Runq) + phase.accounts.get(Account::Throttled) - delay_ns;
    // The kernel's CPU time excludes stolen time, ours includes it. Less than a tick of it is not visible: up
    // to 0.8 % of the time was missing in the kernel's sums of a thread that never waited.
    let unseen_ns = (wall.1 as f64 * SHARE) as u64;
    let stolen_ns = match row.bounds(Entry::Steal).1 {
        0 => unseen_ns,
        stolen_ns => stolen_ns + TICK_NS,
    };
    let enqueued_ns =
        phase.counts.wakeup * ENQUEUE_NS + phase.counts.wakeup.min(COLD_WAKEUPS) * COLD_ENQUEUE_NS;
    // If a woken thread preempts (also on an idle CPU), the kernel counts it as on the CPU from when it was
    // enqueued, since the switch reuses that clock. For us it waits until it is there. This needs a wakeup;
    // with one, the sum of both must agree.
    let (early_ns, late_ns) = match phase.counts.wakeup {
        0 => (0, 0),
        _ => (runq_ns + enqueued_ns, cpu.1.saturating_sub(cpu_ns) + enqueued_ns + stolen_ns),
    };
    // A phase of milliseconds may lose a fifth of them without a tick: what we saw stolen may be missing
    // there, and the next comparison checks whether that is right.
    let missing_ns = stolen_ns.max(phase.counts.steal_ns + unseen_ns);
    time_within(case, "cpu", cpu_ns, cpu, slack_ns, (early_ns, missing_ns + stale_ns));
    let own_ns = cpu_ns - phase.counts.steal_ns;
    time_within(case, "cpu - steal", own_ns, cpu, slack_ns, (early_ns + stolen_ns, stolen_ns + stale_ns));
    // A wakeup of a thread on another CPU ends at a tracepoint after the enqueueing: for us, time stolen
    // between the two is part of the wakeup, for the kernel of the run queue.
    let least_ns = enqueued_ns + stolen_ns.min(delay_ns);
    time_within(case, "runq", runq_ns, delay, slack_ns, (least_ns + stale_ns, late_ns));
    let both = (cpu.0 + delay.0, cpu.1 + delay.1);
    time_within(case, "cpu + runq", cpu_ns + runq_ns, both, slack_ns, (least_ns, enqueued_ns + missing_ns));
    let waited = (wall.0.saturating_sub(both.1), wall.1.saturating_sub(both.0));
    time_within(
        case,
        "waited",
        waited_ns(phase) + delay_ns,
        waited,
        slack_ns,
        (enqueued_ns + stolen_ns, least_ns),
    );
}

/// Compares time on CPUs with a kernel clock that is independent of run queue clocks, so nothing of it is
/// stolen or stale. A run queue's clock stands still from the wakeup of the thread's successor until the
/// switch, which may be milliseconds later in kernel code (where nothing is preempted): by `sum_exec_runtime`
/// the thread waited meanwhile, but it ran. Returns the difference of the two kernel clocks for this phase. A
/// wrong ledger does not pass by this: it is compared with perf's clock here.
fn compare_with_task_clock(case: &str, phase: &Phase, row: &Row) -> u64 {
    let (clock, cpu) = (row.bounds(Entry::TaskClock), row.bounds(Entry::Cpu));
    if clock.1 == 0 {
        return 0;
    }
    let switches = phase.counts.switch_voluntary + phase.counts.switch_involuntary;
    let emulated_ns = if *IS_EMULATED { switches * EMULATED_WAIT_NS } else { 0 };
    let cold_ns = phase.counts.wakeup.min(COLD_WAKEUPS) * COLD_TASK_CLOCK_NS;
    let more_ns = (switches * TASK_CLOCK_LEAVING_NS, switches * TASK_CLOCK_NS + cold_ns);
    let cpu_ns = phase.accounts.get(Account::Cpu);
    time_within(case, "cpu by perf", cpu_ns, clock, switches * SWITCH_NS + emulated_ns, more_ns);
    (clock.1 + switches.min(TASK_CLOCK_SWITCHES) * TASK_CLOCK_NS).saturating_sub(cpu.1)
}
