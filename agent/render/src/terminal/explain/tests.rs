//! Explanations as a person sees them, by snapshots, and invariants of all: width, safety, sums.
//!
//! Requests and waits are made up; nothing here asks a terminal.

mod groups;
mod many;

use std::{convert::Infallible, path::PathBuf};

use guestscope_contract::Account;
use insta::assert_snapshot;
use proptest::prelude::*;

use super::{
    super::{
        tests::fixtures::{NARROW, UNICODE, is_safe, without_escapes},
        text,
    },
    *,
};
use crate::{
    analyze::{
        Hidden,
        explain::Wanted,
        samples::{self, Sample, Step, inference, renamed},
    },
    phase::{Blame, Request, Thread, ThreadId, Wait, WaitedIo},
    platform::CpuQuota,
};

pub(super) fn facts() -> ExplainFacts {
    ExplainFacts {
        folder: PathBuf::from("runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic"),
        name: "ic".to_owned(),
        scenario: "MVM/2/VNL/CPU".to_owned(),
        start_ns: 900_000_000,
        fidelity: Some(Fidelity::Full),
        cpu_quota: None,
        limits: Vec::new(),
        gpu_serving_percent: None,
        gpu_work: None,
        same_syscalls: true,
        is_open: false,
        has_all_waits: true,
        shown: Shown::Slowest(3),
        hidden: Hidden::default(),
        notes: Vec::new(),
    }
}

pub(super) fn explained(requests: &[Request], waits: Vec<Wait>, wanted: Wanted) -> Explanation {
    let mut explanation = Explanation::new(|| requests.iter().cloned(), wanted);
    let Ok(()) = explanation.add_waits(waits.into_iter().map(Ok::<_, Infallible>));
    one_story(&explanation);
    explanation
}

/// Whatever is explained: headline, table and advice begin with the same cause, and so do those of the JSON.
fn one_story(explanation: &Explanation) {
    let facts = ExplainFacts { shown: Shown::Slowest(2), ..facts() };
    let json = serde_json::from_str(&render_explanation_json(explanation, &facts));
    let json: serde_json::Value = json.expect("it is JSON");
    let text = render_explanation(explanation, &facts, Style { width: 400, ..UNICODE });
    let lines: Vec<&str> = text.lines().collect();
    let told = |begin: &str, after: usize| {
        let begins = lines.iter().enumerate().filter(|(_, line)| line.starts_with(begin));
        begins.filter_map(|(at, _)| lines.get(at + after).map(|line| (*line).to_owned())).collect::<Vec<_>>()
    };
    let (mut advice, mut table) =
        (told("advice  ", 0).into_iter(), told("over typical, mean  ", 1).into_iter());
    for group in json["groups"].as_array().expect("there are groups") {
        let leading = group["tails"][0]["causes"][0]["cause"].as_str();
        let headline = group["headline"]["cause"].as_str();
        assert!(headline.is_none() || leading.is_none() || headline == leading, "{group:#}");
        let first = group["advice"][0]["cause"].as_str();
        assert!(first.is_none() || first == leading.or(headline).or(first), "{group:#}");
        if let Some(first) = first {
            let line = advice.next().unwrap_or_default();
            assert!(line.starts_with(&format!("advice        {first}: ")), "{text}");
        }
        if let Some(leading) = leading.filter(|_| group["headline"]["kind"] != "nothing_stands_out") {
            let row = table.next().unwrap_or_default();
            // The rest and the sum name no cause.
            let is_sum = row.starts_with("rest  ") || row.starts_with("all of it");
            assert!(is_sum || row.split_whitespace().any(|word| word == leading), "{text}");
        }
    }
}

/// A wait in the phase of this name: blocked, throttled and in the run queue for so many us.
fn wait(request: &Request, name: &str, account: Account, times: [u64; 3]) -> Wait {
    let within =
        request.phases.iter().find(|phase| phase.name.stored() == name).expect("it is in the request");
    samples::wait(within, account, times.map(|us| us * 1_000))
}

fn named(tid: u32, comm: &str) -> Thread {
    let (accounts, counts) = (crate::phase::Accounts::default(), crate::phase::Counts::default());
    let id = ThreadId { tid, tgid: 7, born_ns: 1 };
    Thread {
        id,
        comm: comm.into(),
        end_ns: u64::MAX,
        accounts,
        inside: accounts,
        counts,
        phases: 0,
        exited: true,
    }
}

