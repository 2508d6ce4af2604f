//! Looks at requests that have been open for long: every second by their threads' ledgers, and by /proc for
//! what the threads wait for.
//!
//! /proc is read on a thread of its own, one look at a time: a process can block it, and then there are no
//! more looks.

use std::{
    fs,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use crate::{
    guarded,
    phase::{AllUnfinished, Doing, Looked, OpenWait, Unfinished},
    untrusted::{Shown as _, Untrusted},
};

/// Age of a request from which on it is looked at.
pub(crate) const AGE_NS: u64 = 1_000_000_000;
/// Stack of the thread, which needs a few buffers.
const STACK_BYTES: usize = 256 << 10;
/// Most threads of a process that are counted.
const THREADS: usize = 65_536;
/// The file has one line of numbers.
const LINE_BYTES: u64 = 4096;
/// `FUTEX_PRIVATE_FLAG`: the lock is known to one process alone.
const PRIVATE: u64 = 128;

/// State of the looks.
pub(crate) struct Stuck {
    /// Whether processes have the same numbers here as on the kernel side.
    has_numbers: bool,
    found: Arc<Mutex<Vec<Looked>>>,
    under_way: Option<JoinHandle<()>>,
    told: AllUnfinished,
}

impl Stuck {
    pub(crate) fn new() -> Self {
        Self {
            has_numbers: crate::loader::is_initial_namespace(),
            found: Arc::default(),
            under_way: None,
            told: AllUnfinished::default(),
        }
    }

    /// Results of the last look at /proc.
    pub(crate) fn found(&self) -> Vec<Looked> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a look at the waiting ones of these requests. Whether anything has changed since the last call.
    pub(crate) fn look(&mut self, all: &AllUnfinished) -> bool {
        if self.told == *all {
            return false;
        }
        self.told.clone_from(all);
        if !self.has_numbers || self.under_way.as_ref().is_some_and(|look| !look.is_finished()) {
            return true;
        }
        let open = all.requests.iter().filter(|one| one.fate.is_open());
        let waiting: Vec<(Unfinished, OpenWait)> = open
            .filter_map(|one| match &one.doing {
                Doing::Waits(wait) => Some((one.clone(), wait.clone())),
                Doing::Unknown | Doing::Suspended { .. } | Doing::Runs | Doing::Queued { .. } => None,
            })
            .collect();
        let found = Arc::clone(&self.found);
        let look = thread::Builder::new().name("looks".to_owned()).stack_size(STACK_BYTES);
        // Without a thread there is no look; the next one may have one.
        let work = move || {
            let looked = waiting.iter().map(|(one, wait)| look_at(one, wait)).collect();
            *found.lock().unwrap_or_else(PoisonError::into_inner) = looked;
        };
        self.under_way = look.spawn(work).ok();
        true
    }
}

fn look_at(one: &Unfinished, wait: &OpenWait) -> Looked {
    let (tgid, tid) = (one.thread.tgid, one.thread.tid);
    let line = guarded::read_begin(format!("/proc/{tgid}/task/{tid}/syscall").as_ref(), LINE_BYTES);
    let call = line.ok().and_then(|line| Call::parse(Untrusted::of_bytes(&line).stored()));
    let call = call.filter(|call| wait.syscall.map(u64::from) == Some(call.number));
    let others = fs::read_dir(format!("/proc/{tgid}/task")).ok().map(|tasks| tasks.take(THREADS).count());
    Looked {
        thread: one.thread,
        since_ns: wait.since_ns,
        object: call.as_ref().and_then(|call| call.object(tgid)),
        is_private: call.as_ref().and_then(Call::is_private),
        others: others.and_then(|all| u32::try_from(all.saturating_sub(1)).ok()),
    }
}

/// A system call that a thread is in, as `/proc/PID/task/TID/syscall` has it.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    number: u64,
    arguments: [u64; 6],
}

impl Call {
    /// `202 0x7f01 0x189 0x0 0x0 0x0 0xffffffff 0x7ffe 0x7f02`; `running`, or -1 outside of any.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        }
        Some(Self { number, arguments })
    }

    /// Whether only a thread of this process can end the wait for a lock.
    fn is_private(&self) -> Option<bool> {
        let [_, operation, _, limit, ..] = self.arguments;
        (self.is(libc::SYS_futex)).then_some(operation & PRIVATE != 0 && limit == 0)
    }

    fn is(&self, number: libc::c_long) -> bool {
        u64::try_from(number) == Ok(self.number)
    }

    /// What its descriptor is, or which process it waits for.
    fn object(&self, tgid: u32) -> Option<Untrusted> {
        let first = self.arguments[0];
        if self.is(libc::SYS_wait4) {
            return (first as i32 > 0).then(|| format!("process {}", first as i32).into());
        }
        if !WITH_DESCRIPTOR.iter().any(|number| self.is(*number)) {
            return None;
        }
        let link = fs::read_link(format!("/proc/{tgid}/fd/{}", first as u32)).ok()?;
        Some(link.as_path().shown())
    }
}

