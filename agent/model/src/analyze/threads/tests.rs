//! What makes a group, and what bounds them.

use std::convert::Infallible;

use guestscope_contract::Account::{self, Cpu, Lock, Net, Poll, Runq, Sleep};
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::analyze::samples::thread;

fn groups_of(threads: &[Thread]) -> ThreadGroups {
    match ThreadGroups::read(threads.iter().cloned().map(Ok::<_, Infallible>)) {
        Ok(groups) => groups,
        Err(never) => match never {},
    }
}

/// As `name role count`.
fn told(threads: &[Thread]) -> Vec<String> {
    let groups = groups_of(threads);
    let word = |group: &ThreadGroup| {
        format!("{} {} {}", group.name.stored(), group.role.map_or("-", Role::name), group.threads)
    };
    groups.groups.iter().chain(&groups.others).map(word).collect()
}

#[test]
fn a_server_without_marks_shows_its_workers_and_its_pool() {
    let mut workers: Vec<Thread> =
        (2..6).map(|tid| thread(tid, 1, "python3", &[(Cpu, 700), (Lock, 9_000), (Runq, 50)])).collect();
    // They wake the event loop by a byte.
    for worker in &mut workers {
        worker.counts.net_send = 30;
    }
    let pool = thread(6, 1, "python3", &[(Cpu, 900), (Lock, 1_000), (Runq, 900)]);
    let main = thread(1, 1, "python3", &[(Cpu, 300), (Poll, 9_000), (Net, 10)]);
    let loader = thread(7, 1, "pt_data_worker", &[(Cpu, 20), (Poll, 5_000)]);
    let threads: Vec<Thread> = workers.into_iter().chain([pool, main, loader]).collect();
    assert_eq!(
        told(&threads),
        ["python3 worker 4", "python3 pool 1", "python3 main 1", "pt_data_worker loader 1"]
    );
    let groups = groups_of(&threads);
    assert_eq!((groups.threads(), groups.groups[0].active_ns()), (7, 3_000));
}

#[test]
fn threads_of_libraries_are_known_by_their_names() {
    let names =
        ["pt_autograd_0", "pt_data_pin", "pt_nccl_watchdg", "NCCL Progress 0", "cuda-EvtHandlr", "python3"];
    let threads: Vec<Thread> =
        (2..).zip(names).map(|(tid, name)| thread(tid, 1, name, &[(Cpu, 100 - u64::from(tid))])).collect();
    let roles =
        groups_of(&threads).groups.iter().map(|group| group.role.map_or("-", Role::name)).collect::<Vec<_>>();
    assert_eq!(roles, ["autograd", "loader", "nccl", "nccl", "cuda", "worker"]);
}

#[rstest]
#[case::waits_for_locks_alone(&[(Cpu, 5), (Lock, 100)], (0, 0, 0), Role::Pool)]
#[case::and_once_for_memory(&[(Cpu, 5), (Lock, 100), (Account::Fault, 50)], (0, 0, 0), Role::Pool)]
#[case::spins_and_hardly_waits(&[(Cpu, 500)], (0, 30, 70), Role::Pool)]
#[case::talks(&[(Cpu, 5), (Lock, 100)], (1, 0, 0), Role::Worker)]
#[case::spins_and_talks(&[(Cpu, 500), (Lock, 1)], (1, 30, 70), Role::Worker)]
#[case::sleeps_too(&[(Cpu, 5), (Lock, 100), (Sleep, 20)], (0, 0, 0), Role::Worker)]
#[case::polls(&[(Cpu, 5), (Lock, 100), (Poll, 120)], (0, 0, 0), Role::Loop)]
#[case::computes(&[(Cpu, 500)], (0, 100, 0), Role::Worker)]
#[case::did_nothing(&[], (0, 0, 0), Role::Worker)]
fn what_a_thread_waited_in_tells_its_role(
    #[case] spent: &[(Account, u64)],
    #[case] (sends, user, spin): (u64, u64, u64),
    #[case] role: Role,
) {
    let mut one = thread(2, 1, "x", spent);
    (one.counts.net_send, one.counts.sample_user, one.counts.sample_spin) = (sends, user, spin);
    assert_eq!(Role::of(&one.accounts, &one.counts), role);
    one.id.tid = 1;
    assert_eq!(groups_of(&[one]).groups[0].role, Some(Role::Main));
}

