//! Edges: each one that was fired is read or counted as lost, whatever it contains.

use guestscope::{
    health::KernelLosses,
    phase::{Ending, PairingLosses, PhaseKind},
};
use guestscope_contract::{Account, NAME_BYTES};
use rstest::rstest;

use crate::{
    agreement::{compare, count, time, up_to_three_times},
    harness::{Case, Until},
    seen::Seen,
};

/// Names of the requests in the order of their numbers, and whether they were damaged.
fn names(seen: &Seen) -> Vec<(u64, &str, bool)> {
    let roots = seen.requests.iter().map(guestscope::phase::Request::root);
    let mut names: Vec<_> = roots.map(|root| (root.request, root.name.stored(), root.name_damaged)).collect();
    names.sort_unstable();
    names
}

#[test]
fn names_arrive_as_far_as_they_travel() {
    let Some(seen) = Case::new("names").run() else { return };
    seen.check();
    assert_eq!(seen.kernel, KernelLosses::default());
    assert_eq!(seen.pairing, PairingLosses { damaged_names: 3, ..PairingLosses::default() });
    let cut = "l".repeat(NAME_BYTES);
    let split = format!("{}\u{fffd}", "s".repeat(NAME_BYTES - 1));
    let expected = [
        (1, "plain", false),
        (2, &*cut, true),
        (3, "\u{fffd}\u{fffd}\u{fffd}", true),
        (4, "", false),
        (5, &*split, true),
        (6, "bbbbbbbbbb", false),
        (7, "bbbbbbbbbb", false),
        (8, "\0\0\0\0\0\0\0\0", false),
    ];
    assert_eq!(names(&seen), expected);
}

#[test]
fn edges_that_no_library_fires_are_counted() {
    let Some(seen) = Case::new("raw").run() else { return };
    seen.check();
    assert_eq!(seen.kernel, KernelLosses { unknown_abi: 1, ..KernelLosses::default() });
    assert_eq!(
        seen.pairing,
        PairingLosses { damaged_names: 7, unknown_edges: 1, ..PairingLosses::default() }
    );
    // The library's own two edges are added to those that the test fired.
    assert_eq!(seen.edges_read, seen.book.fact("fired") + 2);
    let names = names(&seen);
    // Not mapped readable, null, never mapped, not resident, kernel memory, the end of the address space.
    assert!((1..=6).all(|number| names.contains(&(number, "(unreadable)", true))), "{names:?}");
    assert!(
        names.iter().any(|name| name.0 == 100 && name.1.starts_with("begins well and goes on") && name.2)
    );
}

#[test]
fn what_has_no_partner_is_counted() {
    up_to_three_times(|| {
        let Some(seen) = Case::new("unmatched").run() else { return };
        seen.check();
        assert_eq!(seen.kernel, KernelLosses::default());
        assert_eq!(
            seen.pairing,
            PairingLosses { unmatched_ends: 4, unended_phases: 1, ..PairingLosses::default() }
        );
        assert_eq!(seen.request(3).ending, Ending::ThreadExited);
        let (outer, inner) = (seen.request(0), &seen.inside(0)[0]);
        assert_eq!((outer.name.stored(), outer.ending), ("outer", Ending::Ended));
        assert_eq!((inner.name.stored(), inner.ending), ("inner", Ending::Ended));
        compare("unmatched", seen.request(1), seen.book.row(1), 0);
    });
}

/// Requests of each of the four threads: 200,000 edges in all.
const REQUESTS: u64 = 25_000;
const THREADS: usize = 4;

#[rstest]
#[case::while_the_agent_reads("burst", 0)]
#[case::while_the_agent_is_away("overrun", THREADS)]
fn no_edge_is_lost_without_being_counted(#[case] name: &str, #[case] idle_until_lines: usize) {
    let case = Case::new("burst").argument(REQUESTS.to_string());
    let Some(seen) = case.idle_until_lines(idle_until_lines).run() else { return };
    seen.check();
    let fired: u64 = seen.book.facts("fired").iter().sum();
    assert_eq!(fired, (2 * REQUESTS + 1) * THREADS as u64);
    count(name, "read + lost", seen.edges_read + seen.kernel.edges, (fired, fired));
    // Edge numbers agree: each thread's last edge, fired when the ring was empty again, shows every gap.
    let numbers = seen.pairing.edges_lost + seen.pairing.edges_before;
    count(name, "by numbers", numbers, (seen.kernel.edges, seen.kernel.edges));
    assert_eq!(seen.marks.len(), THREADS, "the last edges arrived");
    // Every start that was read is a request; every end that was read ended one, or its start was lost.
    let requests = seen.requests.len() as u64;
    let ended = seen.requests.iter().filter(|request| request.root().ending == Ending::Ended).count() as u64;
    assert_eq!(requests + ended + seen.pairing.unmatched_ends + THREADS as u64, seen.edges_read);
    assert_eq!(seen.pairing.unended_phases, requests - ended);
    if idle_until_lines > 0 {
        assert!(seen.kernel.edges > fired / 2, "the ring is far too small for this: {}", seen.kernel.edges);
    }
    let lost = KernelLosses {
        edges: seen.kernel.edges,
        edges_torn: seen.kernel.edges_torn,
        sums_torn: seen.kernel.sums_torn,
        ..KernelLosses::default()
    };
    assert_eq!(seen.kernel, lost, "nothing else was lost: edges have a ring of their own");
    assert_eq!(seen.slots_held, 0);
}

