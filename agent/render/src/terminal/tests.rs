//! Every text as a person sees it, by snapshots.
//!
//! Snapshots are read in review; what no reviewer sees is tested in [`layout`]. Nothing here asks a terminal.

pub(super) mod fixtures;
mod gpu;
mod inside;
mod layout;
mod longest;

use std::time::Duration;

use guestscope_contract::Account;
use insta::assert_snapshot;

use self::fixtures::{
    NARROW, UNICODE, doctor, facts, healthy, hooks, is_safe, lossy, summary_of, text_of, without_escapes,
};
use super::{health_lines, text, *};
use crate::{
    analyze::samples::{Sample, Step, inference, process, renamed, wait_outside},
    health::{ExportHealth, Fidelity, Health, Outcome},
    phase::{Blame, Ending, Request, Restored, RestoredBy, Wait, WaitedIo},
};

#[test]
fn ordinary_run() {
    let text = text_of(&inference(200), UNICODE);
    assert_snapshot!(text);
    let with_quota = RunFacts {
        cpu_quota: Some(crate::platform::CpuQuota {
            quota_ns: 50_000_000,
            period_ns: 100_000_000,
            group: "/lab/ic".to_owned(),
        }),
        ..facts()
    };
    let text = render_summary(&summary_of(&inference(200)), &healthy(), &with_quota, Style::PLAIN);
    assert_snapshot!(text.lines().take(3).collect::<Vec<_>>().join("\n"));
}

#[test]
fn that_the_guest_was_restored_is_told_in_one_line() {
    let line = |times: &[(u64, RestoredBy)]| {
        let of = |&(ms, source)| {
            (Duration::from_millis(ms), Restored { noticed_ns: 5_000_000_000 + ms * 1_000_000, source })
        };
        let facts = RunFacts { restored: times.iter().map(of).collect(), ..facts() };
        let text =
            render_summary(&summary_of(&inference(5)), &healthy(), &facts, Style { width: 200, ..UNICODE });
        text.lines().find(|line| line.starts_with("restored")).map(str::to_owned)
    };
    let (genid, clock) = (RestoredBy::Vmgenid, RestoredBy::Vmclock);
    assert_eq!(line(&[]), None);
    assert_snapshot!(line(&[(3_210, genid)]).unwrap(), @"restored      from a snapshot, or moved to another machine; noticed 3.21 s after the start (vmgenid)");
    let often = [(3_210, genid), (3_250, clock), (9_000, clock), (9_100, genid), (20_000, genid)];
    assert_snapshot!(line(&often).unwrap(), @"restored      from a snapshot, or moved to another machine; noticed 3.21 s after the start (vmgenid), 3.25 s after the start (vmclock), 9.00 s after the start (vmclock), 2 more");
}

#[test]
fn what_of_poll_was_for_sockets_stands_beside_it() {
    let mut requests = inference(200);
    for phase in requests.iter_mut().flat_map(|request| &mut request.phases) {
        let cpu_ns = std::mem::take(&mut phase.accounts.0[Account::Cpu as usize]);
        phase.accounts.0[Account::Poll as usize] = cpu_ns;
        phase.counts.poll_net_ns = cpu_ns / 4 * 3;
    }
    let text = text_of(&requests, UNICODE);
    assert_snapshot!(text.lines().find(|line| line.starts_with("mean")).unwrap(), @"mean 63.5 ms: poll 60.8 ms (net ~45.6 ms), throttled 2.35 ms, runq 190 us, block_io 150 us");
}

#[test]
fn the_longest_wait_stands_below_its_request() {
    let mut summary = summary_of(&inference(200));
    let ids: Vec<u64> = summary.groups[0].slowest.iter().map(|slow| slow.id).collect();
    let waits = [
        Wait {
            cgroup: Some("/lab\u{1b}[2J/ic".into()),
            ..wait(ids[0], Account::Runq, [0, 29_900_000, 1_000_000], "stress-ng")
        },
        wait(ids[0], Account::Lock, [8_100_000, 0, 0], "python"),
        wait(ids[1], Account::Runq, [0, 0, 11_900_000], "stress-ng\u{1b}[2J"),
        Wait {
            blame: Some(Blame {
                tid: 4711,
                account: Account::Throttled,
                stopped_by: None,
                ns: 6_000_000,
                depth: 2,
            }),
            ..wait(ids[2], Account::Lock, [8_100_000, 0, 1_000], "swapper/0")
        },
        wait(ids[3], Account::Lock, [100_000, 0, 0], "too short to matter"),
        Wait {
            io: Some(WaitedIo { device: "7:0".into(), name: "loop0\u{1b}[2J".into(), ..WaitedIo::default() }),
            ..wait(ids[4], Account::BlockIo, [9_100_000, 0, 0], "swapper/0")
        },
        wait(u64::MAX, Account::Lock, [100_000_000, 0, 0], "in another request"),
    ];
    let Ok(()) = summary
        .add_waits(|| Ok(std::iter::empty()), waits.into_iter().map(Ok::<_, std::convert::Infallible>));
    let text = render_summary(&summary, &healthy(), &facts(), UNICODE);
    let table = text.split("\n\n").find(|part| part.starts_with("slowest"));
    assert_snapshot!(table.unwrap());
}

