//! The thread that keeps incidents: it gathers what the recorder has of them into run folders, removes the
//! oldest beyond the budget, and saves the list. It comes after everything else where CPUs are scarce.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread::{self, JoinHandle},
};

use super::{
    gather,
    shared::{List, Shared},
};
use crate::{
    folder::{IncidentRecord, KeptRecord, Segment},
    guarded::{self, Directory},
    out,
    phase::AllUnfinished,
    privileges,
    session::attendant::Stretch,
    untrusted::Shown as _,
};

/// Most jobs that wait.
const JOBS: usize = 16;
/// The file of the list.
const LIST: &str = "incidents.json";
/// Most bytes of it: each incident has three names.
const LIST_BYTES: u64 = 4 << 20;

/// An incident that is to be kept.
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) record: IncidentRecord,
    /// Segments that hold any of it; they stay until the job is done.
    pub(super) segments: Vec<Arc<Segment>>,
    /// Stretches that overlap it, in their order.
    pub(super) stretches: Vec<Stretch>,
    pub(super) unfinished: AllUnfinished,
    /// The part of its requests that was kept, if not all were.
    pub(super) kept: Option<KeptRecord>,
}

enum Work {
    Keep(Box<Job>),
    Save,
}

/// The handle of the thread.
pub(super) struct Keeper {
    /// Dropped when the thread is to end.
    work: Option<SyncSender<Work>>,
    /// The list waits to be saved. The list changes each second while much is noticed: more than one save in
    /// the queue would take the places of incidents while one is being made.
    save_waits: Arc<AtomicBool>,
    /// Numbers of incidents that could not be made.
    failed: Receiver<u64>,
    thread: Option<JoinHandle<()>>,
}

/// The thread's end of it.
struct Keeping {
    to_do: Receiver<Work>,
    save_waits: Arc<AtomicBool>,
    failed: Sender<u64>,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// There can be no thread.
    pub(super) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let (mut keeper, keeping) = Self::pair();
        let body = move || {
            come_last();
            let directory = shared.config().directory.clone();
            let settled = privileges::drop_all().and_then(|()| privileges::change_only_below(&directory));
            if let Err(error) = settled {
                out::say(&format!("warning: the thread that keeps incidents keeps privileges: {error}\n"));
            }
            run(&shared, &keeping);
        };
        keeper.thread = Some(thread::Builder::new().name("incidents".to_owned()).spawn(body)?);
        Ok(keeper)
    }

    /// A handle without a thread, and what the thread gets. There is a place beside the jobs for a save.
    fn pair() -> (Self, Keeping) {
        let (work, to_do) = sync_channel(JOBS + 1);
        let (failing, failed) = channel();
        let save_waits = Arc::new(AtomicBool::new(false));
        let keeping = Keeping { to_do, save_waits: Arc::clone(&save_waits), failed: failing };
        (Self { work: Some(work), save_waits, failed, thread: None }, keeping)
    }

    /// Hands over an incident. Returns whether there was room.
    pub(super) fn keep(&self, job: Job) -> bool {
        self.work.as_ref().is_some_and(|work| work.try_send(Work::Keep(Box::new(job))).is_ok())
    }

    /// Saves the list, unless that waits to be done already. Without room it is saved after the next
    /// incident.
    pub(super) fn save(&self) {
        if self.save_waits.swap(true, Ordering::AcqRel) {
            return;
        }
        let is_sent = self.work.as_ref().is_some_and(|work| work.try_send(Work::Save).is_ok());
        if !is_sent {
            self.save_waits.store(false, Ordering::Release);
        }
    }

    /// Numbers of incidents that could not be made since the last call.
    pub(super) fn failed(&self) -> Vec<u64> {
        self.failed.try_iter().collect()
    }
}

impl Drop for Keeper {
    /// What was handed over is kept.
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been told.
            let _ = thread.join();
        }
    }
}

/// The calling thread yields to others (nice 10).
fn come_last() {
    const NICE: i32 = 10;
    let calling_thread = 0;
    // SAFETY: no pointers are passed.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, calling_thread, NICE) };
}

fn run(shared: &Shared, keeping: &Keeping) {
    while let Ok(work) = keeping.to_do.recv() {
        let is_kept = match work {
            Work::Keep(job) => {
                let number = job.number;
                if !keep(shared, *job) {
                    // Without the other end nobody wants to know.
                    let _ = keeping.failed.send(number);
                }
                true
            }
            Work::Save => {
                // Before the list is read: what changes from now on needs a save of its own.
                keeping.save_waits.store(false, Ordering::Release);
                false
            }
        };
        if let Err(error) = save(shared) {
            shared.status().last_error = format!("the list of incidents cannot be saved: {error}");
        }
        if is_kept {
            shared.kept.notify_one();
        }
    }
}

