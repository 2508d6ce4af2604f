//! One line for people: where the time of a phase went, such as `cpu 55.6 ms, throttled 35.1 ms, runq 0.9
//! ms`.
//!
//! The biggest part comes first, parts below 1 % of the phase are summed up as `rest`. For reading only:
//! calculations take the `guestscope.time.*` attributes.

use std::fmt::Write;

use guestscope_contract::Account;

use crate::{analyze::Cause, phase::Phase};

/// The line, or nothing where no time was charged.
pub(super) fn line(phase: &Phase) -> Option<String> {
    let mut parts: Vec<(&str, u64)> =
        phase.accounts.iter().map(|(account, ns)| (account.name(), ns)).filter(|&(_, ns)| ns > 0).collect();
    if phase.suspended_ns > 0 {
        parts.push((Cause::off_thread(phase.source).name(), phase.suspended_ns));
    }
    // A stable sort: equal parts stay in the order of the accounts.
    parts.sort_by_key(|&(_, ns)| std::cmp::Reverse(ns));
    let threshold = parts.iter().map(|&(_, ns)| ns).sum::<u64>() / 100;
    let shown = parts.iter().take_while(|&&(_, ns)| ns >= threshold).count();
    let rest: u64 = parts[shown..].iter().map(|&(_, ns)| ns).sum();
    parts.truncate(shown);
    if rest > 0 {
        parts.push(("rest", rest));
    }
    let mut line = String::with_capacity(parts.len() * 20);
    for (name, ns) in parts {
        if !line.is_empty() {
            line.push_str(", ");
        }
        line.push_str(name);
        line.push(' ');
        write_duration(&mut line, ns);
        if name == Account::Poll.name() && phase.counts.poll_net_ns > 0 {
            line.push_str(" (net ~");
            write_duration(&mut line, phase.counts.poll_net_ns);
            line.push(')');
        }
    }
    (!line.is_empty()).then_some(line)
}

/// Three to five characters and a unit. Milliseconds begin at 0.1 ms, since most phases are read in them.
fn write_duration(line: &mut String, ns: u64) {
    let written = match ns {
        0..1_000 => write!(line, "{ns} ns"),
        1_000..100_000 => write!(line, "{:.1} us", ns as f64 / 1e3),
        100_000..1_000_000_000 => write!(line, "{:.1} ms", ns as f64 / 1e6),
        _ => write!(line, "{:.2} s", ns as f64 / 1e9),
    };
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}
