//! `attach` to a control group in which nobody is yet.

use crate::{
    attach::{attach, stranger, wait_for_requests},
    ground::{Ground, eventually},
    groups::Group,
};

#[test]
fn a_group_that_is_still_empty_is_waited_for() {
    let test = "awaited::a_group_that_is_still_empty_is_waited_for";
    let Some(ground) = Ground::new(test) else { return };
    let Some(group) = Group::new(test, "empty") else { return };
    let directory = group.directory().display().to_string();
    let run = attach(&ground, &["--cgroup", &directory]).spawn();
    let says = format!("no process is in the cgroup {directory} yet: waiting");
    eventually("it waits", || run.stderr().contains(&says).then_some(()));
    let program = stranger(&ground, "book").words(&["requests", "1000000", "100", "900"]).spawn();
    group.take("", program.pid());
    // It looks every second.
    wait_for_requests(&ground, "book", 3_000);
    drop(program);
    let done = run.finish().expect(0);
    let seen = done.seen();
    assert!(seen.requests.len() > 100, "{} requests", seen.requests.len());

    let done = attach(&ground, &["--cgroup", &directory, "--duration", "1s"]).finish().expect(1);
    assert!(done.stderr.contains("nothing observed: no process joined the target"), "{}", done.stderr);
}
