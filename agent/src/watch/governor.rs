//! The governor: it keeps the agent within its share of the guest's CPU time.
//!
//! Each second it takes the agent's CPU time over the last ten seconds, and decides of how many requests rows
//! are kept and sent: all, or one of 2, 4, 8, ... chosen at random. Metrics and triggers count every request,
//! and one that is noticed is kept in any case. What it cannot lower is what it costs to see the requests.

use super::rate::SAMPLES;

/// Fewest rows that are kept: those of one of so many requests, as a power of two.
const MOST_HALVED: u32 = 10;
/// Seconds between two decisions: until the last one is in all samples that the next one rests on.
const BETWEEN: u32 = SAMPLES as u32;
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
}

impl Governor {
    /// A second later: the agent used this part of the guest's CPU time, and may use at most `most`. Returns
    /// whether the part that is kept has changed.
    pub(super) fn look(&mut self, used: f64, most: f64) -> bool {
        self.since = self.since.saturating_add(1);
        self.calm = if used < most * LITTLE { self.calm + 1 } else { 0 };
        if self.since < BETWEEN {
            return false;
        }
        let halved = match self.halved {
            halved if used > most => (halved + 1).min(MOST_HALVED),
            halved if self.calm >= CALM => halved.saturating_sub(1),
            halved => halved,
        };
        let has_changed = halved != self.halved;
        if has_changed {
            *self = Self { halved, since: 0, calm: 0 };
        }
        has_changed
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
    /// of the guest. Gives what it uses in the end, and how often it changed its mind.
    fn settled(seeing: f64, keeping: f64, seconds: u32) -> (f64, u32) {
        let (mut governor, mut changes) = (Governor::default(), 0);
        let mut last = Vec::new();
        for _ in 0..seconds {
            last.push(seeing + keeping * governor.part());
            let window = &last[last.len().saturating_sub(SAMPLES)..];
            let used = window.iter().sum::<f64>() / window.len() as f64;
            changes += u32::from(governor.look(used, 1.0));
        }
        (seeing + keeping * governor.part(), changes)
    }

    #[test]
    fn it_comes_below_the_share_and_stays_there() {
        assert_eq!(settled(0.1, 0.5, 600), (0.6, 0), "nothing to do");
        assert_eq!(settled(0.5, 3.0, 600), (0.875, 3), "3.5, 2, 1.25, 0.875");
        assert_eq!(settled(0.1, 10.0, 3600).1, 4, "0.725 is too much to keep twice as many");
        // Below what it costs to see them it cannot come.
        assert_eq!(settled(2.0, 1.0, 600).1, MOST_HALVED);
    }

    #[test]
    fn after_a_storm_all_are_kept_again() {
        let mut governor = Governor::default();
        (0..60).for_each(|_| {
            governor.look(5.0, 1.0);
        });
        assert!(governor.part() < 0.1);
        (0..600).for_each(|_| {
            governor.look(0.01, 1.0);
        });
        assert_eq!(governor.part().to_bits(), 1.0_f64.to_bits());
    }
}
