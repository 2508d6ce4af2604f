//! A resident agent while the wall clock is set: what it records and notices follows the monotonic clock,
//! what it says of times follows the wall clock of the moment.

use std::path::Path;

use guestscope::folder::Folder;
use nix::{
    sys::{signal::Signal, time::TimeValLike as _},
    time::{ClockId, clock_gettime},
    unistd::sync,
};

use crate::{
    clocks::{HOUR_S, step},
    disposable::is_ours,
    ground::{eventually, skipped, variable},
    watching::{Resident, SLOW},
};

/// Incidents follow each other at once, and each is kept.
const AT_ONCE: &str = "alike_for = '1s'\nper_hour = 60\n";

/// `2026-11-29T03` of the wall clock now.
fn hour() -> String {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).expect("it can be read");
    let time = guestscope::folder::rfc3339(now.num_nanoseconds().unsigned_abs());
    time.split(':').next().unwrap_or_default().to_owned()
}

#[test]
fn steps_of_the_wall_clock_cost_a_resident_agent_nothing() {
    let test = "resident::steps_of_the_wall_clock_cost_a_resident_agent_nothing";
    if !is_ours(test) {
        return;
    }
    let Some(resident) = Resident::new(test) else { return };
    resident.configure("*spikes*", &format!("{SLOW}{AT_ONCE}"));
    let agent = resident.watch("agent", &[]);
    let program = resident.program("book");
    resident.wait_until_seen(150);
    for (number, seconds) in [0, HOUR_S, -2 * HOUR_S].into_iter().enumerate() {
        step(seconds);
        let before = hour();
        // The agent looks at both clocks once a second.
        resident.wait_for("book", 300);
        resident.make_slow("book");
        resident.wait_for("book", 10);
        let list = resident.incidents(number + 1);
        assert_eq!(list.len(), number + 1, "{list:?}");
        let (at, after) = (list[0]["at"].as_str().unwrap_or_default(), hour());
        assert!(at.starts_with(&before) || at.starts_with(&after), "{at} at {before} to {after}");
        let path = list[0]["folder"].as_str().expect("it was kept");
        let folder = Folder::open(path).expect("it is a run folder");
        let record = folder.manifest().incident.clone().expect("it is one of an incident");
        assert!(record.to_ns - record.from_ns < 60_000_000_000, "{record:?}");
        let requests = folder.requests().expect("it has some").map(|one| one.expect("it is whole"));
        let slow = requests.filter(|request| request.root().duration_ns >= 400_000_000).count();
        assert_eq!(slow, 1, "the slow one, and none of the incident before");
    }
    let status = resident.ctl("status");
    assert_eq!(status["rows_lost"], 0, "{status}");
    for key in ["kernel_edges", "pairing_edges_lost"] {
        assert!(status["losses"][key].is_null(), "{status}");
    }
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
    drop(program);
}

/// The machine starts anew without a warning. The agent of the next boot starts in the directory of the first
/// one, whose files are as far on the disk as the kernel had written them; what was kept before is still
/// there.
#[test]
fn a_reboot_in_the_middle_costs_the_last_seconds() {
    let test = "resident::a_reboot_in_the_middle_costs_the_last_seconds";
    if !is_ours(test) {
        return;
    }
    if variable("GUESTSCOPE_REBOOTS").is_none() {
        return skipped(test, "only in the guest that may start anew");
    }
    let Some(resident) = Resident::new(test) else { return };
    // On the disk: the folder of a test is in memory here.
    let place = Path::new("/var/tmp/rebooted");
    let is_second = place.exists();
    std::fs::create_dir_all(place).expect("there is room");
    sync();
    resident.configure_in(&place.join("watch"), "*spikes*", &format!("{SLOW}{AT_ONCE}"));
    let agent = resident.watch("agent", &[]);
    let program = resident.program("book");
    resident.wait_until_seen(300);
    resident.make_slow("book");
    let list = resident.incidents(if is_second { 2 } else { 1 });
    if !is_second {
        sync();
        resident.wait_for("book", 1000);
        // SAFETY: takes no pointers. It does not write what is cached.
        unsafe { libc::reboot(libc::RB_AUTOBOOT) };
        unreachable!("the machine starts anew");
    }
    assert_eq!(list.len(), 2, "{list:?}");
    for incident in &list {
        let path = incident["folder"].as_str().expect("it was kept");
        let folder = Folder::open(path).expect("it is a run folder");
        let requests = folder.requests().expect("it has some").map(|one| one.expect("it is whole"));
        let slow = requests.filter(|request| request.root().duration_ns >= 400_000_000).count();
        assert_eq!(slow, 1, "its own slow one, and none of the other boot");
    }
    let boots: Vec<String> = list
        .iter()
        .filter_map(|one| Folder::open(one["folder"].as_str()?).ok())
        .map(|folder| folder.manifest().boot_id.clone())
        .collect();
    assert!(boots.len() == 2 && boots[0] != boots[1], "{boots:?}");
    let status = resident.ctl("status");
    assert_eq!((&status["rows_lost"], &status["incidents_failed"]), (&0.into(), &0.into()), "{status}");
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
    drop(program);
}

/// What ends before a look is counted on this kernel as well.
#[test]
fn programs_that_end_at_once_are_counted() {
    let test = "resident::programs_that_end_at_once_are_counted";
    if !is_ours(test) {
        return;
    }
    let Some(resident) = Resident::new(test) else { return };
    // A program of its own: nothing else in the guest runs it.
    let meant = resident.ground.path("meant");
    std::fs::copy(crate::ground::subject(), &meant).expect("there is room");
    resident.configure("*spikes*", &format!("[[programs]]\nexecutable = '{}'\n", meant.display()));
    let agent = resident.watch("agent", &[]);
    for _ in 0..30 {
        // It has no such role, and ends at once.
        let done =
            crate::running::Start::new(&resident.ground.path(""), &meant).words(&["no such role"]).finish();
        assert_ne!(done.code(), 0);
    }
    let unseen = || resident.ctl("status")["losses"]["programs_ended_unseen"].as_u64().unwrap_or(0);
    eventually("they are counted", || (unseen() >= 24).then_some(()));
    assert!(unseen() <= 30, "{}", unseen());
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
}
