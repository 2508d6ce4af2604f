//! The columns of `waits`, and how a long wait leaves a row and comes back. Opens no file.

use std::sync::LazyLock;

use guestscope_contract::Account;

use super::{
    cells::{NO_WORD, integer, thread_id},
    table::{Access, Column, Table, Width, each},
};
use crate::phase::{Blame, LISTED, QueueUser, Stopper, Wait, WaitedIo};
use crate::untrusted::Untrusted;

/// `waits`: a row per long wait, in the order of their ends.
pub(super) static WAITS: LazyLock<Table<Wait>> = LazyLock::new(|| {
    let mut columns = vec![
        optional!(Wait: "phase", "`id` of the phase that was innermost on the thread", phase),
        optional!(Wait: "root", "`id` of its request", root),
    ];
    columns.extend(thread_id(|row: &Wait| &row.thread, |row| &mut row.thread));
    columns.extend(wait());
    Table { name: "waits", columns, blank: Wait::default }
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
                set: each(|_, _| {}),
            },
        ),
        number32!(Wait: "left_cpu", "the CPU that the thread left", left_cpu),
        number32!(Wait: "cpu", "the CPU on which it continued", cpu),
        optional32!(Wait: "syscall", "number of the system call that it waited in; plus 512 for a 32-bit call", syscall),
        optional32!(Wait: "waker_tid", "the thread that ended the wait; none where an interrupt did", waker_tid),
        number32!(Wait: "replaced_by_tid", "the next thread on the CPU that it left", replaced_by_tid),
        number32!(Wait: "ran_before_tid", "the previous thread on the CPU on which it continued", ran_before_tid),
        number32!(Wait: "ran_before_tgid", "the process of that thread", ran_before_tgid),
        name!(Wait: "ran_before_comm", "the name of that thread", ran_before_comm),
    ];
    let later = whereabouts().into_iter().chain(blame()).chain(io()).chain(asked()).chain(users());
    columns.extend(later.map(|column| Column { may_lack: true, ..column }));
    columns
}

/// The thread in its own PID namespace, and its control group.
fn whereabouts() -> [Column<Wait>; 3] {
    [
        optional32!(Wait: "ns_tid", "its thread ID in its own PID namespace", ns_tid),
        optional!(Wait: "cgroup_number", "the control group that limits its CPU time, by its directory's inode", cgroup_number),
        optional_name!(Wait: "cgroup", "the path of that group in the guest", cgroup),
    ]
}

/// What the system call was asked for, and which threads had to do with the wait.
fn asked() -> [Column<Wait>; 7] {
    let stopped_by = Access::Word {
        get: Box::new(|row: &Wait| row.stopped_by.map(Stopper::name)),
        set: Box::new(|row, word| {
            row.stopped_by = Stopper::named(word.stored());
            row.stopped_by.is_some()
        }),
        optional: true,
    };
    [
        optional32!(Wait: "waker_syscall", "number of the system call in which the waker ended the wait", waker_syscall),
        optional!(Wait: "argument", "first argument of the system call: a file descriptor, the address of a futex, a process", argument),
        optional_name!(Wait: "waker_comm", "the name of the waker, if the wait for it was long enough by itself", waker_comm),
        flag!(Wait: "is_limited", "the system call had a time limit", is_limited),
        optional32!(Wait: "limit_ms", "that limit, ms, if it is an argument of the call", limit_ms),
        optional32!(Wait: "beside_tid", "another thread of its process that a sample met on a CPU meanwhile", beside_tid),
        Column::new(
            "stopped_by",
            "what kept it from running until the waker let it go on: signal, debugger or freezer",
            stopped_by,
        ),
    ]
}

