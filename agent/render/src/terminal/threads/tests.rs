//! Thread groups as people see them: a server without marks, many threads with hostile names, and time
//! outside phases.

use std::convert::Infallible;

use guestscope_contract::Account::{BlockIo, Cpu, Lock, Net, Poll, Runq, Sleep};
use insta::assert_snapshot;

use crate::{
    analyze::{
        Summary,
        samples::{inference, process, thread},
    },
    phase::Thread,
    terminal::{
        Style, render_summary, render_summary_json,
        tests::fixtures::{facts, healthy, is_safe, summary_of, without_escapes},
        text::width,
    },
};

const MS: u64 = 1_000_000;
/// A terminal of 80 columns, of which the last one stays free.
const COLUMNS_80: Style = Style { width: 79, color: false, unicode: false };

fn with_threads(mut summary: Summary, threads: Vec<Thread>) -> Summary {
    match summary.add_threads(threads.into_iter().map(Ok::<_, Infallible>)) {
        Ok(()) => summary,
        Err(never) => match never {},
    }
}

/// FastAPI with a model of torch, on Python 3.11: only roles tell the threads apart.
fn server() -> Vec<Thread> {
    let mut threads: Vec<Thread> = (0..4)
        .map(|number| {
            let spent = [(Cpu, 780 * MS), (Runq, 410 * MS), (Lock, (4_900 + number) * MS), (BlockIo, MS)];
            let mut worker = thread(820 + number as u32, 812, "uvicorn", &spent);
            worker.counts.net_send = 25;
            worker
        })
        .collect();
    let pool = [(Cpu, 2_900 * MS), (Runq, 900 * MS), (Lock, 2_400 * MS)];
    threads.push(thread(830, 812, "uvicorn", &pool));
    let main = [(Cpu, 3_340 * MS), (Poll, 6_330 * MS), (Runq, 40 * MS), (Net, MS), (Sleep, MS / 2)];
    threads.push(thread(812, 812, "uvicorn", &main));
    threads
}

fn server_text(style: Style) -> String {
    let requests = [process(1, "uvicorn", 812, &[(Cpu, 3_340 * MS), (Poll, 6_330 * MS)])];
    render_summary(&with_threads(summary_of(&requests), server()), &healthy(), &facts(), style)
}

fn above_facts(text: &str) -> String {
    text.lines().take_while(|line| !line.starts_with("program ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_server_without_marks_shows_its_workers_and_its_pool() {
    assert_snapshot!(above_facts(&server_text(COLUMNS_80)));
    let plain = server_text(COLUMNS_80);
    let colour = server_text(Style { color: true, ..COLUMNS_80 });
    assert!(colour.contains("\x1b[38;5;"), "bars have colours");
    assert_eq!(without_escapes(&colour), plain);
}

#[test]
fn a_group_is_one_row_however_wide_the_terminal_is() {
    for columns in 60..=120 {
        let text = server_text(Style { width: columns, ..COLUMNS_80 });
        assert!(text.lines().all(|line| width(line) <= columns), "{columns}: {text}");
        let is_of_workers = |line: &&str| line.starts_with("uvicorn ") && line.contains(" worker ");
        assert_eq!(text.lines().filter(is_of_workers).count(), 3, "the answer and two tables: {text}");
    }
}

#[test]
fn many_processes_and_threads_of_any_name_are_bounded_and_counted() {
    let mut threads: Vec<Thread> = (0..26_u8)
        .map(|letter| {
            let name = format!("{}\u{1b}[2J\u{202e}", char::from(b'a' + letter));
            thread(900 + u32::from(letter), 812, &name, &[(Cpu, u64::from(letter + 1) * MS)])
        })
        .collect();
    threads.extend((0..3).map(|number| thread(1_000 + number, 1_000 + number, "worker", &[(Cpu, 20 * MS)])));
    let requests: Vec<_> = (0..3)
        .map(|number| process(number + 1, "worker", 1_000 + number as u32, &[(Cpu, 20 * MS)]))
        .collect();
    let summary = with_threads(summary_of(&requests), threads);
    let text = render_summary(&summary, &healthy(), &facts(), COLUMNS_80);
    assert!(is_safe(&text));
    assert_snapshot!(above_facts(&text));
    let json = render_summary_json(&summary, &healthy(), &facts());
    assert!(is_safe(&json));
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    let threads = &json["threads"];
    assert_eq!((threads["seen"].as_u64(), threads["groups"].as_array().map(Vec::len)), (Some(29), Some(10)));
    assert_eq!(threads["others"]["threads"], 17);
    assert_eq!(threads["groups"][0]["name"], "worker");
    assert_eq!(
        (&threads["groups"][0]["role"], &threads["groups"][0]["threads"]),
        (&"main".into(), &3.into())
    );
    assert_eq!(threads["groups"][0]["time"]["cpu_ns"], 60 * MS);
}

/// The same program with marks: a table of its phases, and a line for time outside them.
#[test]
fn work_outside_phases_is_worth_a_line_and_a_little_is_not() {
    let line = |outside_ms: u64| {
        let mut inside = thread(11, 10, "python3", &[(Cpu, 5_000 * MS), (Lock, 90_000 * MS)]);
        inside.inside.0[Cpu as usize] = 5_000 * MS;
        let beside = thread(12, 10, "reloader", &[(Cpu, outside_ms * MS), (Sleep, 90_000 * MS)]);
        let summary = with_threads(summary_of(&inference(200)), vec![inside, beside]);
        let text = render_summary(&summary, &healthy(), &facts(), Style { width: 200, ..Style::PLAIN });
        assert!(!text.contains("role"), "no table of groups");
        text.lines().find(|line| line.starts_with("outside ")).map(str::to_owned)
    };
    assert_snapshot!(line(1_000).unwrap_or_default(), @"outside       threads were active for 1.00 s outside phases of their own, 16.7 % of all: reloader worker 1.00 s");
    assert_eq!(line(200), None);
    assert_eq!(line(0), None);
}
