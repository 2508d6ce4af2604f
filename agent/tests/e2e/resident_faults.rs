//! A resident agent on a disk that becomes full, and is free again; one that the kernel kills for its memory.

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _};

use nix::sys::signal::Signal;

use crate::{
    ground::eventually,
    groups::Group,
    mounts::{in_private_mounts, tiny_disk},
    watching::Resident,
};

/// Rows that have no place are lost and counted, requests are counted as before, the program knows nothing of
/// it; and once there is room again, incidents are kept again.
#[test]
fn a_full_disk_costs_rows_alone() {
    let test = "resident_faults::a_full_disk_costs_rows_alone";
    let Some(resident) = Resident::new(test) else { return };
    in_private_mounts(test, || {
        let directory = resident.ground.path("watch");
        fs::create_dir(&directory).expect("the folder is ours");
        tiny_disk(&directory, 8 << 20);
        // Nobody else may write there, or the agent refuses it.
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).expect("it is ours");
        let slow = "[[triggers]]\nslower_than = '200ms'\n[incidents]\nbefore = '3s'\nafter = '1s'\nalike_for = '1s'\n";
        resident.configure("*spikes*", slow);
        let agent = resident.watch("agent", &[]);
        let program = resident.program("book");
        resident.wait_until_seen(200);
        let mut ballast = fs::File::create(directory.join("ballast")).expect("there is room");
        while ballast.write_all(&[1; 512]).is_ok() {}
        let status = eventually("rows are lost", || {
            let status = resident.ctl("status");
            (status["rows_lost"].as_u64() > Some(0)).then_some(status)
        });
        assert!(status["last_error"].as_str().is_some_and(|text| text.contains("No space left")), "{status}");
        let before = status["requests"].as_u64().expect("a number");
        resident.wait_until_seen(before + 200);
        resident.make_slow("book");
        eventually("an incident that cannot be kept", || {
            let status = resident.ctl("status");
            let told =
                status["incidents_failed"].as_u64() > Some(0) || status["incidents"].as_u64() > Some(0);
            told.then_some(())
        });
        drop(ballast);
        fs::remove_file(directory.join("ballast")).expect("it is there");
        // Segments that were damaged by the lack of room are older than the next incident by then.
        let now = resident.ctl("status")["requests"].as_u64().expect("a number");
        resident.wait_until_seen(now + 1500);
        resident.make_slow("book");
        let kept = eventually("an incident", || {
            let list = resident.ctl("incidents");
            let all = list.as_array()?.iter();
            all.filter_map(|one| one["folder"].as_str()).find(|folder| !folder.is_empty()).map(str::to_owned)
        });
        let done = resident.ground.command(&["explain"]).word(&kept).finish().expect(0);
        assert!(done.stdout.contains("sleep"), "{}", done.stdout);
        agent.signal(Signal::SIGTERM);
        agent.finish().expect(0);
        drop(program);
    });
}

/// Metrics and the state alone: 2 MiB of memory are room enough.
#[test]
fn an_agent_without_a_disk_counts() {
    let test = "resident_faults::an_agent_without_a_disk_counts";
    let Some(resident) = Resident::new(test) else { return };
    in_private_mounts(test, || {
        let directory = resident.ground.path("watch");
        fs::create_dir(&directory).expect("the folder is ours");
        tiny_disk(&directory, 2 << 20);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).expect("it is ours");
        // The helper configures the recorder's times.
        resident.configure("*spikes*", "rows = false\n");
        let agent = resident.watch("agent", &[]);
        let program = resident.program("book");
        resident.make_slow("book");
        resident.wait_until_seen(3000);
        let socket = resident.ground.path("watch.sock");
        let refused =
            resident.ground.command(&["ctl", "trigger", "--socket"]).word(socket).finish().expect(2);
        assert!(refused.stderr.contains("nothing is kept"), "{}", refused.stderr);
        agent.signal(Signal::SIGUSR1);
        let list = eventually("it is refused", || {
            let list = resident.ctl("incidents");
            (list[0]["error"].as_str()?.contains("nothing is kept")).then_some(list)
        });
        assert_eq!(list.as_array().map(Vec::len), Some(1), "no request is an incident: {list}");
        let status = resident.ctl("status");
        let told = (&status["rows_lost"], &status["last_error"], &status["incidents_failed"]);
        assert_eq!(told, (&0.into(), &"".into(), &1.into()), "{status}");
        agent.signal(Signal::SIGTERM);
        agent.finish().expect(0);
        drop(program);
    });
}

/// The kernel kills the agent: the program goes on, and the next agent has what the first one recorded.
#[test]
fn an_agent_without_memory_is_killed_alone() {
    let test = "resident_faults::an_agent_without_memory_is_killed_alone";
    let Some(resident) = Resident::new(test) else { return };
    let Some(group) = Group::with("memory", test, "agent") else { return };
    resident.configure("*spikes*", "[incidents]\nbefore = '60s'\nafter = '1s'\n");
    let program = resident.program("book");
    let agent = resident.watch("first", &[]);
    resident.wait_until_seen(300);
    group.take("", agent.pid());
    let file = |name: &str| group.directory().join(name);
    let limit = if file("memory.max").exists() { "memory.max" } else { "memory.limit_in_bytes" };
    // Version 1 charges a group for what its processes take from then on; the incident needs more than this.
    let _ = fs::write(file(limit), "262144");
    let socket = resident.ground.path("watch.sock");
    // It may be dead before it has answered.
    drop(resident.ground.command(&["ctl", "trigger", "--socket"]).word(socket).finish());
    assert_eq!(agent.finish().code(), 1000 + Signal::SIGKILL as i32);
    let events = fs::read_to_string(file("memory.events"))
        .or_else(|_| fs::read_to_string(file("memory.oom_control")))
        .expect("the group tells");
    assert!(events.lines().any(|line| line == "oom_kill 1"), "{events}");
    resident.check_next_has_what_was_recorded();
    drop(program);
}
