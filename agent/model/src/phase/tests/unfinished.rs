//! Requests that are open, or did not end by themselves: which, since when, and what their threads do.

use std::collections::HashMap;

use guestscope_contract::{
    Account, BY_SIGNAL, NO_SYSCALL, kept,
    ledger::{Ledger, RUNNING},
};
use insta::assert_snapshot;

use super::script::World;
use crate::{
    phase::{AllUnfinished, Doing, Looked, OpenWait, Others, ThreadId, Unfinished},
    untrusted::Untrusted,
};

/// Each request on two lines: what became of it and where it is, then what its thread does and who else is
/// there.
fn told(all: &AllUnfinished) -> String {
    let one = |one: &Unfinished| {
        let names: Vec<&str> = one.path.iter().map(Untrusted::stored).collect();
        let doing = match &one.doing {
            Doing::Unknown => "unknown".to_owned(),
            Doing::Runs => "runs".to_owned(),
            Doing::Queued { since_ns } => format!("queued since {since_ns}"),
            Doing::Suspended { since_ns } => format!("suspended since {since_ns}"),
            Doing::Waits(wait) => {
                let OpenWait { account, syscall, stopped_by, since_ns, object, is_private } = wait;
                let stopped = stopped_by.map(|by| format!("stopped by {}, ", by.name()));
                let object = object.as_ref().map(|object| format!(" for {}", object.stored()));
                let private = is_private.map(|is_private| format!(" private {is_private}"));
                format!(
                    "{}{} in {syscall:?} since {since_ns}{}{}",
                    stopped.unwrap_or_default(),
                    account.name(),
                    object.unwrap_or_default(),
                    private.unwrap_or_default()
                )
            }
        };
        let others = match one.others {
            Some(Others { alive, locked, forked_from }) => {
                let forked = forked_from.map(|pid| format!(", forked from {pid}")).unwrap_or_default();
                format!("{alive} others, {locked} locked{forked}")
            }
            None => "others unknown".to_owned(),
        };
        format!(
            "{} {} {}: {}..{} in {:?} since {}\n  {doing}, {others}\n",
            one.fate.name(),
            one.name.stored(),
            one.request,
            one.start_ns,
            one.until_ns,
            names.join("/"),
            one.phase_start_ns
        )
    };
    format!("{} open, {} ended\n{}", all.open, all.ended, all.requests.iter().map(one).collect::<String>())
}

/// The ledger of a thread that began with tracking at `born_ns`.
fn ledger(process: u32, tid: u32, born_ns: u64) -> Ledger {
    let mut ledger = Ledger { tid, tgid: process, ..Ledger::EMPTY };
    ledger.begin(born_ns, RUNNING, 0);
    ledger
}

fn waits(mut ledger: Ledger, since_ns: u64, account: Account, syscall: u16) -> Ledger {
    ledger.out_blocked(since_ns, account as u8, syscall);
    ledger
}

fn look(world: &mut World, now_ns: u64, least_ns: u64, ledgers: &[Ledger]) -> AllUnfinished {
    let by_tid: HashMap<u32, Ledger> = ledgers.iter().map(|ledger| (ledger.tid, *ledger)).collect();
    world.pairing.look(now_ns, least_ns, &|thread, _| by_tid.get(&thread.tid).copied())
}

const HUNG: &str = "
    0   10/10 adopt
    5   10/11 fork 10/10
    6   10/12 fork 10/10
    100 10/11 request 262144 serve #1
    120 10/11 begin 262145 outer
    140 10/11 begin 262146 tokenize
    700 10/10 request 524288 serve #2
";

