//! The slowest requests: their latency, their excess over a typical one, and its parts.
//!
//! Yields lines on a page. Parts that are not shown are summed up as `rest`, so that a line adds up.

use guestscope_contract::{Account, metrics::Metric};

use crate::{
    analyze::{Cause, Group, LikeIt, Overlay, Slow},
    phase::{Blame, waits_for_address_space},
};

use super::{
    findings::{count_of, path_name},
    page::{Emphasis, Page, Piece, words},
    text::{left, right, width},
    units::{counted, difference, duration, hex, mean as mean_count, percent, thousands},
    waits_for,
};

/// Most requests shown; JSON has all that were kept.
const SHOWN: usize = 5;
/// Most parts shown of each.
const PARTS: usize = 3;
/// Least columns for parts; with fewer they go on a line of their own.
const LEAST_ROOM: usize = 28;
/// Digits of a trace ID that identify it among the others, as in Jaeger's list of traces.
const TRACE_DIGITS: usize = 7;

/// The table, and the typical request that the excess refers to.
pub(super) fn slowest(page: &mut Page, group: &Group) {
    let rows: Vec<[String; 4]> = group.slowest.iter().take(SHOWN).map(cells).collect();
    let head = ["slowest", "total", "over typical", "trace"].map(str::to_owned);
    let column = |index: usize| rows.iter().chain([&head]).map(|row| width(&row[index])).max().unwrap_or(0);
    let widths = [column(0), column(1), column(2), column(3)];
    let line = |row: &[String; 4]| {
        let [name, total, excess, trace] = row;
        let (name, total) = (left(name, widths[0]), right(total, widths[1]));
        format!("{name}  {total}  {}  {}", right(excess, widths[2]), left(trace, widths[3]))
    };
    let indent = widths.iter().sum::<usize>() + 8;
    page.line(&[Piece::new(format!("{}  of which", line(&head)), Emphasis::Faint)]);
    for (row, slow) in rows.iter().zip(&group.slowest) {
        let (line, parts) = (Piece::from(line(row)), parts(page, slow));
        if page.style().width < indent + LEAST_ROOM {
            page.line(&[line]);
            page.wrapped(&[], 6, parts);
        } else {
            page.wrapped(&[line], indent, parts);
        }
        if let Some(text) = faults(slow, group) {
            page.wrapped(&[], 6, words(&text, Emphasis::Faint));
        }
        if let Some(text) = longest_wait(slow) {
            page.wrapped(&[], 6, words(&page.name(&text, 200), Emphasis::Faint));
        }
    }
    let (typical, of) = (duration(group.typical_ns), thousands(group.typical_of));
    let words = format!(
        "typical is {typical}: the mean of the middle half of the requests (p25 to p75, {of} of them)"
    );
    page.sentence(&words, Emphasis::Faint);
}

fn cells(slow: &Slow) -> [String; 4] {
    let mut trace = hex(&slow.trace_id);
    trace.truncate(TRACE_DIGITS);
    [format!("  #{}", slow.request), duration(slow.latency_ns), difference(slow.excess_ns), trace]
}

/// The parts that matter; consecutive parts of a phase name it once.
fn parts(page: &Page, slow: &Slow) -> Vec<Piece> {
    let mut parts: Vec<_> = slow.parts.iter().collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.excess_ns.unsigned_abs()));
    parts.truncate(PARTS);
    parts.retain(|part| part.excess_ns.unsigned_abs() > slow.excess_ns.unsigned_abs() / 20);
    if parts.is_empty() {
        return vec![Piece::from("nothing that stands out")];
    }
    let mut words = Vec::new();
    let mut rest = i128::from(slow.excess_ns);
    let mut previous = None;
    for (index, part) in parts.iter().enumerate() {
        rest -= i128::from(part.excess_ns);
        // A queue is its own account: its name would stand twice.
        let is_named = part.cause == Cause::Queue || previous == Some(&part.path);
        if !is_named {
            words.push(Piece::from(format!(
                "{}:",
                page.fit(&path_name(&part.path, page.style().unicode), 32)
            )));
        }
        previous = Some(&part.path);
        let has_rest = is_visible(rest, slow);
        let comma = if index + 1 < parts.len() || has_rest { "," } else { "" };
        words.push(Piece::from(format!("{} {}{comma}", part.cause.name(), difference(part.excess_ns))));
    }
    if is_visible(rest, slow) {
        words.push(Piece::from(format!("rest {}", difference(rest as i64))));
    }
    words
}

/// Whether a rest changes a digit of the sum.
const fn is_visible(rest: i128, slow: &Slow) -> bool {
    rest.unsigned_abs() * 1_000 >= slow.excess_ns.unsigned_abs() as u128 && rest != 0
}

