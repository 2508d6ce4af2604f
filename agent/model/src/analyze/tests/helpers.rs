//! Excesses that helpers explain: named after them, never more than there is, and still adding up.

use guestscope_contract::Account;
use proptest::prelude::*;

use super::*;
use crate::{analyze::split::CELLS, phase::KEPT};

const RUNQ: usize = 0;

/// Every tenth request spins for 30 ms; in some of those a helper has no CPU meanwhile.
fn spinning(is_kept: impl Fn(u64) -> bool) -> Vec<Request> {
    let one = |number: u64| {
        let mut inference = vec![Step::Spend(Account::Cpu, 40_000_000 + number * 1_000)];
        // Its helper always waits a little.
        inference.push(Step::Kept(RUNQ, 1_000_000));
        if number % 10 == 5 {
            inference.push(Step::Spend(Account::Cpu, 30_000_000));
            if is_kept(number) {
                inference.push(Step::Kept(RUNQ, 28_000_000));
            }
        }
        let steps = vec![Step::Nest("inference", inference)];
        Sample::new(number, number * 100_000_000, steps).build()
    };
    (0..100).map(one).collect()
}

#[test]
fn time_on_a_cpu_while_a_helper_has_none_is_the_helpers() {
    let summary = summary_of(&spinning(|_| true));
    let group = &summary.groups[0];
    let Headline::Cause { cause, dominated, slowest, of_cause_ns, .. } = &group.headline else {
        panic!("no cause: {:?}", group.headline)
    };
    assert_eq!((*cause, *dominated, *slowest), (Cause::Helper(Account::Runq), 10, 10));
    assert_eq!(*of_cause_ns, 28_000_000);
    for slow in &group.slowest {
        assert_eq!(slow.parts.iter().map(|part| part.excess_ns).sum::<i64>(), slow.excess_ns);
    }
    let slow = spinning(|_| true).remove(95);
    let verdicts = summary.verdicts(&slow);
    assert_eq!(verdicts[1].cause, Some(Cause::Helper(Account::Runq)), "{verdicts:?}");
    assert_eq!((group.helped.threads, group.helped.total_ns()), (1, 100 * 1_000_000 + 10 * 28_000_000));
}

#[test]
fn time_on_a_cpu_without_a_helper_that_waits_more_than_usual_is_its_own() {
    let summary = summary_of(&spinning(|_| false));
    let Headline::Cause { cause, .. } = &summary.groups[0].headline else { panic!("no cause") };
    assert_eq!(*cause, Cause::Account(Account::Cpu));
}

proptest! {
    #[test]
    fn an_excess_adds_up_and_helpers_explain_no_more_than_there_is(
        own in any::<[u32; CELLS]>(),
        typical in any::<[u32; CELLS]>(),
    ) {
        let split = |numbers: [u32; CELLS]| {
            let mut split = Split::default();
            split.cells_mut().zip(numbers).for_each(|(cell, number)| *cell = u64::from(number));
            split
        };
        let (own, typical) = (split(own), split(typical));
        let parts: Vec<(Cause, i64)> = own.excess(&typical, &[0.0; 4]).collect();
        let whole: i64 = parts.iter().map(|part| part.1).sum();
        prop_assert_eq!(i128::from(whole), own.total_ns() as i128 - typical.total_ns() as i128);
        for (kept, account) in KEPT.into_iter().enumerate() {
            let of = parts.iter().find(|(cause, _)| *cause == Cause::Helper(account));
            let named = of.map_or(0, |part| part.1);
            let more = |mine: u64, usual: u64| (mine as i64 - usual as i64).max(0);
            let most = more(own.kept_on_cpu[kept], typical.kept_on_cpu[kept])
                + more(own.kept_waiting[kept], typical.kept_waiting[kept]);
            prop_assert!(named >= 0 && named <= most);
        }
        for (cause, excess) in own.time().map(|(cause, ns)| (cause, ns as i64 - typical.get(cause) as i64)) {
            let left = parts.iter().find(|part| part.0 == cause).map_or(0, |part| part.1);
            // Reads get what the kernel did for them.
            let reads = own.reading.saturating_sub(typical.reading) as i64;
            let of_reads = [Account::BlockIo, Account::Fault].map(Cause::Account).contains(&cause);
            let excess = if of_reads && excess > 0 { excess.max(reads) } else { excess };
            prop_assert!(left <= excess && (excess <= 0 || left >= 0), "helpers take what there is: {left} of {excess}");
        }
    }
}
