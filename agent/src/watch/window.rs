//! Requests of the last ten seconds by name: what `top` shows.
//!
//! Pure: requests with their times in, rows out. Memory is bounded by names and by durations that are kept.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::{
    analyze::{Band, Cause, Split, TailVerdict},
    untrusted::Untrusted,
};

/// Seconds that are shown.
pub(crate) const SECONDS: usize = 10;
/// Most names told apart within a second.
const NAMES: usize = 128;
/// Most durations kept of a name and a second: each further one takes the place of another.
const DURATIONS: usize = 1024;
/// A second, ns.
const SECOND_NS: u64 = 1_000_000_000;

/// The last seconds, the newest last.
#[derive(Debug, Default)]
pub(super) struct Window {
    seconds: VecDeque<Second>,
}

/// One second.
#[derive(Debug)]
struct Second {
    number: u64,
    kinds: BTreeMap<Untrusted, Kind>,
    /// Requests of further names.
    others: u64,
}

/// Requests of one name.
#[derive(Clone, Debug, Default)]
struct Kind {
    count: u64,
    durations_ns: Vec<u64>,
    time: Split,
    /// Slow ones by cause.
    slow: BTreeMap<&'static str, u64>,
}

/// Requests of one name in the last seconds, as `top` gets them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Row {
    pub(crate) request: String,
    pub(crate) per_s: f64,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) slowest_ns: u64,
    /// Time by account and on no thread, ns, in the order of [`Cause::of_time`].
    pub(crate) time_ns: Vec<u64>,
    /// Requests beyond p90 of those before them, by the largest part of what they took longer, most first.
    pub(crate) slow: Vec<(String, u64)>,
}

impl Window {
    /// A request of this name has ended.
    pub(super) fn ended(
        &mut self,
        name: &Untrusted,
        (end_ns, duration_ns): (u64, u64),
        split: &Split,
        verdict: Option<&TailVerdict>,
    ) {
        let number = end_ns / SECOND_NS;
        // Requests come in about the order of their ends; one of an earlier second counts in the newest.
        if self.seconds.back().is_none_or(|second| second.number < number) {
            self.seconds.push_back(Second { number, kinds: BTreeMap::new(), others: 0 });
            if self.seconds.len() > SECONDS + 1 {
                self.seconds.pop_front();
            }
        }
        let Some(second) = self.seconds.back_mut() else { return };
        if second.kinds.len() >= NAMES && !second.kinds.contains_key(name) {
            second.others += 1;
            return;
        }
        let kind = second.kinds.entry(name.clone()).or_default();
        if kind.durations_ns.len() < DURATIONS {
            kind.durations_ns.push(duration_ns);
        } else {
            // 7,919 is prime to the number of places: all of them are taken in turns.
            kind.durations_ns[(kind.count.wrapping_mul(7_919) % DURATIONS as u64) as usize] = duration_ns;
        }
        kind.count += 1;
        kind.time.add(split);
        if let Some(verdict) = verdict.filter(|verdict| verdict.tail >= Some(Band::P90))
            && let Some(cause) = verdict.cause
        {
            *kind.slow.entry(cause.name()).or_insert(0) += 1;
        }
    }

    /// Rows of the last ten whole seconds before now, the most time first.
    pub(super) fn rows(&self, now_ns: u64) -> Vec<Row> {
        let now = now_ns / SECOND_NS;
        let is_within = |second: &&Second| second.number < now && second.number + SECONDS as u64 >= now;
        let mut kinds: BTreeMap<&Untrusted, Kind> = BTreeMap::new();
        for (name, kind) in self.seconds.iter().filter(is_within).flat_map(|second| &second.kinds) {
            let sum = kinds.entry(name).or_default();
            sum.count += kind.count;
            sum.durations_ns.extend(&kind.durations_ns);
            sum.time.add(&kind.time);
            for (cause, count) in &kind.slow {
                *sum.slow.entry(cause).or_insert(0) += count;
            }
        }
        let mut rows: Vec<Row> = kinds.into_iter().map(|(name, kind)| row(name, kind)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.time_ns.iter().sum::<u64>()));
        rows
    }
}

fn row(name: &Untrusted, mut kind: Kind) -> Row {
    kind.durations_ns.sort_unstable();
    let last = kind.durations_ns.len().saturating_sub(1);
    // The nearest rank.
    let quantile = |part: f64| {
        let rank = (part * kind.durations_ns.len() as f64).ceil() as usize;
        kind.durations_ns.get(rank.saturating_sub(1).min(last)).copied().unwrap_or(0)
    };
    let mut slow: Vec<(String, u64)> =
        kind.slow.iter().map(|(cause, count)| ((*cause).to_owned(), *count)).collect();
    slow.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Row {
        request: name.stored().to_owned(),
        per_s: kind.count as f64 / SECONDS as f64,
        p50_ns: quantile(0.5),
        p99_ns: quantile(0.99),
        slowest_ns: kind.durations_ns.last().copied().unwrap_or(0),
        time_ns: Cause::of_time().map(|cause| kind.time.get(cause)).collect(),
        slow,
    }
}

#[cfg(test)]
mod tests {
    use guestscope_contract::Account;

    use super::*;

    #[test]
    fn rows_are_of_the_last_ten_whole_seconds() {
        let mut window = Window::default();
        let mut split = Split::default();
        split.accounts[Account::Cpu as usize] = 2_000_000;
        let verdict = TailVerdict { cause: Some(Cause::Account(Account::Lock)), tail: Some(Band::P99) };
        for ms in 0..30_000_u64 {
            let is_slow = ms % 100 == 99;
            let duration_ns = if is_slow { 50_000_000 } else { 2_000_000 };
            let verdict = is_slow.then_some(&verdict);
            window.ended(&"a".into(), (ms * 1_000_000, duration_ns), &split, verdict);
        }
        window.ended(&"b".into(), (25_500_000_000, 7), &Split::default(), None);
        let rows = window.rows(30_000_000_000);
        assert_eq!(rows.iter().map(|row| &*row.request).collect::<Vec<_>>(), ["a", "b"]);
        let row = &rows[0];
        assert_eq!((row.per_s.round() as u64, row.p50_ns), (1_000, 2_000_000));
        assert_eq!((row.slowest_ns, &row.slow), (50_000_000, &vec![("lock".to_owned(), 100)]));
        assert_eq!(row.time_ns.iter().sum::<u64>(), 10_000 * 2_000_000);
        assert_eq!(window.rows(60_000_000_000), []);
    }
}
