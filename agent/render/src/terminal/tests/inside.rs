//! What is said of the time on CPUs.

use insta::assert_snapshot;
use rstest::rstest;

use super::{
    super::{inside, page::Page, *},
    fixtures::{UNICODE, facts, healthy, summary_of},
};
use crate::{
    analyze::{Called, samples::inference},
    health::{Outcome, Verdict},
};

#[test]
fn what_lies_inside_cpu_is_told_where_there_are_samples_enough() {
    let with = |samples: [u64; 4]| {
        let mut requests = inference(200);
        for request in &mut requests {
            let counts = &mut request.phases[0].counts;
            [counts.sample_user, counts.sample_fault, counts.sample_syscall, counts.sample_spin] = samples;
        }
        let (hook, consequence) = ("perf_event/cpu-clock".to_owned(), String::new());
        let mut health = healthy();
        health.hooks.push(Verdict { hook, outcome: Outcome::Ok, consequence, remedy: None });
        let text = render_summary(&summary_of(&requests), &health, &facts(), UNICODE);
        text.lines().find(|line| line.starts_with("inside cpu")).map(str::to_owned)
    };
    assert_snapshot!(with([48, 12, 0, 0]).unwrap(), @"inside cpu    own code 80.0 %, page faults 20.0 % (of 12,000 samples)");
    assert_snapshot!(with([30, 0, 9, 21]).unwrap(), @"inside cpu    own code 50.0 %, busy-waiting in a runtime library 35.0 %, system calls 15.0 % (of");
    assert_snapshot!(with([1, 0, 0, 0]).unwrap(), @"inside cpu    own code 100 % (of 200 samples; 6,071 were due)");
    assert_snapshot!(with([0, 0, 0, 0]).unwrap(), @"inside cpu    not known (0 samples; 6,071 were due)");
}

/// 200 requests with 1,600 samples in system calls; others of the run may have been in any.
#[test]
fn the_call_that_most_samples_must_have_been_in_is_named() {
    let mut requests = inference(200);
    for request in &mut requests {
        (request.phases[0].counts.sample_user, request.phases[0].counts.sample_syscall) = (2, 8);
    }
    let with = |munmap, read| {
        let mut page = Page::new(UNICODE);
        let numbers = [libc::SYS_munmap, libc::SYS_read].map(|number| u32::try_from(number).expect("small"));
        let called = Called(numbers.into_iter().zip([munmap, read]).collect());
        let facts = RunFacts { called, ..facts() };
        inside::cpu(&mut page, &summary_of(&requests).groups[0], false, &facts);
        page.finish()
    };
    assert_eq!(
        [with(1_500, 200), with(1_000, 1_000)],
        [
            "inside cpu    own code 20.0 %, system calls 80.0 % (munmap at least 70.0 %) (of 2,000 samples)\n",
            "inside cpu    own code 20.0 %, system calls 80.0 % (of 2,000 samples)\n",
        ]
    );
}

/// Libraries with a tenth of the samples of busy-waiting are named, the most first.
#[rstest]
#[case::two(&[("libgomp", 300), ("libonnxruntime", 900), ("libmkl", 10)], " (libonnxruntime, libgomp)")]
#[case::one(&[("libcuda", 5), ("libgomp", 0)], " (libcuda)")]
#[case::none(&[], "")]
fn libraries_that_busy_wait(#[case] spun: &[(&str, u64)], #[case] expected: &str) {
    let mut requests = inference(200);
    for request in &mut requests {
        (request.phases[0].counts.sample_user, request.phases[0].counts.sample_spin) = (2, 8);
    }
    let spun = spun.iter().map(|&(name, samples)| (name.to_owned(), samples)).collect();
    let mut page = Page::new(UNICODE);
    let facts = RunFacts { spun, ..facts() };
    inside::cpu(&mut page, &summary_of(&requests).groups[0], false, &facts);
    let text = page.finish().split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = format!("own code 20.0 %, busy-waiting in a runtime library 80.0 %{expected} (of");
    assert!(text.contains(&expected), "{text}");
}
