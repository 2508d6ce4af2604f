//! The screen of `top`: its size, and what it says of what is not seen.

use super::*;
use crate::analyze::Split;

fn row(request: &str, per_s: f64, accounts: &[(Account, u64)], slow: &[(&str, u64)]) -> TopRow {
    let mut split = Split::default();
    for (account, ns) in accounts {
        split.accounts[*account as usize] = *ns;
    }
    let mut time = Sums::default();
    time.add(&split);
    let slow = slow.iter().map(|(cause, count)| ((*cause).into(), *count)).collect();
    let (p50_ns, p99_ns) = (83_100_000, 412_000_000);
    TopRow { request: request.into(), per_s, p50_ns, p99_ns, slowest_ns: 2 * p99_ns, time, slow }
}

fn text(view: &TopView<'_>, columns: usize, lines: usize) -> String {
    let screen = render_top(view, columns, lines, false);
    assert_eq!(screen.len(), lines);
    let text: Vec<String> = screen
        .iter()
        .map(|line| line.iter().map(|(text, _)| text.as_str()).collect::<String>().trim_end().to_owned())
        .collect();
    assert!(text.iter().all(|line| line.len() <= columns), "{text:#?}");
    text.join("\n")
}

#[test]
fn what_is_not_seen_stands_above_the_table() {
    let losses: [(&str, u64); 4] =
        [("kernel_edges", 24_179), ("requests_unseen", 5_000), ("pairing_edges_lost", 80), ("rows", 3)];
    let mut facts = TopFacts {
        one_of: 4,
        losses: losses.into_iter().map(|(what, count)| (Untrusted::from(what), count)).collect(),
        ..TopFacts::default()
    };
    let rows = [row("a", 1.0, &[(Account::Cpu, 1)], &[])];
    let shown = |facts: &TopFacts, columns: usize, lines: usize| {
        let view = TopView {
            facts,
            rows: &rows,
            order: TopOrder::Time,
            chosen: 0,
            is_detailed: false,
            is_frozen: false,
            note: "",
        };
        let screen = text(&view, columns, lines);
        assert!(screen.lines().any(|line| line.starts_with("a ")), "{screen}");
        screen.lines().skip(1).take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    let head = shown(&facts, 80, 7);
    assert!(!head[0].contains("lost nothing"), "{head:?}");
    assert_eq!(head[1], "looks at 1 of 4 requests  lost: kernel_edges 24179, 3 kinds more");
    assert!(shown(&facts, 200, 7)[1].ends_with(", pairing_edges_lost 80, rows 3"));
    assert!(shown(&facts, 40, 7)[1].starts_with("looks at 1 of 4 requests  lost: "));
    facts.losses.clear();
    assert_eq!(shown(&facts, 80, 7)[1], "looks at 1 of 4 requests");
    facts.one_of = 1;
    assert!(shown(&facts, 80, 7)[0].contains("lost nothing"));
}

#[test]
fn a_screen_of_80_columns_and_24_lines() {
    let facts = TopFacts {
        scenario: "MVM/16/VNL/GPU".into(),
        processes: 3,
        per_s: 211.9,
        cpu: 0.006,
        rss_bytes: 31 << 20,
        incidents: 2,
        time: "12:41:07".to_owned(),
        ..TopFacts::default()
    };
    let mut rows = [
        row("train step", 11.9, &[(Account::Gpu, 70), (Account::Cpu, 30)], &[]),
        row(
            "POST /v1/chat/completions",
            118.0,
            &[(Account::Cpu, 900), (Account::Throttled, 300), (Account::Net, 100)],
            &[("throttled", 61), ("runq", 39)],
        ),
        row("evil\u{1b}[2J", 0.1, &[(Account::Cpu, 1)], &[("helper.throttled", 1)]),
    ];
    TopOrder::Time.sort(&mut rows);
    let view = TopView {
        facts: &facts,
        rows: &rows,
        order: TopOrder::Time,
        chosen: 0,
        is_detailed: false,
        is_frozen: false,
        note: "",
    };
    insta::assert_snapshot!(text(&view, 80, 24));
    let details = TopView { is_detailed: true, is_frozen: true, note: "kept", ..view.clone() };
    insta::assert_snapshot!(text(&details, 80, 24));
    for (columns, lines) in [(40, 8), (60, 10), (200, 50)] {
        text(&view, columns, lines);
    }
    let none = TopView { rows: &[], ..view };
    assert!(text(&none, 80, 24).contains("no request ended"));
}
