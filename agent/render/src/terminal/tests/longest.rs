//! The longest wait of a slow request: whose thread had the CPU, who held the lock, how many waits were like
//! it, and what the headline says of the longest waits of all.

use std::convert::Infallible;

use guestscope_contract::Account;
use rstest::rstest;

use super::{
    super::*,
    fixtures::{UNICODE, facts, healthy, summary_of},
    wait,
};
use crate::{
    analyze::{
        Summary,
        samples::{Sample, Step},
    },
    phase::{InFlight, QueueUser, ThreadId, Wait, WaitedIo},
};

/// Summary of 100 requests, of which ten take 60 ms longer in an account.
fn slowed_in(account: Account) -> Summary {
    let request = |number: u64| {
        let mut steps = vec![Step::Spend(Account::Cpu, 1_000_000)];
        if number % 10 == 4 {
            steps.push(Step::Spend(account, 60_000_000 + number));
        }
        Sample::new(number, number * 100_000_000, vec![Step::Nest("work", steps)]).build()
    };
    summary_of(&(0..100).map(request).collect::<Vec<_>>())
}

/// The line of the slowest of these requests; its waits are these, of so many ns each.
fn told(account: Account, waits: &[Wait]) -> String {
    let mut summary = slowed_in(account);
    let root = summary.groups[0].slowest[0].id;
    let waits = waits.iter().map(|wait| Wait { root: Some(root), ..wait.clone() });
    let Ok(()) = summary.add_waits(|| Ok(std::iter::empty()), waits.map(Ok::<_, Infallible>));
    let text = render_summary(&summary, &healthy(), &facts(), UNICODE);
    let lines = text.lines().skip_while(|line| !line.contains("longest wait: "));
    let line = lines.take_while(|line| line.starts_with("      ")).collect::<Vec<_>>().join(" ");
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A wait for a CPU that a process had.
fn behind(pid: u32) -> Wait {
    let mut one = wait(0, Account::Runq, [0, 0, 8_000_000], "last");
    one.users.listed = vec![QueueUser { comm: "python".into(), pid, ns: 7_000_000 }];
    one
}

#[rstest]
#[case::own_thread(0, "longest wait: runq 8.00 ms, behind its own thread python (pid 0) for 7.00 ms of it")]
#[case::another(717, "longest wait: runq 8.00 ms, behind python (pid 717) for 7.00 ms of it")]
fn who_had_the_cpu(#[case] pid: u32, #[case] expected: &str) {
    let one = behind(pid);
    let one = Wait { thread: ThreadId { tgid: 0, ..one.thread }, ..one };
    assert_eq!(told(Account::Runq, &[one]), expected);
}

/// Waits of the main cause come first, with their number and sum; a longer one of another cause does not.
#[test]
fn waits_of_the_main_cause_are_summed_up() {
    let lock = |ns| wait(0, Account::Lock, [ns, 0, 0], "last");
    let turns = [lock(5_000_000), lock(5_000_000), lock(5_050_000), lock(4_950_000)];
    let with_another = [turns.as_slice(), &[behind(717)]].concat();
    let expected = "longest wait: lock 5.05 ms (of 20.0 ms in 4 waits), ended by thread 4711";
    assert_eq!(told(Account::Lock, &with_another), expected);
    // Most of the sum is in one of them.
    let mostly_one = [lock(9_000_000), lock(1_000_000)];
    assert_eq!(told(Account::Lock, &mostly_one), "longest wait: lock 9.00 ms, ended by thread 4711");
}

/// The headline where so many of the ten have this wait, and the others one without a device.
#[rstest]
#[case::most(6, true)]
#[case::half(5, false)]
fn what_was_in_flight_in_the_longest_waits(#[case] of_ten: usize, #[case] is_said: bool) {
    let mut summary = slowed_in(Account::Poll);
    let plain = wait(0, Account::Poll, [60_000_000, 0, 0], "last");
    let in_flight = Some(InFlight { reads: 8, writes: 0 });
    let io = WaitedIo { device: "254:0".into(), name: "vda".into(), in_flight, ..WaitedIo::default() };
    let roots: Vec<u64> = summary.groups[0].slowest.iter().map(|slow| slow.id).collect();
    let waits = roots.iter().enumerate().map(|(place, root)| {
        let io = (place < of_ten).then(|| io.clone());
        Wait { root: Some(*root), io, ..plain.clone() }
    });
    let Ok(()) = summary.add_waits(|| Ok(std::iter::empty()), waits.map(Ok::<_, Infallible>));
    let text = render_summary(&summary, &healthy(), &facts(), UNICODE);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("slowest waited in poll: +60.0 ms over typical"), "{text}");
    let said = "; reads or writes of vda were in flight meanwhile";
    assert_eq!(text.contains(said), is_said, "{text}");
}

#[test]
fn who_held_the_address_space() {
    let held = Wait {
        waker_syscall: Some(libc::SYS_read as u32),
        waker_comm: Some("cat".into()),
        syscall: Some(libc::SYS_munmap as u32),
        ..wait(0, Account::Other, [40_000_000, 0, 0], "last")
    };
    let expected =
        "longest wait: other 40.0 ms, for the lock of its address space, held by thread 4711 (cat)";
    assert_eq!(told(Account::Other, &[held]), expected);
}