/// System calls in which threads wait and whose first argument is a descriptor.
const WITH_DESCRIPTOR: [libc::c_long; 22] = [
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ioctl,
    libc::SYS_epoll_pwait,
];

#[cfg(test)]
mod tests {
    use std::{
        os::fd::AsRawFd as _,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::phase::{Fate, ThreadId};
    use guestscope_contract::Account;

    #[test]
    fn a_line_tells_the_call() {
        let line = "202 0x7f01 0x189 0x0 0x0 0x0 0xffffffff 0x7ffe 0x7f02\n";
        let call = Call::parse(line).expect("it is whole");
        assert_eq!((call.number, call.arguments[1]), (202, 0x189));
        assert_eq!(Call::parse("running\n"), None);
        assert_eq!(Call::parse("-1 0x7ffe 0x7f02\n"), None);
    }

    #[test]
    fn a_lock_is_private_if_nobody_else_and_no_time_ends_it() {
        let number = libc::SYS_futex.cast_unsigned();
        let of = |operation, limit| Call { number, arguments: [1, operation, 0, limit, 0, 0] }.is_private();
        assert_eq!([of(0x189, 0), of(0x109, 0), of(0x189, 7)], [Some(true), Some(false), Some(false)]);
        let other = Call { number: libc::SYS_read.cast_unsigned(), arguments: [0x189; 6] };
        assert_eq!(other.is_private(), None);
    }

    #[test]
    fn a_descriptor_has_a_name() {
        let file = tempfile::NamedTempFile::new().expect("there is room");
        let descriptor = u64::try_from(file.as_raw_fd()).expect("it is open");
        let read = Call { number: libc::SYS_read.cast_unsigned(), arguments: [descriptor, 0, 0, 0, 0, 0] };
        let name = file.path().canonicalize().expect("it is there").as_path().shown();
        assert_eq!(read.object(std::process::id()), Some(name));
        let wait = Call { number: libc::SYS_wait4.cast_unsigned(), arguments: [77, 0, 0, 0, 0, 0] };
        assert_eq!(wait.object(1), Some("process 77".into()));
    }

    /// A thread of this process that waits for a lock: it is found with its kind, and the others are counted.
    #[test]
    fn a_waiting_thread_is_looked_at() {
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = thread::spawn(move || {
            tell.send(nix::unistd::gettid().as_raw().cast_unsigned()).expect("it is awaited");
            receive.recv().expect("it is woken");
        });
        let thread = ThreadId { tid: told.recv().expect("it runs"), tgid: std::process::id(), born_ns: 0 };
        let syscall = u32::try_from(libc::SYS_futex).ok();
        let (account, since_ns) = (Account::Lock, 1);
        let wait = OpenWait { account, syscall, stopped_by: None, since_ns, object: None, is_private: None };
        let one = Unfinished {
            id: 1,
            name: "serve".into(),
            request: 1,
            thread,
            start_ns: 0,
            until_ns: 0,
            path: Vec::new(),
            phase_start_ns: 0,
            fate: Fate::Open,
            doing: Doing::Waits(wait.clone()),
            others: None,
        };
        // It may not have come to its wait yet.
        let begun = Instant::now();
        let mut looked = look_at(&one, &wait);
        while looked.is_private.is_none() && begun.elapsed() < Duration::from_mins(1) {
            thread::yield_now();
            looked = look_at(&one, &wait);
        }
        assert_eq!((looked.thread, looked.is_private), (thread, Some(true)));
        assert!(looked.others.is_some_and(|others| others >= 1));
        send.send(()).expect("it waits");
        waiter.join().expect("it ends");
    }

    #[test]
    fn what_has_not_changed_is_told_once() {
        let mut stuck = Stuck::new();
        assert!(!stuck.look(&AllUnfinished::default()));
        let all = AllUnfinished { ended: 1, ..AllUnfinished::default() };
        assert_eq!([stuck.look(&all), stuck.look(&all)], [true, false]);
    }
}
