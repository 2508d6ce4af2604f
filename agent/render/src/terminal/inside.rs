//! What the time on CPUs consists of, by samples: a line of the summary.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write as _};

use guestscope_contract::{Account, SAMPLES_PER_S};

use crate::{
    analyze::{Cause, Group, MostCalled},
    phase::Metric,
};

use super::{
    explain::syscalls,
    facts::RunFacts,
    findings::count_of,
    health_lines::INDENT,
    page::{Emphasis, Page, Piece, words as words_of},
    units::{percent, thousands},
};

/// What the kernel does for a program.
const CALLS: &str = "system calls";
/// What libraries do while they wait.
const SPINS: &str = "busy-waiting in a runtime library";
/// Part of the samples of busy-waiting from which on a library is named.
const NAMED: f64 = 0.1;

/// Line of the threads' CPU time by samples; none with too few samples, unless more were due.
pub(super) fn cpu(page: &mut Page, group: &Group, is_sampled: bool, facts: &RunFacts) {
    /// With this many samples a share is known within 14 points.
    const ENOUGH_SAMPLES: u128 = 50;
    let parts = [
        ("own code", Metric::SampleUser),
        (SPINS, Metric::SampleSpin),
        ("page faults", Metric::SampleFault),
        (CALLS, Metric::SampleSyscall),
        ("softirqs", Metric::SampleIrq),
    ];
    let parts = parts.map(|(words, name)| (words, count_of(group, name)));
    let all: u128 = parts.iter().map(|part| part.1).sum();
    let due = if is_sampled { due(group) } else { 0 };
    // Further than chance goes: a clock stood still, or a thread had none (KERNELS.md).
    let some_are_missing = all * 5 < due * 4 && due - all > 2 * due.isqrt();
    if all < ENOUGH_SAMPLES {
        if some_are_missing && due >= ENOUGH_SAMPLES {
            let words =
                format!("not known ({} samples; {} were due)", thousands(all as u64), thousands(due as u64));
            page.wrapped(
                &[Piece::new("inside cpu", Emphasis::Faint)],
                INDENT,
                words_of(&words, Emphasis::None),
            );
        }
        return;
    }
    // Most programs have no such library.
    let parts = parts.into_iter().filter(|&(_, count)| count > 0);
    let share = |count: u128| percent(count as f64 / all as f64);
    let most = u64::try_from(count_of(group, Metric::SampleSyscall))
        .ok()
        .and_then(|calls| facts.called.most_of(calls));
    let of_it = most.map_or_else(String::new, |MostCalled { syscall, at_least, .. }| {
        format!(" ({} at least {})", syscalls::name_or_number(syscall), share(at_least.into()))
    });
    let text = |(words, count): (&str, u128)| {
        let of_it = match words {
            CALLS => of_it.clone(),
            SPINS => libraries(&facts.spun),
            _ => String::new(),
        };
        format!("{words} {}{of_it}", share(count))
    };
    let texts: Vec<_> = parts.map(text).collect();
    let outside = if count_of(group, Metric::CpuGpu) > 0 { " outside the GPU's driver" } else { "" };
    let mut words = format!("{} (of {} samples{outside}", texts.join(", "), thousands(all as u64));
    if some_are_missing {
        let _ = write!(words, "; {} were due", thousands(due as u64));
    }
    words.push(')');
    page.wrapped(&[Piece::new("inside cpu", Emphasis::Faint)], INDENT, words_of(&words, Emphasis::None));
}

/// ` (libgomp, libonnxruntime)`: those that busy-waited over the whole run, the most first.
fn libraries(spun: &BTreeMap<String, u64>) -> String {
    let all: u64 = spun.values().sum();
    let mut named: Vec<(&String, u64)> = spun.iter().map(|(name, &samples)| (name, samples)).collect();
    named.retain(|&(_, samples)| samples > 0 && samples as f64 >= all as f64 * NAMED);
    named.sort_by_key(|&(name, samples)| (Reverse(samples), name));
    let names: Vec<&str> = named.into_iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

/// Samples due for the time on CPUs. A clock that could not tick in time ticks once.
fn due(group: &Group) -> u128 {
    // Nothing is sampled inside the driver of a graphics processor.
    let not_run_ns = count_of(group, Metric::Steal) + count_of(group, Metric::CpuGpu) + group.sums.pause;
    let cpu_ns = group.sums.get(Cause::Account(Account::Cpu)).saturating_sub(not_run_ns);
    cpu_ns * u128::from(SAMPLES_PER_S) / 1_000_000_000
}
