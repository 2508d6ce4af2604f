//! The governor: it keeps the agent within its share of the guest's CPU time.
//!
//! Each second it takes the agent's usual CPU time of the last ten seconds. Where that is too much, rows of
//! fewer requests are kept and sent: of one of 2, 4, 8, ... chosen at random; metrics and triggers still
//! count every request. Where rows take little, fewer requests are looked at at all, and metrics and triggers
//! know only those. Both happen only as long as it helps.

use guestscope_contract::Thinning;

use super::rate::SAMPLES;

/// Fewest of both, as a power of two: one of so many.
const MOST_HALVED: u32 = Thinning::MOST;
/// Seconds between two decisions: until the last one is in all samples that the next one rests on. The kernel
/// side hears of it within a second, and requests that began before end.
const BETWEEN: u32 = SAMPLES as u32 + 2;
/// What takes less than this part of the share stays: without it the agent would hardly take less.
const WORTH: f64 = 0.1;
/// Twice as many fit if they would take less than this part of the share.
const FITS: f64 = 0.8;
/// Seconds for which they have to fit: what is kept should not change all the time.
const CALM: u32 = 30;

/// The decision so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Governor {
    /// How often the number of requests whose rows are kept was halved.
    rows: u32,
    /// The same of requests that are looked at.
    requests: u32,
    /// Seconds since the last decision, and for how many of them twice as many would have fitted.
    since: u32,
    calm: u32,
    /// The agent takes more than its share, and fewer of both would not help.
    is_helpless: bool,
}

/// What the agent took, as parts of the guest's CPU time in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Used {
    /// All of it.
    pub(super) all: f64,
    /// For rows.
    pub(super) rows: f64,
    /// For looking at requests.
    pub(super) requests: f64,
}

/// What a look led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing new.
    Same,
    /// Another part of the requests is looked at, or kept.
    Another,
    /// From now on the agent takes more than its share, and fewer requests would not help.
    Helpless,
}

impl Governor {
    /// A second later: what the agent used, and may use at most. `sees_all`: all requests are looked at,
    /// whatever it takes.
    pub(super) fn look(&mut self, used: Used, most: f64, sees_all: bool) -> Decision {
        self.since = self.since.saturating_add(1);
        let twice = used.all + used.rows + used.requests;
        self.calm = if twice < most * FITS { self.calm + 1 } else { 0 };
        if sees_all && self.requests > 0 {
            *self = Self { rows: self.rows, ..Self::default() };
            return Decision::Another;
        }
        if self.since < BETWEEN {
            return Decision::Same;
        }
        let next = if used.all > most {
            self.fewer(used, most, sees_all)
        } else if self.calm >= CALM {
            self.more()
        } else {
            (self.rows, self.requests)
        };
        if next != (self.rows, self.requests) {
            *self = Self { rows: next.0, requests: next.1, ..Self::default() };
            return Decision::Another;
        }
        // What goes up and down about its share is told once.
        let was_helpless = self.is_helpless;
        self.is_helpless = used.all > most || was_helpless && used.all > most * FITS;
        if self.is_helpless && !was_helpless { Decision::Helpless } else { Decision::Same }
    }

    /// As few of both as the share needs, by what they took: rows first.
    fn fewer(&self, used: Used, most: f64, sees_all: bool) -> (u32, u32) {
        let half = |times: u32| 0.5_f64.powi(times.cast_signed());
        // Both were measured by the clock, which runs on while others have the CPU.
        let part = (used.all / (used.rows + used.requests).max(f64::MIN_POSITIVE)).min(1.0);
        let used = Used { rows: used.rows * part, requests: used.requests * part, ..used };
        let rest = used.all - used.rows - used.requests;
        let (mut rows, mut requests) = (0, 0);
        let takes =
            |rows: u32, requests: u32| rest + (used.rows * half(rows) + used.requests) * half(requests);
        while takes(rows, 0) > most && used.rows * half(rows) > most * WORTH && self.rows + rows < MOST_HALVED
        {
            rows += 1;
        }
        let most_requests = if sees_all { 0 } else { MOST_HALVED.saturating_sub(self.requests) };
        while takes(rows, requests) > most
            && used.requests * half(requests) > most * WORTH
            && requests < most_requests
        {
            requests += 1;
        }
        (self.rows + rows, self.requests + requests)
    }

    /// Twice as many: those that are looked at come first.
    const fn more(&self) -> (u32, u32) {
        match self.requests {
            0 => (self.rows.saturating_sub(1), 0),
            requests => (self.rows, requests - 1),
        }
    }

    /// How often the number of requests that are looked at was halved.
    pub(super) const fn halved(self) -> u32 {
        self.requests
    }

