//! Compares a phase with what its own thread read in the kernel's books, and keeps a table of all that was
//! compared.
//!
//! An entry that only grows was read outside the phase and inside it, on both sides: the phase's share lies
//! between the two differences, whatever else the machine does. What lies outside of them is the
//! disagreement. The table is printed when the tests are over.

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

/// Relative disagreement that is allowed for times: invariant 3.
const SHARE: f64 = 0.01;
/// Ours is taken at the tracepoint, theirs from the run queue's clock, which was updated earlier in the same
/// switch. Both ends of an interval are, so that little is left: measured below 0.1 us per switch.
const SWITCH_NS: u64 = 300;
/// A wait ends for us when the waking begins, for them when the thread is enqueued. What lies between is in
/// our books too (19 us where it takes an interrupt to a halted virtual CPU, below 1 us on the same CPU) and
/// is moved here. What is left is that both clocks of an interval are read a little later by us, the first
/// one at the enqueueing and the last one at the switch: measured 0.7 us per wake-up.
const ENQUEUE_NS: u64 = 1_000;
/// The same on a CPU that was idle for long, whose caches are cold: measured 4 to 13 us. Rare wake-ups only.
const COLD_ENQUEUE_NS: u64 = 10_000;
/// Most wake-ups that count as rare.
const COLD_WAKEUPS: u64 = 500;
/// Below this, a difference of times says nothing: one stay of a virtual CPU outside its guest.
const LEAST_NS: u64 = 100_000;
/// A share of less than this says nothing.
const LEAST_SHARED_NS: u64 = 1_000_000;

/// The same for a thread that moves another one to its CPU: negligible on a real CPU, and on an emulated one,
/// which executes an instruction in 2 ns of its own time (`cargo xtask vm`), 11.1 us, measured over 500 moves
/// on 6.12. Everything else agrees there as it does on real ones, or better.
const EMULATED_MOVE_NS: u64 = 15_000;
/// Two emulated CPUs take turns of some 1.2 ms, also between the clock that the kernel reads at the start of
/// a switch and its tracepoint: 4.0 us per wait for a page of a file on 6.12, and 13.3 us beside another
/// guest. On one CPU, where nobody has another turn, 3.9 us on 5.10 are within the rest.
const EMULATED_WAIT_NS: u64 = 15_000;
/// A thread that another one preempts waits for the kernel's books from the moment when that one was
/// enqueued, for us from the switch: between them the clock of the run queue stands still. 1.9 to 7.2 us
/// each, measured on an emulated CPU under 5.10, by which their `cpu` was less and their `runq` more, and on
/// a CPU that its hypervisor lends to others too (6.18) 5.7 to 9.8 us, and once some 20 us beside an emulated
/// guest; on one of its own it is within [`SWITCH_NS`].
const SHARED_PREEMPTION_NS: u64 = 30_000;

/// perf's task clock begins behind the switch and the programs at its tracepoint, where ours begins before
/// them; both end between them. Measured 3.3 to 4.4 us per stay, on a machine with seven times as much to do
/// as it has CPUs, and up to 10 us where the thread had slept for milliseconds.
const TASK_CLOCK_NS: u64 = 6_000;
/// The same of rare wake-ups.
const COLD_TASK_CLOCK_NS: u64 = 10_000;
/// The least that it is behind in so many switches is what both books of the kernel are compared by: more
/// would be a slack.
const TASK_CLOCK_SWITCHES: u64 = 100;

/// Whether this is a guest whose CPUs take turns: what lies between two readings of clocks may be the other
/// one's turn.
pub(crate) fn is_emulated() -> bool {
    *IS_EMULATED
}

static IS_EMULATED: LazyLock<bool> = LazyLock::new(|| {
    let vendors = Cpuid::here().unwrap_or_default().vendors;
    vendors.iter().any(|vendor| vendor == "TCGTCGTCGTCG") || is_of_nobody()
});

/// A processor for arm64 whose maker is 0, which Arm leaves to software: the emulator's.
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
    /// How far below and above the bounds it may lie.
    allowed: (u64, u64),
    is_time: bool,
    /// Looked at again where it disagrees.
    is_patient: bool,
}

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());

/// Distance of a value to an interval; positive above it.
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

/// Prints the table, past libtest's capture.
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

/// Throws a disagreement, without a word of the panic hook: it may be all right the next time.
pub(crate) fn disagree(text: String) -> ! {
    std::panic::resume_unwind(Box::new(Disagreement(text)));
}

