//! Limits that are hit are named with the group that has them; limits that are only there are not.

use std::{fs, path::Path};

use serde_json::Value;

use crate::{
    ground::{Ground, subject},
    groups::Group,
    running::Done,
    surroundings::has,
};

/// Gives the group this much CPU time per 100 ms, in its version's way. Returns the name of the file.
fn set_quota(group: &Path, quota_us: u32) -> &'static str {
    let old = group.join("cpu.cfs_quota_us");
    if old.exists() {
        fs::write(old, quota_us.to_string()).expect("the group is ours");
        return "cpu.cfs_quota_us";
    }
    fs::write(group.join("cgroup.subtree_control"), "+cpu").expect("the group is ours");
    fs::write(group.join("cpu.max"), format!("{quota_us} 100000")).expect("the group is ours");
    "cpu.max"
}

/// Requests of 5 ms on a CPU, in the inner one of two groups, of which the outer one has a quota.
fn with_quota(test: &str, quota_us: u32) -> Option<(Done, String, &'static str)> {
    let (ground, group) = (Ground::new(test)?, Group::with("cpu", test, "outer/inner")?);
    let outer = group.directory().parent().expect("it is below another");
    let file = set_quota(outer, quota_us);
    let enter = format!("echo 0 > '{}/cgroup.procs' && exec \"$@\"", group.directory().display());
    let run = ground.run().program("sh").words(&["-c", &enter, "sh"]);
    let done = run.word(subject()).words(&["requests", "60", "5000"]).finish().expect(0);
    let path = group.path();
    Some((done, path.trim_end_matches("/inner").to_owned(), file))
}

fn limits(done: &Done) -> Value {
    done.summary()["groups"][0]["limits"].clone()
}

#[test]
fn the_group_above_that_has_the_quota_is_named() {
    let test = "limited::the_group_above_that_has_the_quota_is_named";
    let Some((done, outer, file)) = with_quota(test, 20_000) else { return };
    let told = &limits(&done)[0];
    assert_eq!((&told["cause"], &told["kind"]), (&"throttled".into(), &"limit.quota".into()), "{told}");
    assert_eq!((&told["file"], &told["group"]), (&file.into(), &outer.into()), "{told}");
    assert_eq!((&told["value"], &told["period_ns"]), (&20_000_000.into(), &100_000_000.into()), "{told}");
    assert!(told["hits"].as_u64() > Some(0), "{told}");
}

#[test]
fn a_quota_that_does_not_run_out_is_not_named() {
    let test = "limited::a_quota_that_does_not_run_out_is_not_named";
    let Some((done, ..)) = with_quota(test, 10_000_000) else { return };
    assert!(limits(&done).is_null(), "{}", limits(&done));
}

/// A neighbour on the only CPU that the program may use, while another CPU is free for it.
#[test]
fn a_mask_that_keeps_from_idle_cpus_is_in_the_folder() {
    let test = "limited::a_mask_that_keeps_from_idle_cpus_is_in_the_folder";
    let Some(ground) = Ground::new(test).filter(|_| has(test, "taskset")) else { return };
    let beside = "timeout 60 sh -c 'while :; do :; done' & \"$@\"; code=$?; kill $!; exit $code";
    let run = ground.run().program("taskset").words(&["-c", "0", "sh", "-c", beside, "sh"]);
    let done = run.word(subject()).words(&["requests", "60", "5000"]).finish().expect(0);
    let manifest = done.seen().manifest;
    let mask = manifest.limits_seen.iter().find(|limit| limit.file == "Cpus_allowed_list");
    let online = manifest.logical_cpus;
    assert_eq!(mask.is_some(), online > 1, "{:?}", manifest.limits_seen);
    let Some(mask) = mask else { return };
    assert_eq!((&*mask.cpus, mask.value), ("0", 1));
    assert!(mask.hit_ns > 0 && !mask.other_cpus.is_empty(), "{mask:?}");
}
