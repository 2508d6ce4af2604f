//! What the agent holds while it runs, and that it leaves nothing behind: folders, BPF programs, maps, links.

use std::{collections::BTreeSet, path::Path};

use nix::sys::signal::Signal;

use crate::{
    ground::{Ground, eventually, subject},
    running::Running,
};

/// A run in the middle of its requests, with an OTLP address without a listener; the program ends on a
/// signal.
fn begun(ground: &Ground) -> Running {
    let start = ground.run().words(&["--otlp", "http://127.0.0.1:9"]).program(subject());
    let run = start.words(&["requests", "1500", "100", "900"]).spawn();
    eventually("some requests", || (ground.book().lines().count() > 100).then_some(()));
    run
}

/// IDs of BPF objects that a process holds by descriptors, with their kind.
pub(crate) fn held(pid: i32) -> BTreeSet<(&'static str, u32)> {
    let mut found = BTreeSet::new();
    let entries = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("the agent runs");
    for entry in entries.flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        for kind in ["prog_id", "map_id", "link_id"] {
            let value = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(':'));
            found.extend(value.and_then(|value| value.trim().parse().ok()).map(|id| (kind, id)));
        }
    }
    found
}

/// IDs of all BPF objects in the kernel.
fn loaded() -> BTreeSet<(&'static str, u32)> {
    let programs = aya::programs::loaded_programs().flatten().map(|program| ("prog_id", program.id()));
    let maps = aya::maps::loaded_maps().flatten().map(|map| ("map_id", map.id()));
    let links = aya::programs::loaded_links().flatten().map(|link| ("link_id", link.id()));
    programs.chain(maps).chain(links).collect()
}

/// Rendezvous folders of the agent with this process ID.
fn folders(pid: i32) -> Vec<String> {
    let places = ["/run", "/tmp", "/dev/shm"].into_iter().flat_map(std::fs::read_dir).flatten().flatten();
    let names = places.map(|entry| entry.path().display().to_string());
    names.filter(|path| path.contains(&format!("/guestscope-{pid}-"))).collect()
}

#[test]
fn nothing_stays() {
    let Some(ground) = Ground::new("hygiene::nothing_stays") else { return };
    let run = begun(&ground);
    let pid = run.pid();
    assert_eq!(folders(pid).len(), 1);
    let held = held(pid);
    for kind in ["prog_id", "map_id", "link_id"] {
        assert!(held.iter().any(|(other, _)| *other == kind), "{kind}: {held:?}");
    }
    assert!(held.is_subset(&loaded()), "{held:?}");
    run.finish().expect(0);
    assert_eq!(folders(pid), [""; 0]);
    assert_unloaded(&held);
    let mut left: Vec<_> =
        std::fs::read_dir(ground.path("")).expect("it is ours").flatten().map(|e| e.file_name()).collect();
    left.sort();
    assert_eq!(left, ["book", "runs", "stderr", "stdout"]);
}

pub(crate) fn assert_unloaded(held: &BTreeSet<(&'static str, u32)>) {
    // The kernel frees them a little later than it closes their descriptors.
    eventually("BPF objects are gone", || held.is_disjoint(&loaded()).then_some(()));
}

/// Also after a run that was refused.
#[test]
fn nothing_stays_of_a_refused_run() {
    let Some(ground) = Ground::new("hygiene::nothing_stays_of_a_refused_run") else { return };
    std::fs::write(ground.path("file"), "").expect("the folder is ours");
    let run = ground.command(&["run", "--output"]).word(ground.path("file")).program("true").spawn();
    let pid = run.pid();
    run.finish().expect(2);
    assert_eq!(folders(pid), [""; 0]);
    let run = ground.command(&["doctor"]).spawn();
    let pid = run.pid();
    run.finish().expect(0);
    assert_eq!(folders(pid), [""; 0]);
}

/// The kernel frees what a killed agent held; the next agent removes its folder.
#[test]
fn nothing_stays_of_a_killed_agent() {
    let Some(ground) = Ground::new("hygiene::nothing_stays_of_a_killed_agent") else { return };
    let run = begun(&ground);
    let (pid, held) = (run.pid(), held(run.pid()));
    run.signal(Signal::SIGKILL);
    eventually("the program ends by itself", || ground.book().contains("done").then_some(()));
    run.finish();
    assert_unloaded(&held);
    let next = Ground::new("hygiene::nothing_stays_of_a_killed_agent").expect("it was there before");
    next.run_subject(&["requests", "1"]).finish().expect(0);
    assert_eq!(folders(pid), [""; 0]);
    assert!(Path::new("/run").exists());
}
