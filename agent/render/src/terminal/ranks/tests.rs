//! Every verdict in words.

use guestscope_contract::Account;
use insta::assert_snapshot;

use super::*;
use crate::analyze::ranks::{Arrival, Mismatch, Straggler, Verdict};

const NARROW: Style = Style { width: 79, color: false, unicode: false };

fn facts() -> RanksFacts {
    let folder =
        |name: &str| RankFolder { path: format!("runs/2026-11-30-{name}").into(), name: name.into() };
    RanksFacts { folders: vec![folder("a"), folder("b")], apart_ns: 10_000_000, ..RanksFacts::default() }
}

/// Three ranks in two folders, of which the second came last to so many of 200 calls.
fn of(verdict: Verdict, last: u64, margin_ns: i64) -> Judged {
    let rank = |(folder, pid)| Rank { folder, pid, comm: "pt_main_thread".into() };
    let arrival = |(rank, last, late_ns, margin_ns)| Arrival { rank, last, late_ns, margin_ns };
    let arrivals = [
        (1, last, margin_ns + 1_000, margin_ns),
        (0, 200 - last, -900, -margin_ns),
        (2, 0, -1_100, -margin_ns),
    ];
    let is_judged = !matches!(verdict, Verdict::TooFew | Verdict::Unmatched(..));
    Judged {
        ranks: [(0, 4711), (0, 4712), (1, 90)].map(rank).to_vec(),
        collectives: vec![Collective {
            name: "all_reduce",
            calls: if is_judged { 200 } else { 0 },
            unmatched: 12,
            between_ns: 25_200_000,
            arrivals: if is_judged { arrivals.map(arrival).to_vec() } else { Vec::new() },
            verdict,
        }],
        straggler: None,
        clocks: 1,
        left_out: 0,
        is_coarse: false,
    }
}

fn difference(account: Account, own_ns: u64, others_ns: u64) -> Difference {
    Difference { account, own_ns, others_ns }
}

fn late() -> Judged {
    let steps = Steps {
        name: "step".into(),
        own: 200,
        others: 400,
        accounts: vec![
            difference(Account::BlockIo, 5_100_000, 100_000),
            difference(Account::Gpu, 200_000, 4_900_000),
        ],
        helpers: vec![difference(Account::Cpu, 9_000_000, 8_000_000)],
    };
    Judged {
        straggler: Some(Straggler { rank: 1, collective: 0, steps: Some(steps) }),
        ..of(Verdict::Late(1), 198, 5_020_000)
    }
}

#[test]
fn the_late_one_with_its_reasons() {
    assert_snapshot!(render_ranks(&late(), &facts(), NARROW));
    assert_snapshot!("json", render_ranks_json(&late(), &facts()));
}

#[test]
fn without_reasons() {
    let straggler = |steps: Option<Steps>| Some(Straggler { rank: 1, collective: 0, steps });
    let nothing = Steps { name: "step".into(), own: 9, others: 9, accounts: vec![], helpers: vec![] };
    let first_lines = |judged: &Judged| -> String {
        render_ranks(judged, &facts(), NARROW).lines().take(6).collect::<Vec<_>>().join("\n")
    };
    let unmarked = Judged { straggler: straggler(None), ..late() };
    let between = Judged { straggler: straggler(Some(nothing)), ..late() };
    assert_snapshot!([unmarked, between].map(|one| first_lines(&one)).join("\n--\n"));
}

#[test]
fn the_words_of_each_verdict() {
    let verdicts = [
        of(Verdict::Even, 80, -300_000),
        of(Verdict::Little(1), 199, 60_000),
        of(Verdict::WithinClocks(1), 199, 6_000_000),
        of(Verdict::Ambiguous(1), 199, 9_000_000),
        of(Verdict::TooFew, 0, 0),
        of(Verdict::Unmatched(2, Mismatch::OtherTimes), 0, 0),
        of(Verdict::Unmatched(2, Mismatch::Unclear), 0, 0),
        of(Verdict::Unmatched(2, Mismatch::Shifted), 0, 0),
        Judged { collectives: Vec::new(), ..of(Verdict::Even, 0, 0) },
    ];
    let answer = |judged: &Judged| {
        let mut page = Page::new(NARROW);
        sentences::answer(&mut page, judged, &facts());
        page.finish()
    };
    assert_snapshot!(verdicts.iter().map(answer).collect::<Vec<_>>().join("--\n"));
}

#[test]
fn all_of_it_without_a_late_one() {
    let mut judged = of(Verdict::Even, 80, -300_000);
    (judged.clocks, judged.left_out, judged.is_coarse) = (2, 1_234, true);
    let notes = vec!["runs/b: 3 edges or rows were lost while it ran: calls may be missing".to_owned()];
    assert_snapshot!(render_ranks(&judged, &RanksFacts { notes, ..facts() }, NARROW));
}

#[test]
fn of_many_ranks_the_latest_are_shown() {
    let mut judged = of(Verdict::Even, 80, -300_000);
    judged.ranks = vec![judged.ranks[0].clone(); 40];
    judged.collectives[0].arrivals = vec![judged.collectives[0].arrivals[0]; 40];
    let text = render_ranks(&judged, &facts(), NARROW);
    assert!(text.contains("\nand 28 ranks that came earlier: --json has all\n"), "{text}");
}

/// A name from a folder breaks no line.
#[test]
fn long_names_fit() {
    let mut judged = late();
    judged.ranks[1].comm = "x".repeat(300).as_str().into();
    judged
        .straggler
        .iter_mut()
        .flat_map(|one| &mut one.steps)
        .for_each(|one| one.name = "y".repeat(300).into());
    let text = render_ranks(&judged, &facts(), NARROW);
    assert!(text.lines().all(|line| line.len() <= 79), "{text}");
}