/// A wait of the request with this id: blocked, throttled and in the run queue for so many ns.
fn wait(root: u64, account: Account, times: [u64; 3], behind: &str) -> Wait {
    Wait {
        phase: Some(root),
        root: Some(root),
        waker_tid: (times[0] > 0).then_some(4711),
        replaced_by_tid: 0,
        ran_before_tid: 991,
        ran_before_comm: behind.into(),
        ..wait_outside(account, times)
    }
}

#[test]
fn without_unicode() {
    assert_snapshot!(text_of(&inference(200), Style::PLAIN));
}

#[test]
fn narrow() {
    assert_snapshot!(text_of(&inference(200), NARROW));
}

#[test]
fn colour_is_emphasis_and_nothing_else() {
    let requests = inference(200);
    let plain = text_of(&requests, UNICODE);
    let colored = text_of(&requests, Style { color: true, ..UNICODE });
    assert_ne!(plain, colored);
    assert_eq!(without_escapes(&colored), plain);
    assert_snapshot!(colored.lines().take(8).collect::<Vec<_>>().join("\n").replace('\x1b', "<ESC>"));
}

#[test]
fn helpers_stand_below_the_table() {
    let one = |number: u64| {
        let mut inference =
            vec![Step::Spend(Account::Cpu, 40_000_000 + number * 1_000), Step::Kept(0, 400_000)];
        if number % 10 == 5 {
            inference.extend([Step::Spend(Account::Cpu, 30_000_000), Step::Kept(0, 28_000_000)]);
        }
        Sample::new(number, number * 100_000_000, vec![Step::Nest("inference", inference)]).build()
    };
    let requests: Vec<Request> = (0..100).map(one).collect();
    assert_snapshot!(text_of(&requests, Style::PLAIN));
}

/// Threads made and joined within the request: none exists at its end.
#[test]
fn helpers_that_came_and_went_have_no_number() {
    let mut request =
        Sample::new(1, 0, vec![Step::Spend(Account::Lock, 5_000_000), Step::Kept(0, 400_000)]).build();
    request.phases[0].helpers.threads = 0;
    let page = text_of(&[request], Style::PLAIN);
    let line = page.lines().find(|line| line.starts_with("helpers"));
    assert_snapshot!(line.unwrap_or_default(), @"helpers       threads that came and went, mean 400 us: runq 400 us");
}

#[test]
fn nothing_observed() {
    let health = Health { export: ExportHealth::default(), ..healthy() };
    let facts = RunFacts { folder: None, exit: Exit::Code(3), ..facts() };
    assert_snapshot!(render_summary(&summary_of(&[]), &health, &facts, Style::PLAIN));
}

#[test]
fn processes_only() {
    let requests = [
        process(
            1,
            "python",
            812,
            &[(Account::Cpu, 9_100_000_000), (Account::Lock, 3_100_000_000), (Account::Runq, 200_000_000)],
        ),
        process(2, "sh", 811, &[(Account::Sleep, 12_350_000_000), (Account::Cpu, 4_000_000)]),
    ];
    let health = Health { export: ExportHealth::default(), ..healthy() };
    assert_snapshot!(render_summary(&summary_of(&requests), &health, &facts(), Style::PLAIN));
}

#[test]
fn one_request() {
    assert_snapshot!(text_of(&inference(1), Style::PLAIN));
}

#[test]
fn requests_without_phases() {
    let one = |number: u64| {
        let steps = vec![
            Step::Spend(Account::Cpu, 900_000 + number),
            Step::Spend(Account::Net, 100_000 * (number % 3)),
        ];
        Sample::new(number, number * 2_000_000, steps).build()
    };
    let requests: Vec<Request> = (1..=30).map(one).collect();
    assert_snapshot!(text_of(&requests, Style::PLAIN));
}

