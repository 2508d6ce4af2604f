//! Which system call the samples in system calls were in.
//!
//! They are counted by call over a whole run, and without the call for each phase. What the first proves of
//! the second is said, and no more.

use std::collections::BTreeMap;

/// Samples in system calls over all observed threads of a run, by the number of the call; a 32-bit one by
/// [`guestscope_contract::CALLS_32`] more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Called(pub BTreeMap<u32, u64>);

/// The call that most of some samples were in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MostCalled {
    /// Its number.
    pub syscall: u32,
    /// How many of the samples were in it, at least.
    pub at_least: u64,
    /// Number of the samples.
    pub of: u64,
}

impl Called {
    /// The call that stands out among all samples: it has a third of them, and twice as many as any other.
    pub fn most(&self) -> Option<MostCalled> {
        let mut by_samples: Vec<(u64, u32)> =
            self.0.iter().map(|(call, samples)| (*samples, *call)).collect();
        by_samples.sort_unstable_by(|one, other| other.cmp(one));
        let (&(at_least, syscall), of) = (by_samples.first()?, self.all());
        let second = by_samples.get(1).map_or(0, |(samples, _)| *samples);
        let stands_out = at_least > 0 && at_least >= of / 3 && at_least / 2 >= second;
        stands_out.then_some(MostCalled { syscall, at_least, of })
    }

    fn all(&self) -> u64 {
        self.0.values().fold(0, |sum, samples| sum.saturating_add(*samples))
    }

    /// The call that most of this part of the samples were in, if half of them or more must have been: all
    /// others may have been in it as well.
    pub fn most_of(&self, samples: u64) -> Option<MostCalled> {
        let others = self.all().checked_sub(samples)?;
        let (&syscall, of_it) = self.0.iter().max_by_key(|(_, samples)| **samples)?;
        let at_least = of_it.saturating_sub(others);
        (samples > 0 && at_least >= samples.div_ceil(2)).then_some(MostCalled {
            syscall,
            at_least,
            of: samples,
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::most(&[(11, 90), (4, 10)], Some((11, 90)))]
    #[case::a_third(&[(11, 40), (4, 20), (5, 20), (6, 20), (7, 20)], Some((11, 40)))]
    #[case::two_alike(&[(11, 60), (4, 40)], None)]
    #[case::many(&[(11, 40), (4, 20), (5, 20), (6, 20), (7, 20), (8, 20)], None)]
    #[case::none(&[(11, 0)], None)]
    #[case::an_older_folder(&[], None)]
    #[case::a_damaged_folder(&[(1, u64::MAX), (2, u64::MAX)], None)]
    fn what_stands_out_in_a_run(#[case] by_call: &[(u32, u64)], #[case] expected: Option<(u32, u64)>) {
        let most = Called(by_call.iter().copied().collect()).most();
        assert_eq!(most.map(|most| (most.syscall, most.at_least)), expected);
    }

    #[rstest]
    #[case::all(&[(11, 90), (4, 10)], 100, Some((11, 90)))]
    #[case::the_others_may_be_of_it(&[(11, 90), (4, 10)], 80, Some((11, 70)))]
    #[case::just_half(&[(11, 90), (4, 10)], 20, Some((11, 10)))]
    #[case::less_than_half(&[(11, 90), (4, 10)], 19, None)]
    #[case::none(&[(11, 90)], 0, None)]
    #[case::more_than_there_are(&[(11, 90)], 91, None)]
    #[case::an_older_folder(&[], 5, None)]
    #[case::a_damaged_folder(&[(1, u64::MAX), (2, u64::MAX)], u64::MAX, Some((2, u64::MAX)))]
    fn what_a_run_proves_of_some_samples(
        #[case] by_call: &[(u32, u64)],
        #[case] samples: u64,
        #[case] expected: Option<(u32, u64)>,
    ) {
        let most = Called(by_call.iter().copied().collect()).most_of(samples);
        assert_eq!(most.map(|most| (most.syscall, most.at_least)), expected);
    }
}