#[test]
fn an_open_request_is_seen_where_it_waits() {
    let mut world = World::default();
    world.play(HUNG);
    let all = look(
        &mut world,
        900,
        0,
        &[ledger(10, 10, 0), waits(ledger(10, 11, 5), 150, Account::Lock, 202), ledger(10, 12, 6)],
    );
    assert_snapshot!(told(&all), @r#"
    2 open, 0 ended
    open serve 1: 100..900 in "outer/tokenize" since 140
      lock in Some(202) since 150, 2 others, 0 locked
    open serve 2: 700..900 in "" since 700
      runs, 2 others, 0 locked
    "#);
    // As old as is asked for, or older.
    assert_eq!(look(&mut world, 900, 201, &[]).open, 1);
    assert_eq!(look(&mut world, 900, 801, &[]).open, 0);
}

/// A stopped thread waits for nothing, whatever call it was in before; and so it is told after its end.
#[test]
fn a_stopped_thread_is_told_as_that() {
    let mut world = World::default();
    world.play(HUNG);
    let stopped = waits(ledger(10, 11, 5), 150, Account::Other, kept(-1, NO_SYSCALL, BY_SIGNAL));
    assert_snapshot!(told(&look(&mut world, 900, 500, &[stopped])), @r#"
    1 open, 0 ended
    open serve 1: 100..900 in "outer/tokenize" since 140
      stopped by signal, other in None since 150, 2 others, 0 locked
    "#);
    world.play(
        "
        1000 10/11 wait other from=150 ready=999 stopped=1
        1001 10/11 exit
    ",
    );
    assert_snapshot!(told(&look(&mut world, 1003, 500, &[])), @r#"
    0 open, 1 ended
    thread_ended serve 1: 100..1001 in "outer/tokenize" since 140
      stopped by signal, other in None since 150, 2 others, 0 locked
    "#);
}

/// A child of a fork is told as one until it calls exec; threads are no children.
#[test]
fn a_forked_process_is_told_as_that() {
    let mut world = World::default();
    world.play(
        "
        0   10/10 adopt
        5   10/11 fork 10/10
        6   12/12 fork 10/11
        7   13/13 fork 10/10
        8   13/13 exec 13/13
        100 12/12 request 262144 serve #1
        110 13/13 request 262144 serve #2
        120 10/11 request 262144 serve #3
    ",
    );
    let ledgers = [ledger(12, 12, 6), ledger(13, 13, 7), ledger(10, 11, 5), ledger(10, 10, 0)];
    assert_snapshot!(told(&look(&mut world, 900, 500, &ledgers)), @r#"
    3 open, 0 ended
    open serve 1: 100..900 in "" since 100
      runs, 0 others, 0 locked, forked from 10
    open serve 2: 110..900 in "" since 110
      runs, 0 others, 0 locked
    open serve 3: 120..900 in "" since 120
      runs, 1 others, 0 locked
    "#);
}

/// Others that wait for locks themselves, a CPU that is not there, and what is on no thread.
#[test]
fn a_thread_does_one_thing_or_another() {
    let mut world = World::default();
    world.play(HUNG);
    let locked = |tid: u32, born_ns| waits(ledger(10, tid, born_ns), 150, Account::Lock, 202);
    let all = look(&mut world, 900, 500, &[locked(10, 0), locked(11, 5), locked(12, 6)]);
    assert_snapshot!(told(&all), @r#"
    1 open, 0 ended
    open serve 1: 100..900 in "outer/tokenize" since 140
      lock in Some(202) since 150, 2 others, 2 locked
    "#);
    let mut queued = ledger(10, 11, 5);
    queued.out_runnable(300);
    assert_snapshot!(told(&look(&mut world, 900, 500, &[queued])), @r#"
    1 open, 0 ended
    open serve 1: 100..900 in "outer/tokenize" since 140
      queued since 300, 2 others, 0 locked
    "#);
    // A slot that another thread has by now says nothing.
    assert_snapshot!(told(&look(&mut world, 900, 500, &[ledger(10, 11, 77)])), @r#"
    1 open, 0 ended
    open serve 1: 100..900 in "outer/tokenize" since 140
      unknown, others unknown
    "#);
    world.play("910 10/11 leave 262144");
    assert_snapshot!(told(&look(&mut world, 950, 500, &[])), @r#"
    1 open, 0 ended
    open serve 1: 100..950 in "outer/tokenize" since 140
      suspended since 910, others unknown
    "#);
    world.play(
        "
        960 10/11 enter 262144
        970 10/11 end 262144
        980 10/10 end 524288
    ",
    );
    assert_snapshot!(told(&look(&mut world, 990, 0, &[])), @"0 open, 0 ended");
}

/// Killed in the middle of a wait, which is what its thread did last.
#[test]
fn a_request_whose_process_was_killed_did_not_end() {
    let mut world = World::default();
    world.play(HUNG);
    let thread = ThreadId { tid: 11, tgid: 10, born_ns: 5 };
    let seen = [waits(ledger(10, 11, 5), 150, Account::Lock, 202), ledger(10, 12, 6)];
    look(&mut world, 800, 500, &seen);
    let is_private = Some(true);
    world.pairing.looked(vec![Looked { thread, since_ns: 150, object: None, is_private, others: Some(3) }]);
    let all = look(&mut world, 850, 500, &seen);
    assert_snapshot!(told(&all), @r#"
    1 open, 0 ended
    open serve 1: 100..850 in "outer/tokenize" since 140
      lock in Some(202) since 150 private true, 3 others, 0 locked
    "#);
    world.play(
        "
        1000 10/11 wait lock from=150 ready=999
        1001 10/11 exit
        1002 10/12 exit
    ",
    );
    assert_snapshot!(told(&look(&mut world, 1003, 500, &[])), @r#"
    0 open, 1 ended
    thread_ended serve 1: 100..1001 in "outer/tokenize" since 140
      lock in Some(202) since 150 private true, 3 others, 0 locked
    "#);
    world.play("1004 10/10 exit");
    assert_snapshot!(told(&look(&mut world, 1005, 500, &[])), @r#"
    0 open, 2 ended
    process_ended serve 1: 100..1001 in "outer/tokenize" since 140
      lock in Some(202) since 150 private true, 3 others, 0 locked
    process_ended serve 2: 700..1004 in "" since 700
      unknown, others unknown
    "#);
}

/// The last look falls into the end of the process: its threads wait no longer, and who could have woken this
/// one is known from the look before.
#[test]
fn a_look_at_dying_threads_does_not_tell_who_could_wake() {
    let end = "
        1000 10/11 wait lock from=150 ready=990
        1001 10/11 exit
        1002 10/12 exit
        1003 10/10 exit
    ";
    let locked = |tid: u32, born_ns| waits(ledger(10, tid, born_ns), 150, Account::Lock, 202);
    let mut dying = locked(11, 5);
    dying.waking(990, 1);
    dying.wakeup(990);
    let dying = [dying, ledger(10, 12, 6)];
    for looks in [&[&[locked(11, 5), locked(12, 6)][..], &dying][..], &[&dying]] {
        let mut world = World::default();
        world.play(HUNG);
        for ledgers in looks {
            look(&mut world, 995, 500, ledgers);
        }
        world.play(end);
        let all = look(&mut world, 1005, 500, &[]);
        let mut alike = all.requests.iter().filter(|one| one.request == 1);
        let others = alike.next().and_then(|one| one.others).map(|others| (others.alive, others.locked));
        assert_eq!(others, (looks.len() == 2).then_some((2, 1)), "{}", told(&all));
    }
}

/// Looks are a second apart, and so old must be what they report.
#[test]
fn a_request_that_ended_before_the_next_look_was_seen_by_the_last() {
    let mut world = World::default();
    world.play(HUNG);
    let seen = [waits(ledger(10, 11, 5), 150, Account::Lock, 202)];
    assert_snapshot!(told(&look(&mut world, 400, 1000, &seen)), @"0 open, 0 ended");
    world.play(
        "
        1350 10/11 wait lock from=150 ready=1350
        1351 10/11 exit
    ",
    );
    assert_snapshot!(told(&look(&mut world, 1400, 1000, &[])), @r#"
    0 open, 1 ended
    thread_ended serve 1: 100..1351 in "outer/tokenize" since 140
      lock in Some(202) since 150, 2 others, 0 locked
    "#);
}

/// Without a look it is the last long wait that tells, if it lasted until the end.
#[test]
fn a_request_that_was_never_looked_at_is_told_by_its_last_wait() {
    let mut world = World::default();
    world.play(
        "
        0   10/10 adopt
        100 10/10 request 262144 serve #1
        120 10/10 begin 262145 read
        300 10/10 wait block_io from=130
        310 10/10 exit
        400 20/20 adopt
        410 20/20 request 262144 serve #2
        430 20/20 wait block_io from=415
        90000430 20/20 exit
        90000500 30/30 adopt
        90000510 30/30 request 262144 warmup #3
        90000520 30/30 exit
    ",
    );
    assert_snapshot!(told(&look(&mut world, 90_000_600, 0, &[])), @r#"
    0 open, 2 ended
    process_ended serve 2: 410..90000430 in "" since 410
      unknown, others unknown
    process_ended serve 1: 100..310 in "read" since 120
      block_io in None since 130, others unknown
    "#);
}

/// A killed thread waits for a CPU, and in its exit, before it is gone.
#[test]
fn waits_on_the_way_out_are_not_what_a_thread_was_killed_in() {
    let mut world = World::default();
    world.play(
        "
        0   10/10 adopt
        100 10/10 request 262144 serve #1
        900000000 10/10 wait lock from=130 ready=899000000
        903000000 10/10 wait runq from=900500000
        904000000 10/10 wait other from=903500000
        905000000 10/10 exit
    ",
    );
    assert_snapshot!(told(&look(&mut world, 906_000_000, 0, &[])), @r#"
    0 open, 1 ended
    process_ended serve 1: 100..905000000 in "" since 100
      lock in None since 130, others unknown
    "#);
}

#[test]
fn what_is_open_at_the_end_was_so_at_the_last_look() {
    let mut world = World::default();
    world.play(HUNG);
    let mine = waits(ledger(10, 11, 5), 150, Account::Net, 45);
    world.pairing.last_look(900, &|thread, _| (thread.tid == 11).then_some(mine));
    world.play("901 10/10 stop");
    assert_snapshot!(told(&world.pairing.unfinished()), @r#"
    2 open, 0 ended
    stopped serve 1: 100..900 in "outer/tokenize" since 140
      net in Some(45) since 150, 2 others, 0 locked
    stopped serve 2: 700..900 in "" since 700
      unknown, others unknown
    "#);
}

/// However many do not end, the longest are kept and all are counted.
#[test]
fn of_many_the_longest_are_kept() {
    let mut world = World::default();
    for number in 1..=40_u64 {
        let (start, end) = (number * 1_000, number * 1_000 + number);
        let lines = format!(
            "{start} {number}/{number} adopt\n{start} {number}/{number} request 262144 job #{number}\n\
             {end} {number}/{number} exit"
        );
        world.play(&lines);
    }
    let all = look(&mut world, 50_000, 0, &[]);
    let numbers: Vec<u64> = all.requests.iter().map(|one| one.request).collect();
    assert_eq!((all.ended, numbers), (40, (25..=40).rev().collect()));
}