#[test]
fn throttled_requests() {
    let mut requests = inference(200);
    for request in &mut requests {
        let throttled = request.phases.iter().map(|phase| phase.accounts.get(Account::Throttled)).max();
        if throttled > Some(0) {
            request.phases[0].counts.throttle = 2;
            request.phases[3].counts.throttle = 2;
        }
    }
    let halves = [[0, 26_000, 100], [0, 21_930, 0]];
    let of = |times| wait(&requests[193], "inference", Account::Runq, times);
    let waits = halves.map(|times| Wait { cgroup: Some("/lab/ic".into()), ..of(times) }).to_vec();
    let quota = CpuQuota { quota_ns: 50_000_000, period_ns: 100_000_000, group: "/lab/ic".to_owned() };
    let facts = ExplainFacts { cpu_quota: Some(quota), shown: Shown::Slowest(2), ..facts() };
    let explanation = explained(&requests, waits, Wanted::Slowest(4));
    assert_snapshot!(render_explanation(&explanation, &facts, UNICODE));
    assert_snapshot!(render_explanation_json(&explanation, &facts));
}

/// One of 40 requests waits in poll for 9 ms more, in which other threads of its process run for so long, ns.
fn helped(ns: u64) -> String {
    let one = |number: u64| {
        let ns = if number == 39 { 10_000_000 } else { 1_000_000 };
        let steps = vec![Step::Nest("answer", vec![Step::Spend(Account::Poll, ns)])];
        Sample::new(number, number * 60_000_000 + 1_000_000_000, steps).build()
    };
    let mut requests: Vec<Request> = (0..40).map(one).collect();
    requests[39].phases.iter_mut().for_each(|phase| phase.helpers.accounts.0[Account::Cpu as usize] = ns);
    let explanation = explained(&requests, Vec::new(), Wanted::Slowest(1));
    render_explanation(&explanation, &facts(), Style { width: 400, ..UNICODE })
}

#[test]
fn own_threads_that_ran_meanwhile_are_told_where_they_ran_for_long() {
    let clause = "its share of what other threads of its process ran meanwhile: 8.00 ms instead of 0 ns";
    assert!(helped(8_000_000).contains(clause), "{}", helped(8_000_000));
    assert!(!helped(4_000_000).contains("meanwhile"), "{}", helped(4_000_000));
}

/// 40 requests, one of which meets every cause, phase by phase.
fn everybody() -> Vec<Request> {
    let us = 1_000;
    let one = |number: u64| {
        let late = |step: Step| (number == 30).then_some(step);
        let with = |step| {
            let mut steps = vec![Step::Spend(Account::Cpu, 400 * us)];
            steps.extend(late(step));
            steps
        };
        let mut steps = vec![Step::Nest("cpu", with(Step::Spend(Account::Cpu, 3_000 * us)))];
        let kinds = [
            ("runq", Account::Runq),
            ("disk", Account::BlockIo),
            ("net", Account::Net),
            ("lock", Account::Lock),
            ("other", Account::Other),
        ];
        for (index, (name, account)) in kinds.into_iter().enumerate() {
            steps.push(Step::Nest(name, with(Step::Spend(account, (9 - index as u64) * 1_000 * us))));
        }
        Sample {
            queued_ns: if number == 30 { 700 * us } else { 0 },
            ..Sample::new(number, number * 60_000_000 + 1_000_000_000, steps)
        }
        .build()
    };
    let mut requests: Vec<Request> = (0..40).map(one).collect();
    for request in &mut requests {
        let is_late = request.root().request == 30;
        for phase in &mut request.phases {
            let counts = &mut phase.counts;
            let late = |much: u64| if is_late { much } else { 0 };
            match phase.name.stored() {
                "cpu" => (counts.migrate_node, counts.sample_user) = (late(2), late(40)),
                "disk" => {
                    (counts.block_io, counts.block_queue_ns) = (2 + late(10), late(4_100 * us));
                    (counts.block_device_ns, counts.block_read_bytes) = (late(2_900 * us), late(1_200_000));
                }
                "net" => {
                    (counts.net_response, counts.net_response_ns) = (3, 2_100 * us + late(5_000 * us));
                    (counts.net_round_trip_ns, counts.net_retransmit) = (1_200 * us, late(2));
                }
                _ => {}
            }
        }
    }
    requests
}

