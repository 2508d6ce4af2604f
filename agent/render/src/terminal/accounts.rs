//! Time by account, in numbers: `cpu 54.5 ms, throttled 2.35 ms`.
//!
//! Yields text whose parts add up to the whole: parts that are too small to name are summed up as `rest`.

use guestscope_contract::Account;

use crate::analyze::{Cause, Sums};

use super::units::duration_of_sum;

/// Part of the whole below which a cause is not named.
const NAMED: f64 = 0.000_5;

/// Causes with their mean over `count`, the largest first, then the rest. The estimated part of `poll` that
/// was for sockets stands beside it.
pub(super) fn means(sums: &Sums, poll_net_ns: u128, count: u64) -> Vec<String> {
    let total = sums.total_ns();
    let mut named: Vec<(Cause, u128)> =
        sums.time().filter(|&(_, ns)| ns > 0 && ns as f64 >= total as f64 * NAMED).collect();
    named.sort_by_key(|&(cause, ns)| (std::cmp::Reverse(ns), cause));
    let rest = total - named.iter().map(|(_, ns)| ns).sum::<u128>();
    let mean = |ns: u128| duration_of_sum(ns / u128::from(count.max(1)));
    let text = |&(cause, ns): &(Cause, u128)| {
        let is_split = cause == Cause::Account(Account::Poll) && poll_net_ns > 0;
        let inside = if is_split { format!(" (net ~{})", mean(poll_net_ns)) } else { String::new() };
        format!("{} {}{inside}", cause.name(), mean(ns))
    };
    let mut texts: Vec<String> = named.iter().map(text).collect();
    if rest > 0 {
        texts.push(format!("rest {}", mean(rest)));
    }
    texts
}

/// Causes with time in these rows, the largest over all rows first.
pub(super) fn columns<'a>(rows: impl Iterator<Item = &'a Sums>) -> Vec<Cause> {
    let mut whole = Sums::default();
    for sums in rows {
        whole.merge(sums);
    }
    let mut causes: Vec<(Cause, u128)> = whole.time().filter(|&(_, ns)| ns > 0).collect();
    causes.sort_by_key(|&(cause, ns)| (std::cmp::Reverse(ns), cause));
    causes.into_iter().map(|(cause, _)| cause).collect()
}
