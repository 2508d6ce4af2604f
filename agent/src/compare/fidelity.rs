//! What runs of different fidelity have in common.
//!
//! Yields [`Common`], and a sentence on it. Of an unknown fidelity only switches are compared.

use crate::{analyze::compare::Common, health::Fidelity};

/// What a fidelity measures besides `cpu`, `runq` and `other`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sight {
    /// All accounts, disks, sockets, the composition of `cpu`.
    accounts: bool,
    /// Wake-ups, migrations, helpers.
    scheduling: bool,
    /// Page faults.
    faults: bool,
}

impl Sight {
    fn of(name: &str) -> Self {
        let known = Fidelity::ALL.into_iter().find(|fidelity| fidelity.name() == name);
        known.map_or_else(Self::default, |fidelity| Self {
            accounts: fidelity.is_whole(),
            scheduling: fidelity.sees_scheduling(),
            faults: fidelity.sees_faults(),
        })
    }
}

/// What runs of these fidelities, given by name, have in common; none if all are equal.
pub(super) fn common<'a>(fidelities: impl Iterator<Item = &'a str>) -> Option<Common> {
    let mut sights: Vec<Sight> = fidelities.map(Sight::of).collect();
    sights.dedup();
    (sights.len() > 1).then(|| Common {
        scheduling: sights.iter().all(|sight| sight.scheduling),
        faults: sights.iter().all(|sight| sight.faults),
    })
}

/// The note for readers.
pub(super) fn words(common: Common) -> String {
    let Common { scheduling, faults } = common;
    let counts = match (scheduling, faults) {
        (false, false) => "switches",
        (true, false) => "switches, wake-ups and moves between CPUs",
        (false, true) => "switches and page faults",
        (true, true) => "switches, wake-ups, moves between CPUs and page faults",
    };
    format!(
        "fidelities differ: compared by the accounts that all runs have (cpu, runq with throttled, other), and by the \
         events that all of them count ({counts})"
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{Common, common};

    #[rstest]
    #[case::alike(&["full", "raw", "full"], None)]
    #[case::alike_and_limited(&["tracepoint", "tracepoint"], None)]
    #[case::no_faults(&["full", "tracepoint", "full"], Some((true, false)))]
    #[case::no_scheduling(&["procfs", "raw"], Some((false, true)))]
    #[case::neither(&["tracepoint", "procfs"], Some((false, false)))]
    #[case::all_three(&["full", "tracepoint", "procfs"], Some((false, false)))]
    #[case::not_known(&["full", ""], Some((false, false)))]
    fn what_all_know(#[case] names: &[&str], #[case] expected: Option<(bool, bool)>) {
        let expected = expected.map(|(scheduling, faults)| Common { scheduling, faults });
        assert_eq!(common(names.iter().copied()), expected);
    }
}
