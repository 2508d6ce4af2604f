//! The governor: it keeps the agent within its share of the guest's CPU time.
//!
//! Each second it takes the agent's CPU time over the last ten seconds, and decides of how many requests rows
//! are kept and sent: all, or one of 2, 4, 8, ... chosen at random. Metrics and triggers count every request,
//! and one that is noticed is kept in any case. What it cannot lower is what it costs to see the requests:
//! rows are left out only as long as that helps.

use super::rate::SAMPLES;

/// Fewest rows that are kept: those of one of so many requests, as a power of two.
const MOST_HALVED: u32 = 10;
/// Seconds between two decisions: until the last one is in all samples that the next one rests on.
const BETWEEN: u32 = SAMPLES as u32;
/// Rows that take less than this part of the share are kept: without them the agent would hardly take less.
const WORTH: f64 = 0.1;
/// Below this part of the share twice as many rows are sure to fit.
const LITTLE: f64 = 0.4;
/// Seconds for which it has to be so little: what is kept should not change all the time.
const CALM: u32 = 30;

/// The decision so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Governor {
    /// How often the number of kept requests was halved.
    halved: u32,
    /// Seconds since the last decision, and for how many of them little was used.
    since: u32,
    calm: u32,
    /// The agent takes more than its share, and fewer rows would not help.
    is_helpless: bool,
}

/// What a look led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing new.
    Same,
    /// Another part of the requests is kept.
    Another,
    /// From now on the agent takes more than its share, and fewer rows would not help.
    Helpless,
}

impl Governor {
    /// A second later: the agent used this part of the guest's CPU time, of which `keeping` for rows, and may
    /// use at most `most`.
    pub(super) fn look(&mut self, used: f64, keeping: f64, most: f64) -> Decision {
        self.since = self.since.saturating_add(1);
        self.calm = if used < most * LITTLE { self.calm + 1 } else { 0 };
        if self.since < BETWEEN {
            return Decision::Same;
        }
        let is_worth_it = keeping > most * WORTH && self.halved < MOST_HALVED;
        let was_helpless = std::mem::replace(&mut self.is_helpless, used > most && !is_worth_it);
        let halved = match self.halved {
            halved if used > most && is_worth_it => halved + 1,
            halved if self.calm >= CALM => halved.saturating_sub(1),
            halved => halved,
        };
        if halved != self.halved {
            *self = Self { halved, since: 0, calm: 0, is_helpless: false };
            return Decision::Another;
        }
        if self.is_helpless && !was_helpless { Decision::Helpless } else { Decision::Same }
    }

    /// The part of the requests whose rows are kept.
    pub(super) fn part(self) -> f64 {
        1.0 / f64::from(1_u32 << self.halved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent that needs `seeing` for every request and `keeping` for the rows of all of them, in percent
    /// of the guest. Gives what it uses in the end, how often it changed its mind, and how often it said that
    /// it cannot use less.
    fn settled(seeing: f64, keeping: f64, seconds: u32) -> (f64, u32, u32) {
        let (mut governor, mut changes, mut helpless) = (Governor::default(), 0, 0);
        let mut last = Vec::new();
        for _ in 0..seconds {
            last.push(keeping * governor.part());
            let window = &last[last.len().saturating_sub(SAMPLES)..];
            let keeping = window.iter().sum::<f64>() / window.len() as f64;
            let decision = governor.look(seeing + keeping, keeping, 1.0);
            changes += u32::from(decision == Decision::Another);
            helpless += u32::from(decision == Decision::Helpless);
        }
        (seeing + keeping * governor.part(), changes, helpless)
    }

    #[test]
    fn it_comes_below_the_share_and_stays_there() {
        assert_eq!(settled(0.1, 0.5, 600), (0.6, 0, 0), "nothing to do");
        assert_eq!(settled(0.5, 3.0, 600), (0.875, 3, 0), "3.5, 2, 1.25, 0.875");
        assert_eq!(settled(0.1, 10.0, 3600).1, 4, "0.725 is too much to keep twice as many");
    }

    /// Below what it costs to see them it cannot come: that is said once, and rows that cost little are kept.
    #[test]
    fn rows_are_not_left_out_for_nothing() {
        assert_eq!(settled(2.0, 1.0, 600), (2.0625, 4, 1), "rows take 1, 0.5, 0.25, 0.125, 0.0625");
        assert_eq!(settled(2.0, 0.05, 600), (2.05, 0, 1));
    }

    #[test]
    fn after_a_storm_all_are_kept_again() {
        let mut governor = Governor::default();
        (0..60).for_each(|_| {
            governor.look(5.0, 4.0, 1.0);
        });
        assert!(governor.part() < 0.1);
        (0..600).for_each(|_| {
            governor.look(0.01, 0.001, 1.0);
        });
        assert_eq!(governor.part().to_bits(), 1.0_f64.to_bits());
    }
}