/// One of so many requests is handed over, on purpose: those are whole, and the others are counted.
#[rstest]
#[case::one_of_32(5)]
#[case::one_of_1024(10)]
fn requests_are_handed_over_whole_or_counted(#[case] halved: u32) {
    let case = Case::new("burst").argument(REQUESTS.to_string()).thinned(halved);
    let Some(seen) = case.run() else { return };
    seen.check();
    let all = REQUESTS * THREADS as u64;
    let requests = seen.requests.len() as u64;
    count("thinned", "seen + unseen", requests + seen.requests_unseen, (all, all));
    let expected = all as f64 / f64::from(1 << halved);
    assert!(
        (requests as f64 - expected).abs() < 6.0 * expected.sqrt(),
        "{requests} of {all}, 1 of 2^{halved}"
    );
    // Two edges of each, and a mark of each thread outside of all: few enough for the ring.
    count("thinned", "read", seen.edges_read, (2 * requests + 4, 2 * requests + 4));
    let torn_edges = seen.pairing.torn_edges;
    assert_eq!(seen.pairing, PairingLosses { torn_edges, ..PairingLosses::default() });
    assert!(seen.requests.iter().all(|request| request.root().ending == Ending::Ended));
}

#[test]
fn between_leave_and_enter_time_is_nobodys() {
    up_to_three_times(|| {
        let Some(seen) = Case::new("hop").run() else { return };
        seen.check();
        seen.check_no_losses();
        let phase = seen.request(1);
        let (low_ns, high_ns) = (seen.book.fact("suspended_low_ns"), seen.book.fact("suspended_high_ns"));
        count("hop", "suspended ns", phase.suspended_ns, (low_ns, high_ns));
        // It contains the work of both threads, and the sleep of the second.
        let worked_ns = seen.book.fact("worked_ns");
        time("hop", "cpu", phase.accounts.get(Account::Cpu), (worked_ns, phase.duration_ns), 0);
        time("hop", "sleep", phase.accounts.get(Account::Sleep), (10_000_000, phase.duration_ns), 0);
    });
}

#[test]
fn a_request_that_came_late_has_queued() {
    let Some(seen) = Case::new("queue").run() else { return };
    seen.check();
    seen.check_no_losses();
    let (served, queue) = (seen.request(1), &seen.inside(1)[0]);
    assert_eq!((queue.kind, queue.name.stored()), (PhaseKind::Queue, "queue"));
    assert_eq!(queue.start_ns, seen.book.fact("scheduled_ns"));
    assert_eq!(queue.start_ns + queue.duration_ns, served.start_ns);
    assert!(queue.duration_ns >= 7_000_000);
}

#[test]
fn what_is_open_when_observation_stops_ends_there() {
    let Some(seen) = Case::new("linger").until(Until::Lines(2)).run() else { return };
    seen.check();
    assert_eq!(seen.kernel, KernelLosses::default());
    assert_eq!(seen.pairing, PairingLosses { unended_phases: 3, ..PairingLosses::default() });
    let [asleep, spinning, inner] = [seen.request(1), seen.request(2), &seen.inside(2)[0]];
    for phase in [asleep, spinning, inner] {
        assert_eq!(phase.ending, Ending::ObservationStopped);
        assert_eq!(phase.start_ns + phase.duration_ns, asleep.start_ns + asleep.duration_ns, "{phase:?}");
        assert_eq!(phase.suspended_ns, 0, "{phase:?}");
    }
    assert!(asleep.accounts.get(Account::Sleep) > 0);
    assert!(spinning.accounts.get(Account::Cpu) > 0 && spinning.accounts.get(Account::Sleep) == 0);
    assert_eq!((seen.threads.len(), seen.processes.len()), (2, 1));
    assert!(seen.threads.iter().all(|thread| !thread.exited));
}
