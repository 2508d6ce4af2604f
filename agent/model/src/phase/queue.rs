//! Who used a CPU while a thread was queued for it: records that come right before the wait's own.

use guestscope_contract::QueueRecord;

use super::{table::Table, thread::comm, thread_id::ThreadId};
use crate::untrusted::Untrusted;

/// Records kept for waits that have not been placed: as many as the ring holds.
const KEPT: usize = 4_096;

/// Processes that a wait lists; the rest is one sum.
pub const LISTED: usize = 4;

/// A process that used the CPU during a wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueUser {
    /// Name of the last of its threads.
    pub comm: Untrusted,
    /// Process ID, in the initial namespace.
    pub pid: u32,
    /// Its time on that CPU within the wait, ns.
    pub ns: u64,
}

/// The users of the CPU during one wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueUsers {
    /// Up to [`LISTED`] processes, the largest user first; empty where the kernel side keeps no turns.
    pub listed: Vec<QueueUser>,
    /// Time of further processes, ns.
    pub others_ns: u64,
}

impl QueueUsers {
    fn of(record: &QueueRecord) -> Self {
        let used = record.users.iter().filter(|user| user.ns > 0);
        let mut listed: Vec<QueueUser> =
            used.map(|user| QueueUser { comm: comm(&user.comm), pid: user.tgid, ns: user.ns }).collect();
        listed.sort_by_key(|user| (std::cmp::Reverse(user.ns), user.pid));
        let further = listed.drain(listed.len().min(LISTED)..);
        let others_ns = further.fold(record.others_ns, |sum, user| sum.saturating_add(user.ns));
        Self { listed, others_ns }
    }

    /// Cuts the times so that they fit into a wait of this length: a damaged record may claim more, and the
    /// clocks of two CPUs differ by some ns.
    fn fit(mut self, mut ns: u64) -> Self {
        for user in &mut self.listed {
            user.ns = user.ns.min(ns);
            ns -= user.ns;
        }
        self.others_ns = self.others_ns.min(ns);
        self.listed.retain(|user| user.ns > 0);
        self
    }

    /// Time of all users, ns.
    pub fn total_ns(&self) -> u64 {
        self.listed.iter().fold(self.others_ns, |sum, user| sum.saturating_add(user.ns))
    }
}

/// Records whose waits have not come yet.
#[derive(Debug, Default)]
pub(crate) struct Queues(Table<(ThreadId, u64), QueueUsers>);

impl Queues {
    /// A record came. Without room it is dropped: its wait then names the last user alone.
    pub(super) fn add(&mut self, record: &QueueRecord) {
        if self.0.len() < KEPT {
            let thread = ThreadId { tid: record.tid, tgid: record.tgid, born_ns: record.born_ns };
            self.0.insert((thread, record.header.time_ns), QueueUsers::of(record));
        }
    }

    /// The users during the thread's wait that ended then and has this much time in the queue.
    pub(super) fn take(&mut self, thread: ThreadId, end_ns: u64, queued_ns: u64) -> QueueUsers {
        self.0.remove(&(thread, end_ns)).unwrap_or_default().fit(queued_ns)
    }
}

#[cfg(test)]
mod tests {
    use guestscope_contract::{CpuUser, Header, Kind, USERS};

    use super::*;

    fn record(used: &[(u32, u64)]) -> QueueRecord {
        let mut users = [CpuUser::default(); USERS];
        for (user, (tgid, ns)) in users.iter_mut().zip(used) {
            *user = CpuUser { ns: *ns, tid: tgid + 1, tgid: *tgid, comm: *b"neighbour\0\0\0\0\0\0\0" };
        }
        let header = Header { kind: Kind::Queue as u32, flags: 0, time_ns: 90 };
        QueueRecord { header, born_ns: 1, tid: 5, tgid: 4, others_ns: 3, users }
    }

    #[test]
    fn the_largest_user_comes_first_and_no_time_is_invented() {
        let mut queues = Queues::default();
        queues.add(&record(&[(10, 2), (20, 7)]));
        let thread = ThreadId { tid: 5, tgid: 4, born_ns: 1 };
        assert_eq!(queues.take(thread, 89, 100), QueueUsers::default());
        let users = queues.take(thread, 90, 8);
        let found: Vec<_> = users.listed.iter().map(|user| (user.pid, user.ns)).collect();
        assert_eq!((found, users.others_ns, users.total_ns()), (vec![(20, 7), (10, 1)], 0, 8));
        assert_eq!(queues.take(thread, 90, 100), QueueUsers::default());
    }
}