#[test]
fn threads_that_name_themselves_are_one_group_whatever_they_wait_in() {
    let workers = |tid: u32| {
        let waits = if tid == 2 { Poll } else { Lock };
        thread(tid, 1, &format!("tokio-rt-{tid}"), &[(Cpu, 10), (waits, 90)])
    };
    let main = thread(1, 1, "serve", &[(Cpu, 1), (Lock, 500)]);
    let threads: Vec<Thread> = (2..5).map(workers).chain([main]).collect();
    assert_eq!(told(&threads), ["tokio-rt-* - 3", "serve main 1"]);
}

#[test]
fn a_name_keeps_its_digits_where_all_bear_it() {
    let two = [thread(1, 1, "python3", &[(Cpu, 1)]), thread(2, 2, "python3", &[(Cpu, 1)])];
    assert_eq!(told(&two), ["python3 main 2"]);
    let three = [two[0].clone(), two[1].clone(), thread(3, 3, "python2", &[(Cpu, 1)])];
    assert_eq!(told(&three), ["python* main 3"]);
}

#[test]
fn idle_threads_do_not_stand_above_one_that_worked() {
    let idle = thread(2, 1, "idle", &[(Lock, 1 << 40), (Poll, 1 << 40)]);
    let worked = thread(3, 1, "worked", &[(Cpu, 5), (Runq, 5)]);
    assert_eq!(told(&[idle, worked]), ["worked worker 1", "idle loop 1"]);
}

#[test]
fn what_lies_inside_marked_phases_is_left_out() {
    let mut one = thread(2, 1, "one", &[(Cpu, 100), (Lock, 50)]);
    (one.inside.0[Cpu as usize], one.inside.0[Lock as usize]) = (70, 50);
    // A folder may say anything.
    one.inside.0[Runq as usize] = 9;
    let groups = groups_of(&[one]);
    assert_eq!((groups.active_outside_ns(), groups.active_inside_ns), (30, 70));
    assert_eq!(groups.groups[0].sums.total_ns(), 30);
}

proptest! {
    /// No number of names takes more memory, or hides who worked; and nobody is lost.
    #[test]
    fn names_without_end_are_bounded_and_counted(names in 1..6_u32, workers in 0..3_u64) {
        let letter = |number: u32| char::from(b'g' + (number % 20) as u8);
        let many = names * 1_500;
        let junk = (0..many).map(|number| {
            let name: String = [1, 20, 400, 8_000].map(|base| letter(number / base)).iter().collect();
            thread(number + 2, 1, &name, &[(Cpu, 1)])
        });
        let worker = |number: u64| thread(1 << 20 | number as u32, 1, "worker", &[(Cpu, 1_000)]);
        let begin = many / 2;
        let mut threads: Vec<Thread> = junk.collect();
        for number in 0..workers {
            threads.insert(begin as usize, worker(number));
        }
        let mut tally = Tally::default();
        for thread in &threads {
            tally.add(thread);
            prop_assert!(tally.groups.len() <= KEPT);
        }
        let groups = tally.finish();
        prop_assert_eq!(groups.threads(), u64::from(many) + workers);
        prop_assert_eq!(groups.active_outside_ns(), u128::from(many) + 1_000 * u128::from(workers));
        prop_assert!(groups.groups.len() <= GROUPS);
        prop_assert_eq!(groups.others.as_ref().map(|others| others.name.stored()), Some(OTHER_THREADS));
        if workers > 0 {
            prop_assert_eq!((groups.groups[0].name.stored(), groups.groups[0].threads), ("worker", workers));
        }
    }
}
