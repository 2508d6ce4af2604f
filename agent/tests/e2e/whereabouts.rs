//! A long wait records its thread's control group, and the thread's number in its own PID namespace.

use std::{fs, os::unix::fs::MetadataExt as _};

use crate::{
    ground::{Ground, subject},
    groups::Group,
    surroundings::has,
};

#[test]
fn a_wait_names_its_group_and_its_number_in_its_own_namespace() {
    let test = "whereabouts::a_wait_names_its_group";
    if !has(test, "unshare") {
        return;
    }
    let (Some(ground), Some(group)) = (Ground::new(test), Group::with("cpu", test, "inner")) else { return };
    let enter = format!("echo 0 > '{}/cgroup.procs' && exec \"$@\"", group.directory().display());
    let run = ground.run().program("unshare").words(&["-fp", "--mount-proc", "sh", "-c", &enter, "sh"]);
    let seen = run.word(subject()).words(&["waits", "2"]).finish().expect(0).seen();

    let number = fs::metadata(group.directory()).expect("the group is ours").ino();
    let waits = seen.waits();
    let inside: Vec<_> = waits.iter().filter(|wait| wait.phase.is_some()).collect();
    assert!(inside.len() >= 2, "{waits:?}");
    for wait in inside {
        // `unshare -f` starts the first process of a namespace, and a shell became the program.
        assert_eq!(wait.ns_tid, Some(1), "{wait:?}");
        assert_ne!(wait.thread.tid, 1, "{wait:?}");
        assert_eq!(wait.cgroup_number, Some(number), "{wait:?}");
        assert_eq!(
            wait.cgroup.as_ref().map(guestscope::untrusted::Untrusted::stored),
            Some(&*group.path()),
            "{wait:?}"
        );
    }
}

#[test]
fn outside_of_namespaces_a_thread_has_one_number() {
    const INITIAL: &str = "pid:[4026531836]";
    let Some(ground) = Ground::new("whereabouts::outside_of_namespaces") else { return };
    let is_outside = fs::read_link("/proc/self/ns/pid").is_ok_and(|own| own.as_os_str() == INITIAL);
    let seen = ground.run_subject(&["waits", "2"]).finish().expect(0).seen();
    let waits = seen.waits();
    assert!(!waits.is_empty());
    for wait in waits {
        // If the test itself runs in a PID namespace, both numbers may be equal by chance.
        assert!(wait.ns_tid == Some(wait.thread.tid) || !is_outside && wait.ns_tid.is_some(), "{wait:?}");
    }
}
