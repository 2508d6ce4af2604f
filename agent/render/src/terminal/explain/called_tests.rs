//! What is said of time on CPUs inside system calls: the call, where the samples of the run prove it.

use guestscope_contract::Account;

use super::{
    super::tests::fixtures::NARROW,
    tests::{explained, facts},
    *,
};
use crate::{
    analyze::{
        Called,
        explain::Wanted,
        samples::{Sample, Step},
    },
    phase::Request,
};

/// 100 requests, of which ten work for 60 ms more, with 29 samples in system calls each.
fn slowed() -> Vec<Request> {
    let request = |number: u64| {
        let late = number % 10 == 4;
        let work = Step::Spend(Account::Cpu, if late { 61_000_000 } else { 1_000_000 } + number);
        let steps = vec![Step::Nest("work", vec![work])];
        let mut request = Sample::new(number, number * 100_000_000, steps).build();
        for phase in request.phases.iter_mut().filter(|_| late) {
            (phase.counts.sample_user, phase.counts.sample_syscall) = (1, 29);
        }
        request
    };
    (0..100).map(request).collect()
}

/// The `who` of these requests; the whole run has so many samples in `munmap` and in `read`.
fn who(munmap: u64, read: u64) -> String {
    let mut explanation = explained(&slowed(), Vec::new(), Wanted::Slowest(10));
    let numbers = [libc::SYS_munmap, libc::SYS_read].map(|number| u32::try_from(number).expect("small"));
    explanation.circle.called = Called(numbers.into_iter().zip([munmap, read]).collect());
    let text = render_explanation(&explanation, &facts(), NARROW);
    let lines = text.lines().skip_while(|line| !line.starts_with("who"));
    let end = |line: &&str| !line.starts_with("advice") && !line.is_empty();
    lines.take_while(end).flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_call_that_slow_requests_spent_their_time_in() {
    let words =
        "who cpu.syscall: munmap in at least 260 of 290 samples in system calls of the 10 slowest requests";
    assert_eq!(who(270, 30), words);
}

#[test]
fn the_call_that_the_run_spent_its_time_in() {
    let words = "who cpu.syscall: over the whole run munmap had 300 of 450 samples in system calls";
    assert_eq!(who(300, 150), words);
    // Neither of two that are alike.
    assert_eq!(who(300, 290), "");
    assert_eq!(who(0, 0), "");
}

/// The slowest of them met no sample in a system call: it gets what all of them together show, as far as
/// chance may have hidden it.
#[test]
fn a_request_without_samples_of_a_kind_has_its_share_of_all() {
    let mut requests = slowed();
    for phase in &mut requests[94].phases {
        (phase.counts.sample_user, phase.counts.sample_syscall) = (8, 0);
    }
    let explanation = explained(&requests, Vec::new(), Wanted::Slowest(10));
    let text = render_explanation(&explanation, &facts(), NARROW);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = "by its share in the samples of all slow requests; here 0 of 8 samples instead of 0";
    assert!(text.contains(words), "{text}");
}
