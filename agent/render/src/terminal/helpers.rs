//! Time of other threads of the process during requests: one line for people, and the same as JSON.
//!
//! Their time is no part of the latencies. The time that they were kept from running is an estimate by long
//! waits alone.

use serde::Serialize;

use crate::{analyze::Group, phase::Quantity};

use super::{
    health_lines::INDENT,
    json_values::{ByName, ns},
    page::{Emphasis, Page, Piece, words},
    tables::listed,
    units::{counted, duration_of_sum, percent},
};

/// Accounts below 1 / `NAMED` of all their time are not named.
const NAMED: u128 = 200;

/// Helpers' time as JSON.
#[derive(Serialize)]
pub(super) struct HelpersJson {
    most_threads: u32,
    helper: ByName,
    helper_wait: ByName,
    sharing_requests: u64,
    partial_requests: u64,
}

/// JSON of one kind of requests.
pub(super) fn json(group: &Group) -> HelpersJson {
    let helped = &group.helped;
    let times = helped.iter().map(|(account, sum)| (Quantity::Helper(account).row().key, ns(sum)));
    let waits = group.sums.helper_waits().enumerate().flat_map(|(kept, (_, on_cpu, waiting))| {
        [
            (Quantity::HelperWaitOnCpu(kept).row().key, ns(on_cpu)),
            (Quantity::HelperWaitWaiting(kept).row().key, ns(waiting)),
        ]
    });
    HelpersJson {
        most_threads: helped.threads,
        helper: times.collect(),
        helper_wait: waits.collect(),
        sharing_requests: helped.shared,
        partial_requests: helped.partial,
    }
}

/// `helpers  1 thread: cpu 49.9 ms, runq 1.2 ms`, and below it how long they were kept from running, with the
/// part while the request used a CPU. No line without helpers.
pub(super) fn line(page: &mut Page, group: &Group) {
    let helped = &group.helped;
    let (count, total) = (u128::from(group.latency.count.max(1)), helped.total_ns());
    if total == 0 && helped.partial == 0 {
        return;
    }
    let mean = |sum: u128| duration_of_sum(sum / count);
    let mut named: Vec<_> = helped.iter().filter(|&(_, sum)| sum * NAMED > total).collect();
    named.sort_by_key(|&(account, sum)| (std::cmp::Reverse(sum), account));
    // Threads are counted at the ends of requests and phases.
    let threads = match helped.threads {
        0 => "threads that came and went".to_owned(),
        threads => counted(u64::from(threads), "thread", "threads"),
    };
    let mut items: Vec<String> =
        named.into_iter().map(|(account, sum)| format!("{} {}", account.name(), mean(sum))).collect();
    match items.first_mut() {
        Some(first) => *first = format!("{threads}, mean {}: {first}", mean(total)),
        None => items.push(threads),
    }
    page.wrapped(&[Piece::new("helpers", Emphasis::Faint)], INDENT, listed(items));
    let kept: Vec<_> =
        group.sums.helper_waits().filter(|(_, on_cpu, waiting)| on_cpu + waiting > 0).collect();
    if !kept.is_empty() {
        let of = |(account, on_cpu, waiting): &(_, u128, u128)| -> String {
            let account: guestscope_contract::Account = *account;
            let all = mean(on_cpu + waiting);
            format!("{} {all} ({} of it while the request used a CPU)", account.name(), mean(*on_cpu))
        };
        let text = format!("kept from running: {}", kept.iter().map(of).collect::<Vec<_>>().join(", "));
        page.wrapped(&[], INDENT, words(&text, Emphasis::None));
    }
    let share = |part: u64| percent(part as f64 / count as f64);
    if helped.shared > 0 {
        let text = format!("{} of the requests shared them with others in flight", share(helped.shared));
        page.wrapped(&[], INDENT, words(&text, Emphasis::None));
    }
    if helped.partial > 0 {
        let text = format!("in {} of the requests some are not in the sums", share(helped.partial));
        page.wrapped(&[], INDENT, words(&text, Emphasis::Warning));
    }
}
