//! `watch`: programs that come and go, incidents by requests, signals and `ctl`, restarts, a second agent.

use std::{fs, process::Stdio};

use guestscope::folder::Folder;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    ground::eventually,
    running::Start,
    watching::{Resident, SLOW},
};

#[test]
fn a_slow_request_becomes_an_incident_that_explain_reads() {
    let Some(resident) = Resident::new("resident::a_slow_request_becomes_an_incident_that_explain_reads")
    else {
        return;
    };
    resident.configure("*spikes*", SLOW);
    let agent = resident.watch("agent", &["--once"]);
    // It starts after the agent.
    let program = resident.program("book");
    resident.wait_until_seen(300);
    resident.make_slow("book");
    let done = agent.finish().expect(0);
    drop((done, program));

    let list = fs::read_to_string(resident.ground.path("watch/incidents.json")).expect("it was saved");
    let list: Value = serde_json::from_str(&list).expect("it is JSON");
    let incident = &list["incidents"][0];
    assert_eq!((incident["request"].as_str(), incident["cause"].as_str()), (Some("request"), Some("sleep")));
    assert!(incident["duration_ns"].as_u64() >= Some(400_000_000), "{incident}");
    let path = incident["folder"].as_str().expect("it was kept");
    let folder = Folder::open(path).expect("it is a run folder");
    let record = folder.manifest().incident.clone().expect("it is one of an incident");
    assert_eq!(record.trigger, "request of request: slower than 200ms");
    let requests: Vec<_> =
        folder.requests().expect("it has some").map(|one| one.expect("it is whole")).collect();
    let within = requests.iter().filter(|one| one.root().start_ns + one.root().duration_ns >= record.from_ns);
    assert_eq!(within.count(), requests.len());
    assert!(requests.len() > 100, "{} requests", requests.len());

    let explained = resident.ground.command(&["explain", "--json"]).word(path).finish().expect(0);
    let explained: Value = serde_json::from_str(&explained.stdout).expect("it is JSON");
    let slowest = &explained["groups"][0]["explained"][0];
    assert!(slowest["latency_ns"].as_u64() >= Some(400_000_000), "{explained}");
}

#[test]
fn incidents_are_asked_for_and_alike_ones_are_counted() {
    let Some(resident) = Resident::new("resident::incidents_are_asked_for_and_alike_ones_are_counted") else {
        return;
    };
    resident.configure("*spikes*", SLOW);
    let program = resident.program("book");
    resident.wait_for("book", 1);
    let agent = resident.watch("agent", &[]);
    resident.wait_until_seen(150);
    assert_eq!(resident.ctl("status")["processes"], 1);
    resident.make_slow("book");
    resident.make_slow("book");
    resident.wait_for("book", 10);
    let list = resident.incidents(1);
    assert_eq!((list.len(), &list[0]["alike"]), (1, &Value::from(1)), "{list:?}");
    assert_eq!(resident.ctl("trigger")["triggered"], true);
    let list = resident.incidents(2);
    assert_eq!(list[0]["trigger"], "asked for");
    agent.signal(Signal::SIGUSR1);
    eventually("it is counted", || (resident.ctl("incidents")[0]["alike"] == 1).then_some(()));
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
    drop(program);
}

