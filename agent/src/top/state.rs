//! What `top` shows, and what keys do to it.

use ratatui::crossterm::event::KeyCode;

use crate::{
    analyze::{Split, Sums},
    clock::ClockPair,
    folder::rfc3339,
    sinks::terminal::{TopFacts, TopOrder, TopRow, TopView},
    untrusted::Untrusted,
    watch::{shared::Status, window::Row},
};

/// The screen between two looks.
#[derive(Debug, Default)]
pub(super) struct State {
    facts: TopFacts,
    rows: Vec<TopRow>,
    order: TopOrder,
    chosen: usize,
    pub(super) is_detailed: bool,
    pub(super) is_frozen: bool,
    pub(super) note: String,
}

impl State {
    /// Takes an answer of the agent. The chosen row stays chosen, wherever it is sorted to.
    pub(super) fn take(&mut self, status: &Status, rows: Vec<Row>) {
        let chosen = self.rows.get(self.chosen).map(|row| row.request.clone());
        // UTC, as in the names of folders.
        let now = rfc3339(ClockPair::now().wall_ns).get(11..19).unwrap_or_default().to_owned();
        self.facts = TopFacts {
            scenario: (&*status.scenario).into(),
            processes: status.processes,
            per_s: status.requests_per_s,
            open: status.open,
            cpu: status.cpu,
            rss_bytes: status.rss_bytes,
            one_of: one_of(status.seen_part),
            losses: losses(status),
            incidents: status.incidents,
            time: now,
        };
        self.rows = rows.into_iter().map(row).collect();
        self.sort();
        let place = self.rows.iter().position(|row| Some(&row.request) == chosen.as_ref());
        self.chosen = place.unwrap_or(self.chosen).min(self.rows.len().saturating_sub(1));
    }

    fn sort(&mut self) {
        self.order.sort(&mut self.rows);
    }

    /// A key other than those that end the screen or ask the agent.
    pub(super) fn key(&mut self, key: KeyCode) {
        let last = self.rows.len().saturating_sub(1);
        if key == KeyCode::Char('s') {
            self.order = self.order.next();
            self.sort();
            self.chosen = 0;
        } else if key == KeyCode::Char('f') {
            self.is_frozen = !self.is_frozen;
        } else if key == KeyCode::Up || key == KeyCode::Char('k') {
            self.chosen = self.chosen.saturating_sub(1);
        } else if key == KeyCode::Down || key == KeyCode::Char('j') {
            self.chosen = (self.chosen + 1).min(last);
        } else if key == KeyCode::Enter {
            self.is_detailed = !self.is_detailed;
        } else if key == KeyCode::Esc {
            self.is_detailed = false;
        }
    }

    /// The screen.
    pub(super) fn view(&self) -> TopView<'_> {
        TopView {
            facts: &self.facts,
            rows: &self.rows,
            order: self.order,
            chosen: self.chosen,
            is_detailed: self.is_detailed,
            is_frozen: self.is_frozen,
            note: &self.note,
        }
    }
}

/// It looks at one of so many requests. 0: an agent of an older version does not say it.
fn one_of(seen_part: f64) -> u64 {
    if (f64::MIN_POSITIVE..1.0).contains(&seen_part) { (1.0 / seen_part).round() as u64 } else { 1 }
}

/// What was lost or not seen since the agent began, the most first.
fn losses(status: &Status) -> Vec<(Untrusted, u64)> {
    let own = [("rows", status.rows_lost), ("requests_unseen", status.requests_unseen)];
    let of_way = status.losses.iter().map(|(what, count)| (Untrusted::from(what), *count));
    let mut all: Vec<(Untrusted, u64)> =
        own.into_iter().map(|(what, count)| (Untrusted::from(what), count)).chain(of_way).collect();
    all.retain(|(_, count)| *count > 0);
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all
}

fn row(row: Row) -> TopRow {
    let mut time = Sums::default();
    time.add(&Split::default().with_time(row.time_ns));
    TopRow {
        request: row.request.into(),
        per_s: row.per_s,
        p50_ns: row.p50_ns,
        p99_ns: row.p99_ns,
        slowest_ns: row.slowest_ns,
        time,
        slow: row.slow.into_iter().map(|(cause, count)| (cause.into(), count)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(names: &[(&str, u64)]) -> Vec<Row> {
        let row = |(name, p99_ns): &(&str, u64)| Row {
            request: (*name).to_owned(),
            p99_ns: *p99_ns,
            time_ns: vec![*p99_ns; 3],
            ..Row::default()
        };
        names.iter().map(row).collect()
    }

    #[test]
    fn all_that_is_not_seen_is_among_the_losses() {
        let lost = [("kernel_edges", 24_179), ("pairing_edges_lost", 3), ("kernel_waits", 0)];
        let status = Status {
            seen_part: 0.25,
            rows_lost: 70,
            requests_unseen: 500,
            losses: lost.into_iter().map(|(what, count)| (what.to_owned(), count)).collect(),
            ..Status::default()
        };
        let mut state = State::default();
        state.take(&status, Vec::new());
        let told: Vec<(&str, u64)> =
            state.facts.losses.iter().map(|(what, count)| (what.stored(), *count)).collect();
        let expected: [(&str, u64); 4] =
            [("kernel_edges", 24_179), ("requests_unseen", 500), ("rows", 70), ("pairing_edges_lost", 3)];
        assert_eq!((state.facts.one_of, &*told), (4, expected.as_slice()));
        state.take(&Status { seen_part: 1.0, ..Status::default() }, Vec::new());
        assert_eq!((state.facts.one_of, state.facts.losses.len()), (1, 0));
    }

    #[test]
    fn keys_choose_sort_and_freeze() {
        let mut state = State::default();
        state.take(&Status::default(), rows(&[("a", 3), ("b", 2), ("c", 1)]));
        let chosen = |state: &State| state.rows[state.chosen].request.stored().to_owned();
        state.key(KeyCode::Down);
        assert_eq!(chosen(&state), "b");
        // The chosen row stays chosen when the order changes.
        state.take(&Status::default(), rows(&[("a", 3), ("b", 1), ("c", 2)]));
        assert_eq!((chosen(&state), state.chosen), ("b".to_owned(), 2));
        state.key(KeyCode::Down);
        assert_eq!(state.chosen, 2);
        state.key(KeyCode::Enter);
        state.key(KeyCode::Char('f'));
        assert!(state.is_detailed && state.is_frozen);
        state.key(KeyCode::Esc);
        assert!(!state.is_detailed);
        (0..3).for_each(|_| state.key(KeyCode::Char('s')));
        assert_eq!((state.order, chosen(&state)), (TopOrder::Name, "a".to_owned()));
        state.take(&Status::default(), Vec::new());
        state.key(KeyCode::Down);
        assert_eq!(state.chosen, 0);
    }
}