/// A time that disagrees, or a count that is looked at again, thrown. A hypervisor that takes the CPU away
/// between two readings of two clocks does the same (the kernel's own figure of stolen time comes in ticks of
/// 10 ms), but not every time.
struct Disagreement(String);

/// Attempts that are made for each that would be made otherwise, where others disturbed what disagreed.
const PATIENCE: u32 = 3;

/// What holds unless others disturbed it: on a quiet machine it fails at once.
pub(crate) fn holds(what: bool, text: impl FnOnce() -> String) {
    if !what && was_disturbed() {
        disagree(text());
    }
    assert!(what, "{}", text());
}

/// Runs a whole case again if a time disagreed, up to three times in all, not counting those in which others
/// needed the CPUs (by the kernel's own books), of which there are twice as many at most. A ledger that is
/// wrong is so every time; what else fails does so at once.
pub(crate) fn up_to_three_times(case: impl Fn()) {
    up_to(3, case);
}

/// The same, up to so many times.
pub(crate) fn up_to(attempts: u32, case: impl Fn()) {
    up_to_or(attempts, case, |last| panic!("{attempts} times and more: {last}"));
}

/// The same; `otherwise` is told of the last disagreement.
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

/// Compares a number of events: it must lie within the bounds.
pub(crate) fn count(case: &str, what: &str, ours: u64, bounds: (u64, u64)) {
    count_within(case, what, ours, bounds, 0);
}

/// Compares a number of events of which so many may differ, for a reason that the caller states.
pub(crate) fn count_within(case: &str, what: &str, ours: u64, bounds: (u64, u64), allowed: u64) {
    let (case, what) = (case.to_owned(), what.to_owned());
    let allowed = (allowed, allowed);
    record(Line { case, what, ours, bounds, allowed, is_time: false, is_patient: false });
}

/// Compares a number of events of which one may reach no program once in a while, as some kernels hide what
/// happens in some tasks (KERNELS.md): a case that counts wrongly does so every time.
pub(crate) fn count_again(case: &str, what: &str, ours: u64, bounds: (u64, u64)) {
    let (case, what) = (case.to_owned(), what.to_owned());
    record(Line { case, what, ours, bounds, allowed: (0, 0), is_time: false, is_patient: true });
}

/// Compares a time: outside the bounds by 1 % of it, or by a slack that the caller states.
pub(crate) fn time(case: &str, what: &str, ours: u64, bounds: (u64, u64), slack_ns: u64) {
    time_within(case, what, ours, bounds, slack_ns, (0, 0));
}

/// Compares a time that may also lie further below and above, for reasons that the caller states.
fn time_within(case: &str, what: &str, ours: u64, bounds: (u64, u64), slack_ns: u64, more: (u64, u64)) {
    let allowed = ((bounds.1 as f64 * SHARE) as u64).max(slack_ns).max(LEAST_NS);
    let (case, what) = (case.to_owned(), what.to_owned());
    let allowed = (allowed + more.0, allowed + more.1);
    record(Line { case, what, ours, bounds, allowed, is_time: true, is_patient: true });
}

