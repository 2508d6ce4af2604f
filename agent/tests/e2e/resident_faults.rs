//! A resident agent on a disk that becomes full, and is free again.

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _};

use nix::sys::signal::Signal;

use crate::{
    ground::eventually,
    mounts::{in_private_mounts, tiny_disk},
    resident::Resident,
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
