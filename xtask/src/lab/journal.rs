//! The finished runs, a line each, written when a run is over: a lab that was interrupted continues after the
//! last one, and repeats nothing.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};

const FILE: &str = "journal.jsonl";

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Name of the cell.
    pub(super) cell: String,
    pub(super) repetition: u32,
    /// Duration of the whole run including its platform's start, seconds.
    pub(super) seconds: f64,
    /// Whether it had a virtual machine of its own; none on other platforms.
    #[serde(default)]
    pub(super) fresh: Option<bool>,
    /// Run folder below the plan's; none if it failed.
    pub(super) folder: Option<PathBuf>,
    /// Why it failed.
    pub(super) error: Option<String>,
    /// Commit of the programs.
    #[serde(default)]
    pub(super) commit: Option<String>,
}

/// The file and its content.
pub(super) struct Journal {
    file: File,
    pub(super) entries: Vec<Entry>,
}

/// The plan of this journal: the lab refuses to continue with another one.
#[derive(Serialize, Deserialize)]
struct Head {
    plan: String,
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Closing does not unlock if another thread has just forked: the child holds the lock until it execs.
        let _ = self.file.unlock();
    }
}

impl Journal {
    /// Opens or creates the journal in this folder, for this text of a plan. No other process may have it
    /// open.
    pub(super) fn open(folder: &Path, plan: &str) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("folder: {}", folder.display()))?;
        let path = folder.join(FILE);
        let what = || format!("journal: {}", path.display());
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text.with_context(what)?,
        };
        let mut file = OpenOptions::new().append(true).create(true).open(&path).with_context(what)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => bail!("another lab runs this plan: {}", folder.display()),
            locked => locked.with_context(what)?,
        }
        // A line without its end was interrupted; that run is repeated.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut lines = whole.lines();
        match lines.next() {
            None => {
                file.set_len(0).with_context(what)?;
                let head = serde_json::to_string(&Head { plan: plan.to_owned() })?;
                writeln!(file, "{head}").with_context(what)?;
            }
            Some(head) => {
                let head: Head = serde_json::from_str(head).with_context(what)?;
                ensure!(
                    head.plan == plan,
                    "the plan is another one than when this began: {}; rename the plan or remove that folder",
                    folder.display()
                );
                if whole.len() < text.len() {
                    file.set_len(whole.len() as u64).with_context(what)?;
                }
            }
        }
        let entries =
            lines.map(|line| serde_json::from_str(line).with_context(what)).collect::<Result<_>>()?;
        Ok(Self { file, entries })
    }

    /// Whether the journal has a run's folder.
    pub(super) fn has_folder(&self, folder: &Path) -> bool {
        self.entries.iter().any(|entry| entry.folder.as_deref() == Some(folder))
    }

    /// Whether the run was made and succeeded.
    pub(super) fn is_done(&self, cell: &str, repetition: u32) -> bool {
        let same = |entry: &&Entry| entry.cell == cell && entry.repetition == repetition;
        self.entries.iter().rfind(same).is_some_and(|entry| entry.folder.is_some())
    }

    /// Commits of the successful runs, and the number of runs of each: a lab may continue after a change.
    pub(super) fn commits(&self) -> BTreeMap<&str, usize> {
        let done = self.entries.iter().filter(|entry| entry.folder.is_some());
        let mut commits = BTreeMap::new();
        for commit in done.filter_map(|entry| entry.commit.as_deref()) {
            *commits.entry(commit).or_default() += 1;
        }
        commits
    }

    /// Writes a line and syncs it to the disk.
    pub(super) fn add(&mut self, entry: Entry) -> Result<()> {
        writeln!(self.file, "{}", serde_json::to_string(&entry)?).context("journal")?;
        self.file.sync_data().context("journal")?;
        self.entries.push(entry);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, FILE, Journal};

    fn entry(cell: &str, repetition: u32, folder: Option<&str>) -> Entry {
        let error = folder.is_none().then(|| "it broke".to_owned());
        Entry {
            cell: cell.to_owned(),
            repetition,
            seconds: 1.5,
            fresh: None,
            folder: folder.map(Into::into),
            error,
            commit: folder.map(|_| format!("commit {repetition}")),
        }
    }

    #[test]
    fn goes_on_where_it_was_interrupted() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), "plan").unwrap();
        journal.add(entry("a", 0, Some("runs/x"))).unwrap();
        journal.add(entry("b", 0, None)).unwrap();
        drop(journal);
        // The next line was cut off.
        let path = folder.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{{\"cell\": \"a\", \"repe")).unwrap();
        let mut journal = Journal::open(folder.path(), "plan").unwrap();
        assert_eq!(journal.entries.len(), 2);
        assert!(journal.is_done("a", 0) && !journal.is_done("a", 1) && !journal.is_done("b", 0));
        journal.add(entry("b", 0, Some("runs/y"))).unwrap();
        drop(journal);
        let journal = Journal::open(folder.path(), "plan").unwrap();
        assert!(journal.is_done("b", 0));
        assert_eq!(journal.commits().into_iter().collect::<Vec<_>>(), [("commit 0", 2)]);
    }

    #[test]
    fn another_plan_does_not_go_on() {
        let folder = tempfile::tempdir().unwrap();
        Journal::open(folder.path(), "plan").unwrap();
        let error = Journal::open(folder.path(), "other").err().unwrap().to_string();
        assert!(error.starts_with("the plan is another one than when this began: "), "{error}");
    }

    #[test]
    fn two_labs_do_not_share_one() {
        let folder = tempfile::tempdir().unwrap();
        let _first = Journal::open(folder.path(), "plan").unwrap();
        let error = Journal::open(folder.path(), "plan").err().unwrap().to_string();
        assert!(error.starts_with("another lab runs this plan: "), "{error}");
    }
}
