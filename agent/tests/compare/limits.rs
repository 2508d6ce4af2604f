//! Limits that differ between platforms stand above the causes, and with those that they explain.

use guestscope::{
    folder::Manifest,
    limits::{Kind, Limit},
};

use super::*;

const ADVICE: &str = "leave out the pinning (taskset, sched_setaffinity)";

fn free(manifest: &mut Manifest) {
    (manifest.logical_cpus, manifest.limits.cpus) = (2, Some(2));
}

/// Threads that queued for a second, while the other CPU was idle for 80 % of it.
fn pinned(manifest: &mut Manifest) {
    (manifest.logical_cpus, manifest.limits.cpus) = (2, Some(1));
    manifest.limits_seen = vec![Limit {
        kind: Kind::Cpus,
        file: "Cpus_allowed_list".to_owned(),
        value: 1,
        cpus: "0".to_owned(),
        other_cpus: "1".to_owned(),
        hit_ns: 1_000_000_000,
        idle_ns: 800_000_000,
        ..Limit::default()
    }];
}

/// A limit of memory that was hit so often.
fn short_of_memory(manifest: &mut Manifest, hits: u64) {
    free(manifest);
    manifest.limits.memory_bytes = Some(300_000_000);
    let (file, group) = ("memory.max".to_owned(), "/a".to_owned());
    manifest.limits_seen = vec![Limit { file, group, value: 300_000_000, hits, ..Limit::default() }];
}

fn queues(limits: fn(&mut Manifest)) -> Made {
    Made { scenario: "BM/1/PIN/CPU", runq_ns: 900_000, limits, ..Made::default() }
}

#[test]
fn cpus_that_may_not_be_used_are_behind_a_queue() {
    let directory = folders(10, &[Made { limits: free, ..clean() }, queues(pinned)]);
    let text = text(guestscope(directory.path(), &["."]), 0);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("limits of BM/1/PIN/CPU differ: CPUs 1 of 2 (baseline 2)"), "{text}");
    let limit = "limit runq: CPUs 1 of 2 (baseline 2); threads with a mask of CPU 0 alone (taskset, \
                 sched_setaffinity) stood in its run queue for 1.00 s; CPU 1 was idle for 80.0 % of that";
    assert!(flat.contains(limit) && flat.contains(ADVICE), "{text}");
    let json = json(directory.path(), &["."]);
    let limits = &json["platforms"][0]["limits"];
    assert_eq!(limits[0]["kind"], "limit.cpus");
    assert_eq!((&limits[0]["baseline"], &limits[0]["value"]), (&"2".into(), &"1 of 2".into()));
    assert!(limits[0]["causes"].as_array().unwrap().contains(&"runq".into()), "{limits}");
    assert!(json["platforms"][0]["advice"]["text"].as_str().unwrap().contains(ADVICE));
}

#[test]
fn equal_limits_and_those_of_folders_that_do_not_tell_are_not_mentioned() {
    for (first, second) in [(free as fn(&mut Manifest), free as fn(&mut Manifest)), (|_| (), pinned)] {
        let directory = folders(10, &[Made { limits: first, ..clean() }, queues(second)]);
        let text = text(guestscope(directory.path(), &["."]), 0);
        assert!(!text.contains("limit") && !text.contains(ADVICE), "{text}");
    }
}

#[test]
fn a_limit_that_was_not_hit_or_has_nothing_to_do_with_it_explains_nothing() {
    for limits in
        [(|one| short_of_memory(one, 0)) as fn(&mut Manifest), |one| short_of_memory(one, 1_000_000)]
    {
        let directory = folders(10, &[Made { limits: free, ..clean() }, queues(limits)]);
        let text = text(guestscope(directory.path(), &["."]), 0);
        assert!(text.contains("limits of BM/1/PIN/CPU differ: memory 300 MB (baseline none)"), "{text}");
        assert!(!text.contains("memory.max"), "{text}");
    }
}

/// Longer waits for a thread, for which a queue of workers is behind it, or is not.
#[test]
fn workers_in_a_queue_are_behind_waits_for_them() {
    let waits = |limits: fn(&mut Manifest)| Made {
        scenario: "BM/1/PIN/CPU",
        lock_ns: 9_000_000,
        limits,
        ..Made::default()
    };
    let told = |slow: Made| {
        let directory = folders(10, &[Made { limits: free, ..clean() }, slow]);
        let text = text(guestscope(directory.path(), &["."]), 0);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let explained = "limit lock: CPUs 1 of 2 (baseline 2); threads with a mask of CPU 0 alone";
    let text = told(waits(pinned));
    assert!(text.contains(explained) && text.contains(ADVICE), "{text}");
    let text = told(waits(|manifest| {
        pinned(manifest);
        manifest.limits_seen[0].hit_ns = 1_000_000;
    }));
    assert!(text.contains("CPUs 1 of 2 (baseline 2)") && !text.contains(explained), "{text}");
}