/// The processes that used the CPU in whose queue the thread stood, the largest user first.
fn users() -> Vec<Column<Wait>> {
    fn of(row: &mut Wait, place: usize) -> &mut QueueUser {
        let listed = &mut row.users.listed;
        while listed.len() <= place {
            listed.push(QueueUser { comm: NO_WORD.clone(), pid: 0, ns: 0 });
        }
        &mut listed[place]
    }
    let number = |place: usize, name, help, get: fn(&QueueUser) -> u64, set: fn(&mut QueueUser, u64)| {
        let get = Box::new(move |row: &Wait| row.users.listed.get(place).map(get));
        let set = Box::new(move |row: &mut Wait, value| set(of(row, place), value));
        Column::new(name, help, Access::OptionalInteger { get, set })
    };
    let mut columns = Vec::new();
    for (place, [pid, comm, ns]) in USERS.into_iter().enumerate() {
        columns.push(number(
            place,
            pid,
            "a process that used the CPU in whose queue the thread stood",
            |user| u64::from(user.pid),
            |user, value| user.pid = value as u32,
        ));
        let word = Access::Word {
            get: Box::new(move |row: &Wait| row.users.listed.get(place).map(|user| user.comm.stored())),
            set: Box::new(move |row, word| {
                of(row, place).comm = word.clone();
                true
            }),
            optional: true,
        };
        columns.push(Column::new(comm, "the name of that process", word));
        let set = |user: &mut QueueUser, value| user.ns = value;
        columns.push(number(place, ns, "its time on that CPU within the wait, ns", |user| user.ns, set));
    }
    columns.push(integer!(Wait: "queue_others_ns", "time of further processes there, ns", users.others_ns));
    columns
}

/// Names of the columns of each user.
const USERS: [[&str; 3]; LISTED] = [
    ["queue_1_pid", "queue_1_comm", "queue_1_ns"],
    ["queue_2_pid", "queue_2_comm", "queue_2_ns"],
    ["queue_3_pid", "queue_3_comm", "queue_3_ns"],
    ["queue_4_pid", "queue_4_comm", "queue_4_ns"],
];

fn by_name(word: &str) -> Option<Account> {
    Account::ALL.into_iter().find(|account| account.name() == word)
}

/// The explanation of a wait for another thread; its columns are set together or not at all.
fn blame() -> impl Iterator<Item = Column<Wait>> {
    const NOBODY: Blame = Blame { tid: 0, account: Account::Runq, stopped_by: None, ns: 0, depth: 0 };
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
    let stopped_by = Access::Word {
        get: Box::new(|row: &Wait| row.blame.and_then(|blame| blame.stopped_by).map(Stopper::name)),
        set: Box::new(|row, word| {
            let stopper = Stopper::named(word.stored());
            of(row).stopped_by = stopper;
            stopper.is_some()
        }),
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
        Column::new(
            "blame_stopped_by",
            "what had stopped that thread: signal, debugger or freezer",
            stopped_by,
        ),
    ]
    .into_iter()
}

/// The I/O that the thread waited for; its columns are set together or not at all.
fn io() -> impl Iterator<Item = Column<Wait>> {
    fn of(row: &mut Wait) -> &mut WaitedIo {
        let nothing = || WaitedIo { device: NO_WORD.clone(), name: NO_WORD.clone(), ..WaitedIo::default() };
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
    .chain(numbers_of_io())
}

/// Numbers beside the I/O.
fn numbers_of_io() -> impl Iterator<Item = Column<Wait>> {
    let number = |name, help, get: fn(&WaitedIo) -> Option<u32>, set: fn(&mut WaitedIo, u32)| {
        let get = Box::new(move |row: &Wait| row.io.as_ref().and_then(get).map(u64::from));
        let set = Box::new(move |row: &mut Wait, value| {
            row.io.iter_mut().for_each(|io| set(io, value as u32));
        });
        Column::new(name, help, Access::OptionalInteger { get, set })
    };
    [
        number(
            "io_held_back",
            "1 if a limit of its control group had held that I/O back",
            |io| Some(io.is_held.into()),
            |io, value| io.is_held = value == 1,
        ),
        number(
            "reads_in_flight",
            "reads of that device that it had asked for through io_uring, in a wait for io_uring",
            |io| io.in_flight.map(|most| most.reads),
            |io, value| io.in_flight.get_or_insert_default().reads = value,
        ),
        number(
            "writes_in_flight",
            "the same for writes",
            |io| io.in_flight.map(|most| most.writes),
            |io, value| io.in_flight.get_or_insert_default().writes = value,
        ),
    ]
    .into_iter()
}
