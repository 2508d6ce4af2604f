//! The thread that keeps incidents: it gathers what the recorder has of them into run folders, removes the
//! oldest beyond the budget, and saves the list. It comes after everything else where CPUs are scarce.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
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
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// There can be no thread.
    pub(super) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let (work, to_do) = sync_channel(JOBS);
        let body = move || {
            come_last();
            let directory = shared.config().directory.clone();
            let settled = privileges::drop_all().and_then(|()| privileges::change_only_below(&directory));
            if let Err(error) = settled {
                out::say(&format!("warning: the thread that keeps incidents keeps privileges: {error}\n"));
            }
            run(&shared, &to_do);
        };
        let thread = thread::Builder::new().name("incidents".to_owned()).spawn(body)?;
        Ok(Self { work: Some(work), thread: Some(thread) })
    }

    /// Hands over an incident. Returns whether there was room.
    pub(super) fn keep(&self, job: Job) -> bool {
        self.work.as_ref().is_some_and(|work| work.try_send(Work::Keep(Box::new(job))).is_ok())
    }

    /// Saves the list. Without room it is saved after the next incident.
    pub(super) fn save(&self) {
        let _ = self.work.as_ref().map(|work| work.try_send(Work::Save));
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

fn run(shared: &Shared, to_do: &Receiver<Work>) {
    while let Ok(work) = to_do.recv() {
        let is_kept = match work {
            Work::Keep(job) => {
                keep(shared, *job);
                true
            }
            Work::Save => false,
        };
        if let Err(error) = save(shared) {
            shared.status().last_error = format!("the list of incidents cannot be saved: {error}");
        }
        if is_kept {
            shared.kept.notify_one();
        }
    }
}

fn keep(shared: &Shared, job: Job) {
    let config = shared.config();
    let parent = config.directory.join("incidents");
    let (number, trigger, request) = (job.number, job.record.trigger.clone(), job.record.request.clone());
    let made = gather::gather(&parent, job);
    let mut list = shared.list();
    let listed = list.get(number);
    match made {
        Ok(path) => {
            let path = path.shown().stored().to_owned();
            out::say(&format!("incident: {request} {trigger}: {path}\n"));
            if let Some(listed) = listed {
                listed.folder = path;
            }
            drop(list);
            shared.status().incidents += 1;
        }
        Err(error) => {
            let text = error.to_string();
            out::say(&format!("warning: an incident is lost: {text}\n"));
            if let Some(listed) = listed {
                listed.error.clone_from(&text);
            }
            drop(list);
            let mut status = shared.status();
            status.incidents_failed += 1;
            status.last_error = text;
        }
    }
    trim(&parent, config.incidents.keep.0);
}

/// Removes the oldest incidents while all together take more than so many bytes; the newest one stays.
fn trim(parent: &Path, most_bytes: u64) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut folders: Vec<(PathBuf, u64)> =
        entries.map(|entry| entry.path()).map(|path| (path.clone(), bytes_below(&path))).collect();
    // Their names begin with their times.
    folders.sort();
    let mut all: u64 = folders.iter().map(|(_, bytes)| bytes).sum();
    let oldest = folders.len().saturating_sub(1);
    for (path, bytes) in folders.into_iter().take(oldest) {
        if all <= most_bytes {
            break;
        }
        // What cannot be removed is tried again after the next incident.
        if fs::remove_dir_all(&path).is_ok() {
            all -= bytes;
        }
    }
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
mod tests {
    use super::*;
    use crate::{untrusted::Shown, watch::shared::Listed};

    #[test]
    fn the_oldest_incidents_make_room_and_the_newest_stays() {
        let place = tempfile::tempdir().expect("a folder can be made");
        for name in ["2026-01-01-a", "2026-01-02-b", "2026-01-03-c"] {
            fs::create_dir(place.path().join(name)).expect("the place is ours");
            fs::write(place.path().join(name).join("rows"), vec![1; 100_000]).expect("the place is ours");
        }
        let names = || {
            let mut names: Vec<String> = fs::read_dir(place.path())
                .expect("it is there")
                .map(|entry| entry.expect("it is there").file_name().shown().to_string())
                .collect();
            names.sort();
            names
        };
        trim(place.path(), 1 << 20);
        assert_eq!(names().len(), 3);
        trim(place.path(), 250_000);
        assert_eq!(names(), ["2026-01-02-b", "2026-01-03-c"]);
        trim(place.path(), 1);
        assert_eq!(names(), ["2026-01-03-c"]);
    }

    #[test]
    fn a_list_survives_and_a_damaged_one_does_no_harm() {
        let place = tempfile::tempdir().expect("a folder can be made");
        assert_eq!(saved(place.path()), List::default());
        let mut list = List::default();
        list.add(Listed { folder: "/a".to_owned(), ..Listed::default() });
        list.add(Listed::default());
        let text = guestscope_base::json::pretty(&list).expect("it is JSON");
        fs::write(place.path().join(LIST), text).expect("the place is ours");
        let mut again = saved(place.path());
        assert_eq!(again.incidents[0].folder, "/a");
        assert!(!again.incidents[1].error.is_empty());
        assert_eq!(again.add(Listed::default()), 2);
        fs::write(place.path().join(LIST), "{\"next\": -1").expect("the place is ours");
        assert_eq!(saved(place.path()), List::default());
    }
}