/// Makes an incident, and room for it. Returns whether it was made.
fn keep(shared: &Shared, job: Job) -> bool {
    let config = shared.config();
    let parent = config.directory.join("incidents");
    let (number, what) = (job.number, told(&job.record));
    let made = gather::gather(&parent, job);
    let mut list = shared.list();
    let listed = list.get(number);
    match &made {
        Ok(path) => {
            let path = path.shown().stored().to_owned();
            out::say(&format!("incident: {what}: {path}\n"));
            if let Some(listed) = listed {
                listed.folder = path;
            }
            drop(list);
            shared.status().incidents += 1;
        }
        Err(error) => {
            let text = error.to_string();
            out::say(&format!("warning: an incident is lost: {what}: {text}\n"));
            if let Some(listed) = listed {
                listed.error.clone_from(&text);
            }
            drop(list);
            let mut status = shared.status();
            status.incidents_failed += 1;
            status.last_error = text;
        }
    }
    let numbers = numbers(&shared.list());
    let removed = trim(&parent, config.incidents.keep.0, made.as_deref().ok(), &numbers);
    forget(&mut shared.list(), &removed);
    made.is_ok()
}

/// What was noticed, for people. Not every incident is of a request.
fn told(record: &IncidentRecord) -> String {
    let IncidentRecord { request, trigger, .. } = record;
    if request.is_empty() { trigger.clone() } else { format!("{request} {trigger}") }
}

/// Numbers of the listed incidents by their folders.
fn numbers(list: &List) -> HashMap<String, u64> {
    let made = list.incidents.iter().filter(|one| !one.folder.is_empty());
    made.map(|one| (one.folder.clone(), one.number)).collect()
}

/// The list no longer names these folders, which were removed.
fn forget(list: &mut List, removed: &[String]) {
    for gone in list.incidents.iter_mut().filter(|one| removed.contains(&one.folder)) {
        gone.folder.clear();
        "removed to make room for later ones: incidents.keep".clone_into(&mut gone.error);
    }
}

/// Removes the oldest incidents while all together take more than so many bytes; the one that was just made
/// stays, or else the newest one. Returns the folders that were removed, as the list has them.
///
/// They were made in the order of their `numbers`. One without a number is older than what is listed, or is
/// what is left of one that failed: it goes first. Their names and times do not tell, since the wall clock
/// may have been set back.
fn trim(parent: &Path, most_bytes: u64, made: Option<&Path>, numbers: &HashMap<String, u64>) -> Vec<String> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort_by_cached_key(|path| {
        let changed = fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).ok();
        let number = numbers.get(path.shown().stored()).copied();
        (Some(&**path) == made, number, changed, path.clone())
    });
    let folders: Vec<(PathBuf, u64)> =
        folders.into_iter().map(|path| (path.clone(), bytes_below(&path))).collect();
    let mut all: u64 = folders.iter().map(|(_, bytes)| bytes).sum();
    let older = folders.len().saturating_sub(1);
    let mut removed = Vec::new();
    for (path, bytes) in folders.into_iter().take(older) {
        if all <= most_bytes {
            break;
        }
        // What cannot be removed is tried again after the next incident.
        if fs::remove_dir_all(&path).is_ok() {
            all = all.saturating_sub(bytes);
            removed.push(path.shown().stored().to_owned());
        }
    }
    removed
}

/// Bytes on disk of a directory of files and directories of files.
fn bytes_below(path: &Path) -> u64 {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| {
        let Ok(metadata) = entry.metadata() else { return 0 };
        let below = if metadata.is_dir() {
            let files = fs::read_dir(entry.path()).into_iter().flatten().flatten();
            files.filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * 512).sum()
        } else {
            0
        };
        metadata.blocks() * 512 + below
    };
    entries.map(of).sum()
}

fn save(shared: &Shared) -> io::Result<()> {
    let text = guestscope_base::json::pretty(&*shared.list()).map_err(io::Error::other)?;
    Directory::open(&shared.config().directory)?.replace_with(LIST, text.as_bytes())
}

/// The list that an earlier agent saved; an empty one if there is none that can be read.
pub(super) fn saved(directory: &Path) -> List {
    let read = guarded::read_begin(&directory.join(LIST), LIST_BYTES);
    let mut list: List = read.ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    // What it did not finish it never will.
    let unfinished = list.incidents.iter_mut().filter(|one| one.folder.is_empty() && one.error.is_empty());
    unfinished.for_each(|one| "the agent ended before it was kept".clone_into(&mut one.error));
    list.incidents.truncate(super::shared::MOST_LISTED);
    list
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