/// The same requests, with their waits and the threads that they name.
fn everything() -> (Vec<Request>, Vec<Wait>, Vec<Thread>) {
    let us = 1_000;
    let requests = everybody();
    let late = &requests[30];
    let of = |name, account, us: u64| wait(late, name, account, [us, 0, 0]);
    let io = WaitedIo { device: "254:0".into(), name: "vda".into(), ..WaitedIo::default() };
    let blame = Blame { tid: 4711, account: Account::Throttled, stopped_by: None, ns: 5_500 * us, depth: 2 };
    let waits = vec![
        wait(late, "runq", Account::Runq, [0, 0, 5_000]),
        Wait {
            ran_before_tgid: 7,
            ran_before_comm: "python".into(),
            ran_before_tid: 991,
            ..wait(late, "runq", Account::Runq, [0, 0, 3_000])
        },
        Wait { ran_before_tid: 0, ..wait(late, "runq", Account::Runq, [0, 0, 900]) },
        Wait { io: Some(io), ..of("disk", Account::BlockIo, 6_000) },
        Wait { syscall: Some(libc::SYS_recvfrom as u32), ..of("net", Account::Net, 7_000) },
        Wait { blame: Some(blame), ..of("lock", Account::Lock, 6_000) },
        Wait { syscall: Some(9_999), ..of("other", Account::Other, 5_000) },
    ];
    (requests, waits, vec![named(4711, "worker")])
}

#[test]
fn every_kind_of_evidence_has_its_words() {
    let (requests, waits, threads) = everything();
    let mut explanation = explained(&requests, waits, Wanted::Number(30));
    let Ok(()) = explanation.add_threads(threads.into_iter().map(Ok::<_, Infallible>));
    let text = render_explanation(&explanation, &ExplainFacts { shown: Shown::One, ..facts() }, UNICODE);
    assert_snapshot!(text);
}

#[test]
fn spinning_for_a_helper_and_first_touches() {
    let one = |number: u64| {
        let mut touch = vec![Step::Spend(Account::Cpu, 6_500_000)];
        let mut wait = vec![Step::Spend(Account::Cpu, 900_000)];
        if number == 70 {
            touch.push(Step::Spend(Account::Cpu, 25_000_000));
            wait.extend([Step::Spend(Account::Cpu, 28_600_000), Step::Kept(0, 29_000_000)]);
        }
        let steps = vec![Step::Nest("touch", touch), Step::Nest("spin", wait)];
        Sample::new(number, 1_000_000_000 + number * 90_000_000, steps).build()
    };
    let mut requests: Vec<Request> = (0..100).map(one).collect();
    for request in &mut requests {
        let samples = if request.root().request == 70 { 16 } else { 3 };
        for phase in 0..2 {
            (request.phases[phase].counts.fault_minor, request.phases[phase].counts.sample_fault) =
                (5_408, samples);
        }
    }
    let late = &requests[70];
    let of_helper = Wait {
        phase: None,
        root: None,
        thread: ThreadId { tid: 4711, tgid: 7, born_ns: 1 },
        ..wait(late, "spin", Account::Runq, [0, 0, 27_500])
    };
    let mut explanation = explained(&requests, vec![of_helper], Wanted::Slowest(1));
    let Ok(()) = explanation.add_threads([named(4711, "python")].into_iter().map(Ok::<_, Infallible>));
    let text = render_explanation(&explanation, &facts(), UNICODE);
    assert_snapshot!(text);
}

#[test]
fn what_was_not_seen_is_said() {
    let facts = ExplainFacts {
        fidelity: Some(Fidelity::Procfs),
        is_open: true,
        notes: vec!["waits are missing: not a file\u{1b}[2J".to_owned()],
        folder: PathBuf::from("runs/it's here"),
        ..facts()
    };
    let text = render_explanation(&explained(&inference(25), Vec::new(), Wanted::Slowest(1)), &facts, NARROW);
    assert_snapshot!(text);
}