#[test]
fn queues_nesting_and_every_account() {
    let one = |number: u64| {
        let each = |scale: u64| {
            Account::ALL.iter().map(|&account| Step::Spend(account, scale * (account as u64 + 1))).collect()
        };
        let inner = Step::Nest("kernel launch", each(11_000 + number * 37));
        let steps = vec![Step::Nest(
            "inference",
            vec![inner, Step::Suspend(70_000), Step::Spend(Account::Gpu, 900_000)],
        )];
        let queued_ns = if number.is_multiple_of(6) { 9_000_000 } else { 20_000 };
        Sample { queued_ns, ..Sample::new(number, 1_000_000_000 + number * 3_000_000, steps) }.build()
    };
    let requests: Vec<Request> = (1..=120).map(one).collect();
    assert_snapshot!(text_of(&requests, UNICODE));
}

#[test]
fn two_kinds_of_requests() {
    let mut requests = inference(60);
    requests.extend(inference(30).into_iter().map(|request| renamed(request, "health check")));
    assert_snapshot!(text_of(&requests, Style::PLAIN));
}

#[test]
fn losses() {
    let mut requests = inference(200);
    requests.push(renamed(requests[0].clone(), crate::phase::WARMUP));
    requests[5].phases[0].ending = Ending::ThreadExited;
    requests[6].phases[0].duration_ns += 1;
    requests[7].phases[0].edges_lost = 1;
    let facts = RunFacts { exit: Exit::Signal(9), ..facts() };
    let text = render_summary(&summary_of(&requests), &lossy(), &facts, Style::PLAIN);
    let facts_only: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("in 1 request ")).collect();
    assert_snapshot!(facts_only.join("\n"));
}

/// What this fidelity does not see is listed once, and shown nowhere as zero.
#[test]
fn a_run_without_bpf() {
    let health = Health { fidelity: Fidelity::Procfs, ..healthy() };
    let text = render_summary(&summary_of(&inference(200)), &health, &facts(), Style::PLAIN);
    let per_request = text.lines().skip_while(|line| !line.starts_with("per request"));
    assert_snapshot!(per_request.take(9).collect::<Vec<_>>().join("\n"), @r"
    per request   switches 1.20 voluntary, 0 forced  faults 18.6 minor, 0 major

    program       guestscope-workloads infer ic --requests 200: exited with 0 after 12.4 s
    guest         MVM/2/VNL/CPU, kernel 6.18.44, fidelity procfs, 3 of 3 hooks
    not seen      throttled is part of runq; block_io, net, poll, lock, gpu, fault and sleep are part of
                  other; helpers, long waits, what lies inside cpu, wake-ups, migrations, disks and
                  sockets are not counted
    agent         0.4 % of one CPU, 0.1 % in BPF programs, 14.2 MB of memory, attached in 92.1 ms
    lost          nothing
    ");
    let json = render_summary_json(&summary_of(&inference(200)), &health, &facts());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["accounts_not_seen"].as_array().map(Vec::len), Some(8));
}

#[test]
fn every_loss_has_words_and_a_key_of_its_own() {
    let losses = health_lines::losses(&lossy());
    let mut keys: Vec<&str> = losses.iter().map(|loss| loss.key).collect();
    assert!(losses.iter().all(|loss| loss.count > 0 && !loss.meaning.is_empty()));
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), losses.len());
}

#[test]
fn huge_numbers() {
    let one = |number: u64| {
        let steps = vec![
            Step::Nest("epoch", vec![Step::Spend(Account::Cpu, 400_000_000_000_000_000 + number)]),
            Step::Spend(Account::Sleep, 7),
        ];
        Sample::new(18_446_744_073_709 + number, number, steps).build()
    };
    let requests: Vec<Request> = (0..3).map(one).collect();
    assert_snapshot!(text_of(&requests, Style::PLAIN));
}

#[test]
fn hostile_names_do_not_reach_the_terminal() {
    let names = [
        "\x1b[2J\x1b]0;title\x07",
        "line\nbreak\tand\rreturn",
        "\u{202e}desrever\u{2066}",
        "\u{9b}31mC1",
        "\u{4e2d}\u{6587}\u{540d}\u{5b57}\u{5f88}\u{957f}\u{7684}\u{9636}\u{6bb5}\u{540d}\u{79f0}\u{4e0d}\u{80fd}\u{6491}\u{7834}",
        "e\u{301}\u{301}\u{301}\u{301}\u{200b}\u{200d}z",
        "a very long name that goes on and on and on until the table has no place left for it at all",
    ];
    let nest = |name: &'static str| Step::Nest(name, vec![Step::Spend(Account::Cpu, 1_000_000)]);
    let one = |number| Sample::new(number, number * 10_000_000, names.map(nest).to_vec()).build();
    let requests: Vec<Request> = (0..3).map(one).collect();
    for style in [UNICODE, Style::PLAIN, NARROW] {
        let text = text_of(&requests, style);
        assert!(is_safe(&text), "{text:?}");
        assert!(text.lines().all(|line| text::width(line) <= style.width), "{text}");
    }
    assert_snapshot!(text_of(&requests, UNICODE).lines().skip(4).take(10).collect::<Vec<_>>().join("\n"));
}