/// Number of page faults, if they are the largest part of the excess: it is counted, not sampled.
fn faults(slow: &Slow, group: &Group) -> Option<String> {
    let largest = slow.parts.iter().max_by_key(|part| part.excess_ns)?;
    let (all, requests) = (count_of(group, Metric::FaultMinor), group.latency.count);
    // As many as usual explain nothing: then each of them took longer.
    let is_more = u128::from(slow.fault_minor) * u128::from(requests) * 2 >= all * 3;
    (is_more && largest.cause == Cause::Overlay(Overlay::Fault)).then(|| {
        let mean = mean_count(all, requests);
        format!("minor faults: {}; {mean} in the mean", thousands(slow.fault_minor))
    })
}

/// The longest wait and the thread that had the CPU last, if the wait is a tenth of the excess or more.
fn longest_wait(slow: &Slow) -> Option<String> {
    let wait = slow.longest_wait.as_ref()?;
    let excess_ns = u64::try_from(slow.excess_ns).ok()?;
    let LikeIt { count, ns: sum_ns } = slow.waits_like_it;
    if wait.duration_ns.max(sum_ns) < excess_ns / 10 {
        return None;
    }
    let (account, ns) = wait.mainly();
    let who = match (account, wait.ran_before_tid, wait.waker_tid) {
        (Account::Runq, ..) if let Some(user) = wait.users.listed.first() => {
            let own = if user.pid == wait.thread.tgid { "its own thread " } else { "" };
            format!(", behind {own}{} (pid {}) for {} of it", user.comm, user.pid, duration(user.ns))
        }
        (Account::Runq, 1.., _) => {
            format!(
                " on CPU {}, which {} (pid {}) had last",
                wait.cpu, wait.ran_before_comm, wait.ran_before_tgid
            )
        }
        (Account::Throttled, ..) if let Some(group) = &wait.cgroup => format!(", group {group}"),
        (Account::Runq | Account::Throttled, ..) => format!(" on CPU {}", wait.cpu),
        (blocked, ..) if let Some(worker) = slow.given_to.filter(|_| blocked == wait.account) => {
            given(worker, wait.blame)
        }
        (blocked, ..) if let Some(blame) = wait.blame.filter(|_| blocked == wait.account) => blamed(blame),
        (blocked, ..) if let Some(io) = wait.io.as_ref().filter(|_| blocked == wait.account) => {
            format!(", {}", waits_for::io(io))
        }
        (blocked, ..) if let Some(by) = wait.stopped_by.filter(|_| blocked == wait.account) => {
            let thread = wait.waker_tid.map(|tid| format!("thread {tid}"));
            format!(", {}", waits_for::stopped(by, thread))
        }
        (.., Some(waker)) => {
            let what = if waits_for_address_space(wait) {
                "for the lock of its address space, held by"
            } else {
                "ended by"
            };
            let name = wait.waker_comm.as_ref().map(|comm| format!(" ({comm})")).unwrap_or_default();
            format!(", {what} thread {waker}{name}")
        }
        _ if wait.timed_out() => ", ended by its own time limit".to_owned(),
        _ => String::new(),
    };
    let of = match count {
        2.. if sum_ns >= ns.saturating_mul(2) => {
            format!(" (of {} in {} waits)", duration(sum_ns), thousands(count))
        }
        _ => String::new(),
    };
    Some(format!("longest wait: {} {}{of}{who}", account.name(), duration(ns)))
}

/// `, for thread 4711, which had the work`, with what delayed it.
fn given(worker: u32, blame: Option<Blame>) -> String {
    let worker_did = match blame {
        Some(Blame { tid, account, stopped_by, ns, .. }) if tid == worker => {
            format!(" and {} for {} of it", waits_for::kept(account, stopped_by), duration(ns))
        }
        Some(Blame { tid, account, stopped_by, ns, .. }) => {
            let did = waits_for::kept(account, stopped_by);
            format!(" and waited for thread {tid}, which {did} for {} of it", duration(ns))
        }
        None => String::new(),
    };
    format!(", for thread {worker}, which had the work{worker_did}")
}

/// `, for thread 4711, which was throttled for 6.00 ms of it`.
fn blamed(blame: Blame) -> String {
    let Blame { tid, account, stopped_by, ns, depth } = blame;
    let did = waits_for::kept(account, stopped_by);
    let far = if depth > 1 { format!(" {depth} wake-ups away") } else { String::new() };
    format!(", for thread {tid}{far}, which {did} for {} of it", duration(ns))
}

/// Notes on what the table and the shares cannot show.
pub(super) fn notes(page: &mut Page, group: &Group) {
    let share = |part: u64| percent(part as f64 / group.latency.count.max(1) as f64);
    if group.overlapping > 0 {
        let (requests, share) = (counted(group.overlapping, "request", "requests"), share(group.overlapping));
        let words = format!("in {requests} ({share}) phases overlapped in time: shares can exceed 100 %");
        page.sentence(&words, Emphasis::Faint);
    }
    if group.lossy > 0 {
        let (requests, share) = (counted(group.lossy, "request", "requests"), share(group.lossy));
        let words = format!("in {requests} ({share}) edges were lost: phases may be missing there");
        page.sentence(&words, Emphasis::Warning);
    }
}