#[test]
fn what_is_folded_is_advised_to_be_seen_first() {
    let late = |number: u64| {
        let other = Step::Spend(Account::Other, if number == 7 { 9_000_000 } else { 0 });
        Sample::new(number, number * 20_000_000, vec![Step::Spend(Account::Cpu, 1_000_000), other]).build()
    };
    let requests: Vec<Request> = (0..40).map(late).collect();
    let explanation = explained(&requests, Vec::new(), Wanted::Slowest(1));
    let advice = |fidelity| {
        let facts = ExplainFacts { fidelity: Some(fidelity), ..facts() };
        let (advised, _) =
            advised(&explanation.summary.groups[0], &explanation.groups[0], &explanation.circle, &facts);
        (advised[0].cause, advised[0].advice.text.clone())
    };
    let known = crate::analyze::advice::for_cause("other.unseen").expect("there is advice").text;
    assert_eq!(advice(Fidelity::Full), ("other", known));
    assert!(advice(Fidelity::Procfs).1.starts_with("Here it is all waiting but for a CPU"));
}

#[test]
fn two_kinds_and_nothing_that_stands_out() {
    let alike = (0..30).map(|number| {
        let steps = vec![Step::Nest("inference", vec![Step::Spend(Account::Cpu, 1_000_000)])];
        Sample::new(number, number * 2_000_000, steps).build()
    });
    let mut requests: Vec<Request> = alike.collect();
    requests.extend(inference(12).into_iter().map(|request| renamed(request, "batch\u{1b}[2J")));
    let text = render_explanation(&explained(&requests, Vec::new(), Wanted::Slowest(1)), &facts(), UNICODE);
    assert_snapshot!(text);
}

#[test]
fn a_folder_is_quoted_where_a_shell_would_take_it_apart() {
    let cases = [
        ("runs/a-b_c.d", "runs/a-b_c.d"),
        ("a b", "'a b'"),
        ("it's", "'it'\\''s'"),
        ("", "''"),
        ("$x", "'$x'"),
    ];
    for (path, expected) in cases {
        assert_eq!(quoted(path), expected);
    }
}

#[test]
fn colour_is_emphasis_and_nothing_else() {
    let (requests, waits, _) = everything();
    let explanation = explained(&requests, waits, Wanted::Slowest(3));
    let plain = render_explanation(&explanation, &facts(), UNICODE);
    let coloured = render_explanation(&explanation, &facts(), Style { color: true, ..UNICODE });
    assert!(coloured.contains("\x1b["));
    assert_eq!(without_escapes(&coloured), plain);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_run_keeps_the_layout_and_what_is_shown_adds_up(
        names in proptest::collection::vec(any::<String>(), 1..5),
        times in proptest::collection::vec((0..guestscope_contract::ACCOUNTS, 0u64..1 << 40), 1..140),
        width in 60usize..=120,
        unicode in any::<bool>(),
        is_one in any::<bool>(),
    ) {
        let names: Vec<&'static str> = names.into_iter().map(|name| &*name.leak()).collect();
        let requests: Vec<Request> = times.iter().enumerate().map(|(index, &(account, ns))| {
            let spend = Step::Spend(Account::ALL[account], ns);
            let steps = vec![Step::Nest(names[index % names.len()], vec![spend.clone()]), spend];
            renamed(Sample::new(index as u64, index as u64 * 1_000, steps).build(), names[index % 2 % names.len()])
        }).collect();
        let waits = requests.iter().map(|request| {
            let phase = request.phases[1].name.clone();
            Wait { ran_before_comm: names[0].into(), ..wait(request, phase.stored(), Account::Lock, [900, 20, 100]) }
        }).collect();
        let wanted = if is_one { Wanted::Number(0) } else { Wanted::Slowest(3) };
        let explanation = explained(&requests, waits, wanted);
        let shown = if is_one { Shown::One } else { Shown::Slowest(2) };
        let facts = ExplainFacts { folder: PathBuf::from(names[0]), name: names[0].to_owned(), notes: vec![names[0].to_owned()], shown, ..facts() };
        let text = render_explanation(&explanation, &facts, Style { width, color: false, unicode });
        prop_assert!(is_safe(&text));
        prop_assert!(is_safe(&render_explanation_json(&explanation, &facts)));
        for line in text.lines() {
            prop_assert!(text::width(line) <= width, "{} columns: {}", width, line);
            prop_assert!(unicode || line.is_ascii());
        }
        for case in explanation.groups.iter().flat_map(|group| &group.cases) {
            let shown = super::shown(case);
            prop_assert_eq!(shown.iter().map(|phase| phase.excess_ns).sum::<i64>(), case.excess_ns);
            for phase in shown.iter().filter(|phase| phase.phase.is_some()) {
                prop_assert_eq!(phase.parts.iter().map(|part| part.excess_ns).sum::<i64>(), phase.excess_ns);
            }
        }
    }
}
