//! The manifest's record of requests without an end: those that are open, as of the last look, and those that
//! ended with their threads.

use guestscope_contract::Account;
use serde::{Deserialize, Serialize};

use crate::{
    phase::{AllUnfinished, Doing, Fate, OpenWait, Others, Stopper, ThreadId, UNFINISHED, Unfinished},
    untrusted::Untrusted,
};

/// [`AllUnfinished`] in its stored form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnfinishedRecord {
    /// Number of requests that are open.
    pub open: u64,
    /// Number of requests that ended with their threads.
    pub ended: u64,
    /// The longest of both.
    pub requests: Vec<OpenRecord>,
}

/// [`Unfinished`] in its stored form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenRecord {
    /// The `id` of its outermost phase.
    pub id: u64,
    /// Name of the outermost phase.
    pub name: Untrusted,
    /// The number that the program gave it.
    pub request: u64,
    /// Process of the innermost phase's thread.
    pub tgid: u32,
    /// That thread.
    pub tid: u32,
    /// CLOCK_MONOTONIC at which it was first seen, ns.
    pub born_ns: u64,
    /// Start of the request, ns.
    pub start_ns: u64,
    /// When it was last seen open, or ended, ns.
    pub until_ns: u64,
    /// Names of the open phases from under the request.
    pub path: Vec<Untrusted>,
    /// Start of the innermost, ns.
    pub phase_start_ns: u64,
    /// What became of it: open, stopped, thread_ended, process_ended or replaced.
    pub fate: String,
    /// What its thread did last: unknown, suspended, running, runnable, or the account of a wait.
    pub state: String,
    /// Since when, ns.
    pub since_ns: u64,
    /// The system call of a wait.
    pub syscall: Option<u32>,
    /// What had stopped the thread: signal, debugger or freezer.
    pub stopped_by: Option<String>,
    /// What a wait was for.
    pub object: Option<Untrusted>,
    /// Whether only threads of its process could end the wait.
    pub is_private: Option<bool>,
    /// Other threads of its process that were alive.
    pub others: Option<u32>,
    /// Those of them that waited for locks.
    pub others_locked: Option<u32>,
    /// The process that theirs was forked from.
    pub forked_from: Option<u32>,
}

/// Words of [`Doing`] besides the accounts.
const UNKNOWN: &str = "unknown";
const SUSPENDED: &str = "suspended";
const RUNNING: &str = "running";
const RUNNABLE: &str = "runnable";

impl From<&AllUnfinished> for UnfinishedRecord {
    fn from(all: &AllUnfinished) -> Self {
        let AllUnfinished { open, ended, requests } = all;
        Self { open: *open, ended: *ended, requests: requests.iter().map(OpenRecord::from).collect() }
    }
}

impl From<&UnfinishedRecord> for AllUnfinished {
    /// No more than an agent would have kept.
    fn from(record: &UnfinishedRecord) -> Self {
        let UnfinishedRecord { open, ended, requests } = record;
        let requests = requests.iter().take(2 * UNFINISHED).map(Unfinished::from).collect();
        Self { open: *open, ended: *ended, requests }
    }
}

impl From<&Unfinished> for OpenRecord {
    fn from(one: &Unfinished) -> Self {
        let (state, since_ns, wait) = match &one.doing {
            Doing::Unknown => (UNKNOWN, 0, None),
            Doing::Runs => (RUNNING, 0, None),
            Doing::Queued { since_ns } => (RUNNABLE, *since_ns, None),
            Doing::Suspended { since_ns } => (SUSPENDED, *since_ns, None),
            Doing::Waits(wait) => (wait.account.name(), wait.since_ns, Some(wait)),
        };
        Self {
            id: one.id,
            name: one.name.clone(),
            request: one.request,
            tgid: one.thread.tgid,
            tid: one.thread.tid,
            born_ns: one.thread.born_ns,
            start_ns: one.start_ns,
            until_ns: one.until_ns,
            path: one.path.clone(),
            phase_start_ns: one.phase_start_ns,
            fate: one.fate.name().to_owned(),
            state: state.to_owned(),
            since_ns,
            syscall: wait.and_then(|wait| wait.syscall),
            stopped_by: wait.and_then(|wait| wait.stopped_by).map(|by| by.name().to_owned()),
            object: wait.and_then(|wait| wait.object.clone()),
            is_private: wait.and_then(|wait| wait.is_private),
            others: one.others.map(|others| others.alive),
            others_locked: one.others.map(|others| others.locked),
            forked_from: one.others.and_then(|others| others.forked_from),
        }
    }
}