/// "Since the deploy": two stretches of the recorder are two folders, and what came in between is in neither.
#[test]
fn two_stretches_of_the_recorder_are_compared() {
    let Some(resident) = Resident::new("resident::two_stretches_of_the_recorder_are_compared") else {
        return;
    };
    // Nothing but what is asked for.
    resident.configure("*spikes*", "[[triggers]]\nslower_than = '1h'\n");
    let program = resident.program("book");
    let agent = resident.watch("agent", &[]);
    resident.wait_until_seen(1000);
    // The recorder has to reach back four seconds.
    std::thread::sleep(std::time::Duration::from_secs(5));
    let keep = |words: &[&str]| {
        let socket = resident.ground.path("watch.sock");
        let start = resident.ground.command(&["ctl", "keep", "--socket"]).word(socket).words(words);
        start.finish().expect(0)
    };
    keep(&["--from", "4s", "--to", "3s"]);
    keep(&["--from", "2s", "--to", "1s"]);
    let list = resident.incidents(2);
    let folders: Vec<&str> = list.iter().rev().filter_map(|one| one["folder"].as_str()).collect();
    let spans: Vec<(u64, u64)> = folders
        .iter()
        .map(|path| {
            let folder = Folder::open(path).expect("it is a run folder");
            let requests = folder.requests().expect("it has some").map(|one| one.expect("it is whole"));
            let spans: Vec<(u64, u64)> = requests
                .map(|one| (one.root().start_ns, one.root().start_ns + one.root().duration_ns))
                .collect();
            let record = folder.manifest().incident.clone().expect("it is one of an incident");
            let is_of_it = |&(begin, end): &(u64, u64)| begin <= record.to_ns && end >= record.from_ns;
            assert!(spans.iter().all(is_of_it), "{record:?} {spans:?}");
            assert!(spans.len() > 10, "{} requests", spans.len());
            (record.from_ns, record.to_ns)
        })
        .collect();
    let length = |(from_ns, to_ns): (u64, u64)| to_ns - from_ns;
    assert!(spans.iter().all(|span| length(*span).abs_diff(1_000_000_000) < 500_000_000), "{spans:?}");
    assert!(spans[0].1 < spans[1].0, "{spans:?}");
    let [before, after] =
        [("before", folders[0]), ("after", folders[1])].map(|(name, path)| format!("{name}={path}"));
    let compared = resident.ground.command(&["compare"]).word(&before).word(&after).finish();
    for name in ["before", "after"] {
        assert!(compared.stdout.contains(name), "{}{}", compared.stdout, compared.stderr);
    }
    let report = resident.ground.path("report.html");
    let start = resident.ground.command(&["report", "--output"]).word(&report).word(folders[0]);
    start.finish().expect(0);
    assert!(fs::read_to_string(&report).is_ok_and(|text| text.contains("</html>")));
    keep(&["--to", "2100-01-01T00:00:00Z", "--from", "1s"]);
    eventually("a stretch of the future is refused", || {
        let list = resident.ctl("incidents");
        list[0]["error"].as_str().is_some_and(|error| error.contains("later than")).then_some(())
    });
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
    drop(program);
}

#[test]
fn a_configuration_is_read_again_and_a_second_agent_steps_back() {
    let Some(resident) =
        Resident::new("resident::a_configuration_is_read_again_and_a_second_agent_steps_back")
    else {
        return;
    };
    resident.configure("nothing like it", SLOW);
    let program = resident.program("book");
    let agent = resident.watch("agent", &[]);
    let second = resident.agent("second", &[]).finish();
    assert_eq!(second.code(), 2);
    assert!(resident.said("second").contains("error: another agent watches this guest"));
    resident.wait_for("book", 200);
    let status = resident.ctl("status");
    assert_eq!((&status["processes"], &status["requests"]), (&Value::from(0), &Value::from(0)));
    resident.configure("*spikes*", SLOW);
    agent.signal(Signal::SIGHUP);
    resident.wait_until_seen(50);
    // One that makes no sense changes nothing.
    resident.configure("*spikes*", "[[trigger]]\n");
    agent.signal(Signal::SIGHUP);
    eventually("it is refused", || {
        let said = resident.said("agent");
        said.contains("the configuration stays as it was").then_some(())
    });
    resident.wait_for("book", 10);
    let before = resident.ctl("status")["requests"].as_u64();
    eventually("it goes on", || (resident.ctl("status")["requests"].as_u64() > before).then_some(()));
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
    drop(program);
}

