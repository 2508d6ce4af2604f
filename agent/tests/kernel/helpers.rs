//! Helpers' accounts during a phase: exact sums, compared with the process's own CPU clock.

use guestscope_contract::Account;
use rstest::rstest;

use crate::{
    agreement::{count, is_emulated, time, up_to_three_times},
    harness::Case,
    machine::TICK_NS,
};

/// Time between the edge and the test program's readings of the process's and the thread's clock.
const READING_NS: u64 = 200_000;
/// The kernel counts a wait after it has ended, we while it lasts: a time slice. Some waits begin with the
/// interrupt of a wakeup.
const LATE_NS: u64 = 10_000_000;
/// Each thread's interval ends at the time of the edge, from which another CPU's clock may differ.
const CLOCKS_NS: u64 = 10_000;

#[rstest]
#[case::that_stay("pool")]
#[case::that_come_and_go("comings")]
fn the_sum_over_helpers_is_theirs(#[case] name: &'static str) {
    up_to_three_times(|| {
        let Some(seen) = Case::new(name).run() else { return };
        seen.check();
        let (phase, helpers) = (seen.request(1), seen.request(1).helpers);
        // The process's clock excludes stolen time, ours includes it.
        let stolen_ns = seen.book.fact("stolen_ns") + TICK_NS;
        let (low_ns, high_ns) =
            (seen.book.fact("others_low_ns"), seen.book.fact("others_high_ns") + stolen_ns);
        let (cpu_ns, runq_ns) = (helpers.accounts.get(Account::Cpu), helpers.accounts.get(Account::Runq));
        // A thread is on a CPU, for the kernel, from the clock reading at the start of the switch. If the
        // emulated CPU's turn ends before the tracepoint (for 1.2 ms on 7.3.4, in one of ten thread starts),
        // for us the thread has waited until then.
        let turns_ns = if is_emulated() && name == "comings" { runq_ns } else { 0 };
        time(name, "helpers' cpu", cpu_ns, (low_ns.saturating_sub(turns_ns), high_ns), READING_NS);
        time(name, "helpers' cpu + runq", cpu_ns + runq_ns, (low_ns, high_ns + runq_ns), READING_NS);
        assert!(!helpers.shared && !helpers.partial, "{helpers:?}");
        // The thread that waits for ever, and the one that sleeps in between.
        let blocked = helpers.accounts.get(Account::Lock);
        assert!(blocked >= phase.duration_ns, "{helpers:?}");
        let (asleep_ns, least_ns) = (helpers.accounts.get(Account::Sleep), seen.book.fact("asleep_ns"));
        assert!(least_ns > 0 && asleep_ns >= least_ns, "{least_ns}: {helpers:?}");
        assert!(asleep_ns <= phase.duration_ns, "{helpers:?}");
        if name == "pool" {
            let delay_ns = seen.book.fact("delay_ns");
            time(name, "helpers' runq", runq_ns, (delay_ns, delay_ns), LATE_NS);
            let number = seen.book.fact("helpers");
            count(name, "helpers", u64::from(helpers.threads), (number, number));
            let whole_ns = number * phase.duration_ns;
            let (low, high) = (whole_ns - CLOCKS_NS, whole_ns + CLOCKS_NS);
            count(name, "helpers' time", helpers.accounts.total_ns(), (low, high));
        }
    });
}

#[test]
fn requests_in_flight_together_share_their_helpers() {
    up_to_three_times(|| {
        let Some(seen) = Case::new("leaders").run() else { return };
        seen.check();
        let roots: Vec<_> = seen.requests.iter().map(guestscope::phase::Request::root).collect();
        let cpu_ns = |of: &guestscope::phase::Phase| of.helpers.accounts.get(Account::Cpu);
        let given_ns: u64 = roots.iter().map(|root| cpu_ns(root)).sum();
        let helper_ns = seen.book.fact("helper_ns") + seen.book.fact("stolen_ns") + TICK_NS;
        // A leader's own work is never help for another one: that would add half of this.
        assert!(given_ns <= helper_ns + READING_NS, "{given_ns} of {helper_ns}");
        assert!(given_ns > helper_ns / 10, "{given_ns} of {helper_ns}");
        assert!(roots.iter().any(|root| root.helpers.shared), "they were in flight together");
        for root in roots {
            assert!(root.helpers.accounts.total_ns() <= 3 * root.duration_ns + CLOCKS_NS, "{root:?}");
        }
    });
}