    /// The part of the requests that are looked at.
    pub(super) fn seen(self) -> f64 {
        1.0 / f64::from(1_u32 << self.requests)
    }

    /// The part of those whose rows are kept.
    pub(super) fn kept(self) -> f64 {
        1.0 / f64::from(1_u32 << self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an agent needs for itself, to look at all requests, and to keep the rows of all of them.
    type Needs = (f64, f64, f64);

    /// What it took in the end, how often it changed its mind, and how often it said that it cannot take
    /// less.
    fn settled((rest, requests, rows): Needs, sees_all: bool, seconds: u32) -> (f64, u32, u32) {
        let (mut governor, mut changes, mut helpless) = (Governor::default(), 0, 0);
        let takes = |governor: Governor| {
            let requests = requests * governor.seen();
            Used { all: 0.0, requests, rows: rows * governor.seen() * governor.kept() }
        };
        let mut last = Vec::new();
        for _ in 0..seconds {
            last.push(takes(governor));
            let window = &last[last.len().saturating_sub(SAMPLES)..];
            let mean = |of: fn(&Used) -> f64| window.iter().map(of).sum::<f64>() / window.len() as f64;
            let (rows, requests) = (mean(|used| used.rows), mean(|used| used.requests));
            let decision = governor.look(Used { all: rest + rows + requests, rows, requests }, 1.0, sees_all);
            changes += u32::from(decision == Decision::Another);
            helpless += u32::from(decision == Decision::Helpless);
        }
        let Used { rows, requests, .. } = takes(governor);
        (rest + rows + requests, changes, helpless)
    }

    #[test]
    fn it_comes_below_the_share_at_once_and_stays_there() {
        assert_eq!(settled((0.1, 0.0, 0.5), false, 600), (0.6, 0, 0), "nothing to do");
        assert_eq!(settled((0.0, 0.5, 3.0), false, 600), (0.875, 1, 0), "3.5, 2, 1.25, 0.875 by rows alone");
        assert_eq!(settled((0.0, 0.1, 10.0), false, 3600).1, 1, "0.725 is too much to keep twice as many");
    }

    #[test]
    fn where_rows_take_little_fewer_requests_are_looked_at() {
        assert_eq!(settled((0.25, 2.0, 0.0), false, 600), (0.75, 1, 0), "one of four");
        assert_eq!(
            settled((0.25, 2.0, 1.0), false, 600),
            (0.765_625, 1, 0),
            "one of four, and the rows of one of 16"
        );
        assert_eq!(settled((0.25, 2.0, 0.0), true, 600), (2.25, 0, 1), "unless all are wanted");
        let (takes, changes, helpless) = settled((0.3, 18.0, 20.0), false, 600);
        assert!(
            takes < 1.0 && changes <= 2 && helpless == 0,
            "ten times the load: {takes} {changes} {helpless}"
        );
    }

    /// Below what it needs for itself it cannot come: that is said once, and what costs little is kept.
    #[test]
    fn nothing_is_left_out_that_would_not_help() {
        assert_eq!(settled((2.0, 0.0625, 0.0625), false, 600), (2.125, 0, 1));
        assert_eq!(
            settled((2.0, 0.0, 1.0), false, 600),
            (2.0625, 1, 1),
            "rows take 1, 0.5, 0.25, 0.125, 0.0625"
        );
    }

    #[test]
    fn what_goes_up_and_down_about_the_share_is_told_once() {
        let mut governor = Governor::default();
        let look = |second: u32| {
            let all = if second.is_multiple_of(2) { 1.1 } else { 0.95 };
            governor.look(Used { all, rows: 0.01, requests: 0.01 }, 1.0, false)
        };
        assert_eq!((0..100).map(look).filter(|told| *told == Decision::Helpless).count(), 1);
    }

    #[test]
    fn after_a_storm_all_are_kept_again() {
        let mut governor = Governor::default();
        let storm = Used { all: 9.0, rows: 4.0, requests: 4.5 };
        (0..60).for_each(|_| {
            governor.look(storm, 1.0, false);
        });
        assert!(governor.kept() < 0.1 && governor.seen() < 0.3, "{governor:?}");
        let mut willing = governor;
        assert_eq!(willing.look(storm, 1.0, true), Decision::Another, "all are wanted from now on");
        assert_eq!((willing.requests, willing.rows), (0, governor.rows));
        (0..900).for_each(|_| {
            governor.look(Used { all: 0.01, rows: 0.001, requests: 0.001 }, 1.0, false);
        });
        assert_eq!((governor.rows, governor.requests), (0, 0));
    }
}