#[test]
fn doctor_finds_nothing_wrong() {
    assert_snapshot!(render_doctor(&doctor("firecracker", hooks()), Style::PLAIN));
}

#[test]
fn doctor_finds_a_container_and_missing_hooks() {
    let mut doctor = doctor("pod-in-vm", lossy().hooks);
    doctor.fidelity = Fidelity::None;
    assert_snapshot!(render_doctor(&doctor, NARROW));
}

#[test]
fn a_poor_fidelity_says_what_cannot_be_told_apart() {
    let text = |fidelity| {
        let health = Health { fidelity, ..lossy() };
        let text = render_summary(&summary_of(&inference(3)), &health, &facts(), Style::PLAIN);
        text.lines().filter(|line| line.contains("fidelity") || line.contains("part of runq")).count()
    };
    assert_eq!([Fidelity::Full, Fidelity::Raw, Fidelity::Tracepoint].map(text), [1, 1, 2]);
    let mut health = Health { fidelity: Fidelity::Tracepoint, ..lossy() };
    let missing = |health: &Health| {
        let text = render_summary(&summary_of(&[]), health, &facts(), Style::PLAIN);
        text.lines().filter(|line| line.starts_with("missing")).count()
    };
    assert_eq!(missing(&health), 1, "what is broken is said, and what has to be missing is not");
    health.fidelity = Fidelity::Raw;
    assert_eq!(missing(&health), 2);
}

#[test]
fn doctor_finds_a_kernel_without_btf() {
    let mut doctor = doctor("firecracker", hooks());
    doctor.fidelity = Fidelity::Tracepoint;
    doctor.hooks[0].outcome = Outcome::Fallback;
    doctor.hooks[1].outcome = Outcome::Unsupported;
    let text = render_doctor(&doctor, Style::PLAIN);
    assert_snapshot!(text.lines().take(8).collect::<Vec<_>>().join("\n"), @r"
    MVM/2/VNL/CPU: microVM (Firecracker on KVM), no container
    fidelity tracepoint: cpu, runq, other (no BTF; all with --btf FILE); 2 of 3 hooks in place
    1 hook is not supported by this kernel

    hook                 state        what it is for
    tp_btf/sched_switch  fallback     all accounts
    tp_btf/sched_waking  unsupported  who ended a wait
    uprobe/marker        ok           phases
    ");
}

#[test]
fn json_of_a_run() {
    let json = render_summary_json(&summary_of(&inference(25)), &lossy(), &facts());
    let value: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(value["groups"][0]["latency"]["count"], 25);
    assert_eq!(value["losses"]["pairing_torn_edges"], 1_234_567);
    assert_snapshot!(json);
}

#[test]
fn json_of_nothing_and_of_hostile_names() {
    let steps = vec![Step::Nest("\x1b[2J\u{9b}31m\u{202e}\u{7f}", vec![Step::Spend(Account::Cpu, 1)])];
    let request = Sample::new(1, 0, steps).build();
    let json = render_summary_json(&summary_of(&[request]), &healthy(), &facts());
    assert!(is_safe(&json), "{json:?}");
    let value: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(value["groups"][0]["phases"][0]["path"][0], "\x1b[2J\u{9b}31m\u{202e}\u{7f}");
    let nothing = render_summary_json(&summary_of(&[]), &healthy(), &facts());
    let value: serde_json::Value = serde_json::from_str(&nothing).expect("it is JSON");
    assert_eq!((&value["requests"], &value["groups"]), (&0.into(), &serde_json::json!([])));
}

#[test]
fn json_of_the_doctor() {
    assert_snapshot!(render_doctor_json(&doctor("pod-in-vm", lossy().hooks)));
}

#[test]
fn banner() {
    assert_snapshot!(render_banner(&facts(), &healthy(), Style::PLAIN), @"guestscope 0.1.0  MVM/2/VNL/CPU  fidelity full  (kernel 6.18.44, 3 of 3 hooks, attached in 92.1 ms)");
}