#[test]
fn a_killed_agent_harms_nobody_and_the_next_one_has_what_it_recorded() {
    let Some(resident) =
        Resident::new("resident::a_killed_agent_harms_nobody_and_the_next_one_has_what_it_recorded")
    else {
        return;
    };
    resident.configure("*spikes*", "[incidents]\nbefore = '60s'\nafter = '1s'\n");
    let program = resident.program("book");
    let agent = resident.watch("first", &[]);
    resident.wait_until_seen(300);
    agent.signal(Signal::SIGKILL);
    assert_eq!(agent.finish().code(), 1000 + Signal::SIGKILL as i32);
    resident.check_next_has_what_was_recorded();
    drop(program);
}

/// An incident that still waits for its end when the agent is stopped is kept as far as it came, and the next
/// agent counts it.
#[test]
fn an_incident_under_way_is_kept_when_the_agent_is_stopped() {
    const NAME: &str = "resident::an_incident_under_way_is_kept_when_the_agent_is_stopped";
    let Some(resident) = Resident::new(NAME) else { return };
    let config =
        "[[triggers]]\nslower_than = '1h'\n[incidents]\nbefore = '30s'\nafter = '80s'\nper_hour = 1\n";
    resident.configure("*spikes*", config);
    let program = resident.program("book");
    let agent = resident.watch("first", &[]);
    resident.wait_until_seen(300);
    let ask = || assert_eq!(resident.ctl("trigger")["triggered"], true);
    ask();
    eventually("it is noticed", || (resident.ctl("incidents")[0]["number"].is_u64()).then_some(()));
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
    assert!(resident.said("first").contains("incident: asked for: "), "{}", resident.said("first"));
    let agent = resident.watch("second", &[]);
    let list = resident.ctl("incidents");
    let folder = Folder::open(list[0]["folder"].as_str().expect("it was made")).expect("it is a run folder");
    assert!(folder.requests().expect("it has some").count() > 100);
    ask();
    eventually("it is like the one before", || (resident.ctl("incidents")[0]["alike"] == 1).then_some(()));
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
    drop(program);
}

/// What ends before anybody looks is counted: of those that were meant, all, and none of the others.
#[test]
fn programs_that_end_at_once_are_counted() {
    let Some(resident) = Resident::new("resident::programs_that_end_at_once_are_counted") else { return };
    let copy = |name: &str| {
        let path = resident.ground.path(name);
        fs::copy("/bin/true", &path).expect("there is one");
        path
    };
    let (meant, other) = (copy("meant"), copy("other"));
    resident.configure("*spikes*", &format!("[[programs]]\nexecutable = '{}'\n", meant.display()));
    let agent = resident.watch("agent", &[]);
    let unseen = || resident.ctl("status")["losses"]["programs_ended_unseen"].as_u64().unwrap_or(0);
    assert_eq!(unseen(), 0);
    for program in [&meant, &other].into_iter().cycle().take(60) {
        Start::new(&resident.ground.path(""), program).finish().expect(0);
    }
    // A few may be there at the very moment of a look.
    eventually("all are counted", || (unseen() >= 27).then_some(()));
    assert!(unseen() <= 30, "{}", unseen());
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
}

/// Two programs have command lines that fit; the one that carries the marker is selected.
#[test]
fn programs_with_marks_are_selected_by_them() {
    let Some(resident) = Resident::new("resident::programs_with_marks_are_selected_by_them") else { return };
    let other = Start::new(&resident.ground.path(""), "/bin/sh".as_ref()).words(&["-c", "read spikes"]);
    let other = other.stdin(Stdio::piped()).spawn();
    let program = resident.program("book");
    // No program fits the first table.
    let selected = |marked: bool| {
        let table = format!("[[programs]]\ncommand = '* *spikes*'\nmarked = {marked}\n");
        resident.configure("nothing like it", &table);
    };
    selected(true);
    let agent = resident.watch("agent", &[]);
    resident.wait_until_seen(150);
    assert_eq!(resident.ctl("status")["processes"], 1);
    selected(false);
    agent.signal(Signal::SIGHUP);
    eventually("both are observed", || (resident.ctl("status")["processes"] == 2).then_some(()));
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
    drop((program, other));
}