/// Whether thread numbers of /proc are those of the initial namespace, which the programs in the kernel use.
pub(crate) fn in_initial_namespace() -> bool {
    // PROC_PID_INIT_INO, the same on every kernel.
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

/// Time off the CPU that is not waiting for one: what was waited for.
pub(crate) fn waited_ns(phase: &Phase) -> u64 {
    let [cpu, runq, throttled] =
        [Account::Cpu, Account::Runq, Account::Throttled].map(|account| phase.accounts.get(account));
    phase.accounts.total_ns() - cpu - runq - throttled
}

/// The phase lies inside what its thread measured around it, and around what its thread measured inside.
pub(crate) fn check_interval(phase: &Phase, row: &Row) {
    let [before, begun, ending, after] = row.readings.map(|reading| reading[Entry::Monotonic as usize]);
    let end_ns = phase.start_ns + phase.duration_ns;
    assert!(before <= phase.start_ns && phase.start_ns <= begun, "{before} <= {} <= {begun}", phase.start_ns);
    assert!(ending <= end_ns && end_ns <= after, "{ending} <= {end_ns} <= {after}");
}

/// Compares everything that both sides know of a phase which ran on one thread from begin to end. `signals`
/// are those that may have found the thread about to sleep: the kernel counts a voluntary switch then, and
/// tells the tracepoint that the thread could run.
pub(crate) fn compare(case: &str, phase: &Phase, row: &Row, signals: u64) {
    count(case, "fault.minor", phase.counts.fault_minor, row.bounds(Entry::MinorFaults));
    count(case, "fault.major", phase.counts.fault_major, row.bounds(Entry::MajorFaults));
    compare_switches(case, phase, row, signals);
}

/// The same without what only tasks tell.
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

/// The four times that both sides know; `slack_ns` is for the clocks of all its switches.
fn compare_times(case: &str, phase: &Phase, row: &Row, slack_ns: u64) {
    let (cpu, delay) = (row.bounds(Entry::Cpu), row.bounds(Entry::RunDelay));
    let wall = row.bounds(Entry::Monotonic);
    let cpu_ns = phase.accounts.get(Account::Cpu);
    let stale_ns = compare_with_task_clock(case, phase, row);
    let delay_ns = phase.counts.wakeup_delay_ns;
    let runq_ns = phase.accounts.get(Account::Runq) + phase.accounts.get(Account::Throttled) - delay_ns;
    // Their CPU time leaves stolen time out, ours holds it. What is less than a tick does not show: up to 0.8
    // % of the time was seen to be missing from their sums of a thread that never waited.
    let unseen_ns = (wall.1 as f64 * SHARE) as u64;
    let stolen_ns = match row.bounds(Entry::Steal).1 {
        0 => unseen_ns,
        stolen_ns => stolen_ns + TICK_NS,
    };
    let enqueued_ns =
        phase.counts.wakeup * ENQUEUE_NS + phase.counts.wakeup.min(COLD_WAKEUPS) * COLD_ENQUEUE_NS;
    // A thread that is woken and preempts (an idle CPU, too) is on the CPU for the kernel's books from the
    // moment when it was enqueued: the switch reuses that clock. For us it waits until it is there. Nothing
    // of the kind happens where nothing was woken; where it was, the sum of both must agree.
    let (early_ns, late_ns) = match phase.counts.wakeup {
        0 => (0, 0),
        _ => (runq_ns + enqueued_ns, cpu.1.saturating_sub(cpu_ns) + enqueued_ns + stolen_ns),
    };
    // A phase of milliseconds may lose a fifth of them and no tick: what we saw stolen may be missing there,
    // and whether that is right is the next line's to say.
    let missing_ns = stolen_ns.max(phase.counts.steal_ns + unseen_ns);
    time_within(case, "cpu", cpu_ns, cpu, slack_ns, (early_ns, missing_ns + stale_ns));
    let own_ns = cpu_ns - phase.counts.steal_ns;
    time_within(case, "cpu - steal", own_ns, cpu, slack_ns, (early_ns + stolen_ns, stolen_ns + stale_ns));
    // The way of a wake-up to another CPU ends at a tracepoint behind the enqueueing: what is stolen between
    // them is on that way for us, and in the run queue for the kernel's books.
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

/// The time on CPUs by a book of the kernel that no clock of a run queue is in, so that nothing of it is
/// stolen or stale. That clock stands still from the wake-up of the thread's successor until the switch,
/// which in the kernel (where nothing is preempted) may be milliseconds later: by `sum_exec_runtime` the
/// thread has waited since, and it ran. Yields how far the two books of the kernel are apart for this phase.
/// A wrong ledger is not let through by that: it is held against perf's clock here.
fn compare_with_task_clock(case: &str, phase: &Phase, row: &Row) -> u64 {
    let (clock, cpu) = (row.bounds(Entry::TaskClock), row.bounds(Entry::Cpu));
    if clock.1 == 0 {
        return 0;
    }
    let switches = phase.counts.switch_voluntary + phase.counts.switch_involuntary;
    let emulated_ns = if *IS_EMULATED { switches * EMULATED_WAIT_NS } else { 0 };
    let cold_ns = phase.counts.wakeup.min(COLD_WAKEUPS) * COLD_TASK_CLOCK_NS;
    let behind_ns = switches * TASK_CLOCK_NS + cold_ns;
    let cpu_ns = phase.accounts.get(Account::Cpu);
    time_within(case, "cpu by perf", cpu_ns, clock, switches * SWITCH_NS + emulated_ns, (0, behind_ns));
    (clock.1 + switches.min(TASK_CLOCK_SWITCHES) * TASK_CLOCK_NS).saturating_sub(cpu.1)
}
