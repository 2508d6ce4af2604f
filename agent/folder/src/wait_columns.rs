//! The columns of `waits`, and how a long wait leaves a row and comes back. Opens no file.

use std::sync::LazyLock;

use guestscope_contract::Account;

use super::{
    cells::{NO_WORD, integer, thread_id},
    table::{Access, Column, Table, Width},
};
use crate::phase::{Blame, ThreadId, Wait, WaitedIo};
use crate::untrusted::Untrusted;

/// `waits`: a row per long wait, in the order of their ends.
pub(super) static WAITS: LazyLock<Table<Wait>> = LazyLock::new(|| {
    let mut columns = vec![
        optional!(Wait: "phase", "`id` of the phase that was innermost on the thread", phase),
        optional!(Wait: "root", "`id` of its request", root),
    ];
    columns.extend(thread_id(|row: &Wait| &row.thread, |row| &mut row.thread));
    columns.extend(wait());
    let blank = || Wait {
        phase: None,
        root: None,
        thread: ThreadId::default(),
        start_ns: 0,
        duration_ns: 0,
        account: Account::Runq,
        blocked_ns: 0,
        throttled_ns: 0,
        syscall: None,
        left_cpu: 0,
        cpu: 0,
        waker_tid: None,
        replaced_by_tid: 0,
        ran_before_tid: 0,
        ran_before_tgid: 0,
        ran_before_comm: NO_WORD.clone(),
        ns_tid: None,
        cgroup_number: None,
        cgroup: None,
        blame: None,
        io: None,
    };
    Table { name: "waits", columns, blank }
});

fn wait() -> Vec<Column<Wait>> {
    let mut columns = vec![
        integer!(Wait: "start_ns", "CLOCK_MONOTONIC when the thread left a CPU", start_ns),
        integer!(Wait: "duration_ns", "time until it was on a CPU again", duration_ns),
        Column::new(
            "account",
            "why it left the CPU; runq if it could have continued",
            Access::Word {
                get: Box::new(|row: &Wait| Some(row.account.name())),
                set: Box::new(|row, word| {
                    by_name(word.stored()).map(|account| row.account = account).is_some()
                }),
                optional: false,
            },
        ),
        integer!(Wait: "blocked_ns", "time blocked, ns", blocked_ns),
        integer!(Wait: "throttled_ns", "time after that in which its group was out of quota, ns", throttled_ns),
        Column::new(
            "runq_ns",
            "time after that in which it waited for a CPU, ns: the rest",
            Access::Integer {
                width: Width::Signed,
                get: Box::new(Wait::runq_ns),
                // The value follows from the other columns.
                set: Box::new(|_, _| {}),
            },
        ),
        number32!(Wait: "left_cpu", "the CPU that the thread left", left_cpu),
        number32!(Wait: "cpu", "the CPU on which it continued", cpu),
        optional32!(Wait: "syscall", "number of the system call that it waited in; plus 512 for a 32-bit call", syscall),
        optional32!(Wait: "waker_tid", "the thread that woke it; in an interrupt the interrupted thread", waker_tid),
        number32!(Wait: "replaced_by_tid", "the next thread on the CPU that it left", replaced_by_tid),
        number32!(Wait: "ran_before_tid", "the previous thread on the CPU on which it continued", ran_before_tid),
        number32!(Wait: "ran_before_tgid", "the process of that thread", ran_before_tgid),
        name!(Wait: "ran_before_comm", "the name of that thread", ran_before_comm),
    ];
    let later = whereabouts().into_iter().chain(blame()).chain(io());
    columns.extend(later.map(|column| Column { may_lack: true, ..column }));
    columns
}

/// The thread in its own PID namespace, and its control group.
fn whereabouts() -> [Column<Wait>; 3] {
    let path = Access::Word {
        get: Box::new(|row: &Wait| row.cgroup.as_ref().map(Untrusted::stored)),
        set: Box::new(|row, word| {
            row.cgroup = Some(word.clone());
            true
        }),
        optional: true,
    };
    [
        optional32!(Wait: "ns_tid", "its thread ID in its own PID namespace", ns_tid),
        optional!(Wait: "cgroup_number", "the control group that limits its CPU time, by its directory's inode", cgroup_number),
        Column::new("cgroup", "the path of that group in the guest", path),
    ]
}

fn by_name(word: &str) -> Option<Account> {
    Account::ALL.into_iter().find(|account| account.name() == word)
}

/// The explanation of a wait for another thread; its columns are set together or not at all.
fn blame() -> impl Iterator<Item = Column<Wait>> {
    const NOBODY: Blame = Blame { tid: 0, account: Account::Runq, ns: 0, depth: 0 };
    fn of(row: &mut Wait) -> &mut Blame {
        row.blame.get_or_insert(NOBODY)
    }
    let number = |name, help, get: fn(Blame) -> u64, set: fn(&mut Blame, u64)| {
        let get = Box::new(move |row: &Wait| row.blame.map(get));
        let set = Box::new(move |row: &mut Wait, value| set(of(row), value));
        Column::new(name, help, Access::OptionalInteger { get, set })
    };
    let account = Access::Word {
        get: Box::new(|row: &Wait| row.blame.map(|blame| blame.account.name())),
        set: Box::new(|row, word| by_name(word.stored()).map(|account| of(row).account = account).is_some()),
        optional: true,
    };
    [
        number(
            "blame_tid",
            "the thread whose own waiting explains most of this wait",
            |blame| u64::from(blame.tid),
            |blame, value| blame.tid = value as u32,
        ),
        Column::new("blame_account", "the account in which that thread waited", account),
        number(
            "blame_ns",
            "the part of this wait that it explains, ns",
            |blame| blame.ns,
            |blame, value| blame.ns = value,
        ),
        number(
            "blame_depth",
            "number of wake-ups between both threads",
            |blame| u64::from(blame.depth),
            |blame, value| blame.depth = value as u32,
        ),
    ]
    .into_iter()
}

/// The I/O that the thread waited for; its columns are set together or not at all.
fn io() -> impl Iterator<Item = Column<Wait>> {
    fn of(row: &mut Wait) -> &mut WaitedIo {
        let nothing = || WaitedIo { device: NO_WORD.clone(), name: NO_WORD.clone(), is_write: false };
        row.io.get_or_insert_with(nothing)
    }
    let word = |name, help, get: fn(&WaitedIo) -> &str, set: fn(&mut WaitedIo, &Untrusted) -> bool| {
        let access = Access::Word {
            get: Box::new(move |row: &Wait| row.io.as_ref().map(get)),
            set: Box::new(move |row, word| set(of(row), word)),
            optional: true,
        };
        Column::new(name, help, access)
    };
    [
        word(
            "device",
            "the block device of its last I/O before the wait, MAJOR:MINOR",
            |io| io.device.stored(),
            |io, word| {
                io.device = word.clone();
                true
            },
        ),
        word(
            "device_name",
            "the name of that device in the guest; MAJOR:MINOR if it has none",
            |io| io.name.stored(),
            |io, word| {
                io.name = word.clone();
                true
            },
        ),
        word("io_direction", "direction of that I/O: read or write", WaitedIo::direction, |io, word| {
            io.is_write = *word == "write";
            io.is_write || *word == "read"
        }),
    ]
    .into_iter()
}