/// An agent that may take next to nothing keeps the rows of few requests. What is noticed is kept whole, with
/// its waits, and everything is counted.
#[test]
fn an_agent_keeps_to_its_share_of_the_cpus() {
    let Some(resident) = Resident::new("resident::an_agent_keeps_to_its_share_of_the_cpus") else { return };
    resident.configure("*spikes*", &format!("{SLOW}[agent]\ncpu_percent = 0.1\nsee_all = true\n"));
    let agent = resident.watch("agent", &[]);
    let program = resident.program("book");
    eventually("it keeps fewer", || (resident.ctl("status")["kept_part"].as_f64()? <= 0.25).then_some(()));
    assert!(resident.said("agent").contains("it looks at 1 of 1 requests, and keeps 1 of "));
    // What was kept until then is older than what an incident has of the time before.
    resident.wait_for("book", 1200);
    resident.make_slow("book");
    let incident = resident.incidents(1).remove(0);
    let path = incident["folder"].as_str().expect("it was kept").to_owned();
    let folder = Folder::open(&path).expect("it is a run folder");
    let kept = folder.manifest().kept.expect("not all was kept");
    let requests: Vec<_> =
        folder.requests().expect("it has some").map(|one| one.expect("it is whole")).collect();
    assert!(kept.sample < 0.4 && kept.sampled_out as usize > requests.len(), "{kept:?}: {}", requests.len());
    let slow = requests.iter().map(guestscope::phase::Request::root).max_by_key(|root| root.duration_ns);
    let slow = slow.filter(|root| root.duration_ns >= 400_000_000).expect("the slow one is there");
    let mut waits = folder.waits().expect("it has some").map(|one| one.expect("it is whole"));
    assert!(waits.any(|wait| wait.root == Some(slow.id) && wait.duration_ns >= 300_000_000));
    let done = resident.ground.command(&["explain"]).word(&path).finish().expect(0);
    assert!(done.stdout.contains("chosen at random"), "{}", done.stdout);
    let status = resident.ctl("status");
    assert!(status["requests"].as_u64() >= Some(1200), "{status}");
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
    drop(program);
}

/// Where rows are not enough, requests are not even looked at: all of them are counted, and nothing is lost.
#[test]
fn an_agent_looks_at_fewer_requests() {
    let Some(resident) = Resident::new("resident::an_agent_looks_at_fewer_requests") else { return };
    resident.configure("*spikes*", "[agent]\ncpu_percent = 0.1\n");
    let agent = resident.watch("agent", &[]);
    let program = resident.program("book");
    eventually("it looks at fewer", || (resident.ctl("status")["seen_part"].as_f64()? < 1.0).then_some(()));
    eventually("they are counted", || {
        (resident.ctl("status")["requests_unseen"].as_u64()? > 20).then_some(())
    });
    assert!(resident.said("agent").contains("it looks at 1 of "), "{}", resident.said("agent"));
    drop(program);
    let done = resident.requests("book") as u64;
    // Requests before the program was taken up, of six edges each. It was inside one then and at its end.
    let losses = resident.ctl("status")["losses"].clone();
    let before = losses["pairing_edges_before"].as_u64().unwrap_or(0) / 6;
    let expected = done - before - 2..=done - before + 2;
    let is_counted = || expected.contains(&resident.ctl("status")["requests"].as_u64()?).then_some(());
    eventually("every request is counted", is_counted);
    let lost = losses.as_object().expect("it is a table").keys();
    let is_known = |key: &&String| {
        ["pairing_edges_before", "pairing_unmatched_ends", "pairing_unended_phases"].contains(&key.as_str())
    };
    assert_eq!(lost.filter(|key| !is_known(key)).count(), 0, "{losses}");
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
}