impl From<&OpenRecord> for Unfinished {
    fn from(record: &OpenRecord) -> Self {
        let since_ns = record.since_ns;
        let account = Account::ALL.into_iter().find(|account| account.name() == record.state);
        let doing = match (record.state.as_str(), account) {
            (RUNNING, _) => Doing::Runs,
            (RUNNABLE, _) => Doing::Queued { since_ns },
            (SUSPENDED, _) => Doing::Suspended { since_ns },
            (_, Some(account)) => Doing::Waits(OpenWait {
                account,
                syscall: record.syscall,
                stopped_by: record.stopped_by.as_deref().and_then(Stopper::named),
                since_ns,
                object: record.object.clone(),
                is_private: record.is_private,
            }),
            (_, None) => Doing::Unknown,
        };
        let fate = Fate::ALL.into_iter().find(|fate| fate.name() == record.fate);
        let (locked, forked_from) = (record.others_locked.unwrap_or(0), record.forked_from);
        let others = |alive| Others { alive, locked, forked_from };
        Self {
            id: record.id,
            name: record.name.clone(),
            request: record.request,
            thread: ThreadId { tid: record.tid, tgid: record.tgid, born_ns: record.born_ns },
            start_ns: record.start_ns,
            until_ns: record.until_ns,
            path: record.path.clone(),
            phase_start_ns: record.phase_start_ns,
            fate: fate.unwrap_or(Fate::Open),
            doing,
            others: record.others.map(others),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unfinished(fate: Fate, doing: Doing) -> Unfinished {
        Unfinished {
            id: 7,
            name: "serve".into(),
            request: 3,
            thread: ThreadId { tid: 12, tgid: 11, born_ns: 5 },
            start_ns: 1_000,
            until_ns: 9_000,
            path: vec!["outer".into(), "tokenize".into()],
            phase_start_ns: 2_000,
            fate,
            doing,
            others: Some(Others { alive: 2, locked: 1, forked_from: Some(9) }),
        }
    }

    #[test]
    fn what_is_stored_is_read_back() {
        let wait = OpenWait {
            account: Account::Lock,
            syscall: Some(202),
            stopped_by: Some(Stopper::Freezer),
            since_ns: 2_500,
            object: Some("pipe:[1]".into()),
            is_private: Some(true),
        };
        let doings = [
            Doing::Unknown,
            Doing::Runs,
            Doing::Queued { since_ns: 2_100 },
            Doing::Suspended { since_ns: 2_200 },
            Doing::Waits(wait),
        ];
        let requests: Vec<Unfinished> =
            Fate::ALL.into_iter().zip(doings).map(|(fate, doing)| unfinished(fate, doing)).collect();
        let all = AllUnfinished { open: 2, ended: 3, requests };
        let text = serde_json::to_string(&UnfinishedRecord::from(&all)).expect("it is plain");
        let read: UnfinishedRecord = serde_json::from_str(&text).expect("it was written");
        assert_eq!(AllUnfinished::from(&read), all);
    }

    /// A folder of others may claim anything.
    #[test]
    fn what_nobody_writes_is_bounded() {
        let record = OpenRecord { fate: "x".to_owned(), state: "y".to_owned(), ..OpenRecord::default() };
        let read = Unfinished::from(&record);
        assert_eq!((read.fate, read.doing), (Fate::Open, Doing::Unknown));
        let many = UnfinishedRecord { requests: vec![record; 1_000], ..UnfinishedRecord::default() };
        assert_eq!(AllUnfinished::from(&many).requests.len(), 2 * UNFINISHED);
    }
}
