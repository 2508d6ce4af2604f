//! Turns what the recorder has of a time into a run folder: rows of its segments, limits and samples of its
//! stretches, and the conclusions that `run` draws at its end.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::keeper::Job;
use crate::{
    analyze::Summary,
    folder::{self, CreateOptions, Folder, IncidentRecord, Manifest, RunFolder, Segment, rfc3339},
    limits::Limit,
    platform::{Cgroup, CpuQuota},
    session::{attendant::Stretch, ending, facts},
    untrusted::Shown as _,
};

/// Shortest time without an agent that is told, ns: a restart takes less, and segments that follow each other
/// are some milliseconds apart.
const UNRECORDED_NS: u64 = 500_000_000;

/// Why there is no incident. `Display` gives `what: value`.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    /// The recorder has nothing of its time.
    #[error("nothing was recorded then: the recorder does not reach back so far, or no agent ran")]
    Nothing,
    /// No segment can be read, or the folder cannot be made.
    #[error(transparent)]
    Folder(#[from] folder::Error),
    /// The folder is there, and some of it is not as it should be.
    #[error("the folder is incomplete: {}: {what}", path.shown())]
    Incomplete {
        /// The folder.
        path: PathBuf,
        /// The first error, for people.
        what: String,
    },
}

/// Makes the folder. Returns its path.
///
/// # Errors
/// As [`Lost`] says.
pub(super) fn gather(parent: &Path, job: Job) -> Result<PathBuf, Lost> {
    let Job { record, segments, stretches, unfinished, kept, .. } = job;
    let mut folders = Vec::new();
    let mut problem = None;
    for segment in &segments {
        match Folder::open(Segment::path(segment)) {
            Ok(folder) => folders.push(folder),
            Err(error) => problem = Some(error),
        }
    }
    let Some(manifest) = folders.last().map(|last| manifest(last.manifest(), &folders, &record)) else {
        return Err(problem.map_or(Lost::Nothing, Lost::Folder));
    };
    let service = folders.last().map(|last| last.manifest().name.clone()).unwrap_or_default();
    let mut into = RunFolder::create(&CreateOptions { parent: parent.to_owned(), owner: None }, manifest)?;
    for folder in &folders {
        if let Err(error) = into.append_rows_of(folder, record.from_ns, record.to_ns) {
            problem = Some(error);
        }
    }
    into.end();
    let mut summary = Summary::read(|_| into.requests());
    // Evidence for the findings, which stand without it.
    let evidence = summary.as_mut().map_or(Ok(()), |summary| {
        summary.add_threads(into.threads()?)?;
        summary.add_waits(|| into.requests(), into.waits()?)
    });
    problem = problem.or_else(|| evidence.err());
    if let (Ok(summary), Some(kept)) = (&mut summary, &kept) {
        summary.weigh(kept.weight());
    }
    let spans = segments.iter().map(|one| one.span_ns()).filter(|span| span.1 > 0).collect();
    let missing = Missing { rows: rows_lost(&folders), unrecorded_ns: unrecorded_ns(spans, &record) };
    let limits = merged(&stretches);
    let mut cgroup = Cgroup::default();
    facts::limited(&mut cgroup, &limits);
    let finish = |manifest: &mut Manifest| {
        // The request's name was for the folder.
        manifest.name = service;
        manifest.end = rfc3339(manifest.wall_ns(record.to_ns));
        manifest.limits_seen = limits;
        manifest.kept = kept;
        if let Some(CpuQuota { quota_ns, period_ns, group }) = cgroup.cpu {
            (manifest.limits.cpu_quota_ns, manifest.limits.cpu_period_ns) = (Some(quota_ns), Some(period_ns));
            manifest.cpu_quota_group = group;
        }
        manifest.limits.memory_bytes = cgroup.memory_bytes.or(manifest.limits.memory_bytes);
        manifest.spun = sums(stretches.iter().map(|one| &one.counts.spun));
        manifest.called = sums(stretches.iter().map(|one| &one.counts.called));
        manifest.health.losses = sums(stretches.iter().map(|one| &one.counts.lost));
        manifest.unfinished = (&unfinished).into();
        missing.tell(manifest, problem.as_ref());
    };
    let path = into.path().to_owned();
    match ending::close(into, finish, summary.as_ref().ok())? {
        Some(what) => Err(Lost::Incomplete { path, what }),
        None => Ok(path),
    }
}

/// What is missing of an incident's time.
struct Missing {
    /// Rows that the recorder could not write.
    rows: u64,
    /// Time in which no agent recorded, ns.
    unrecorded_ns: u64,
}

impl Missing {
    /// Tells it, unless something else is told already. Not in `rows_lost` of the manifest: the folder writes
    /// the number of its own there.
    fn tell(&self, manifest: &mut Manifest, problem: Option<&folder::Error>) {
        let Self { rows, unrecorded_ns } = *self;
        let unrecorded =
            || format!("for {:.1} s of this time no agent recorded anything", unrecorded_ns as f64 / 1e9);
        let of_rows = || format!("{rows} rows of this time, or next to it, were not written by the recorder");
        let told = problem.map(ToString::to_string);
        let told = told.or_else(|| (unrecorded_ns >= UNRECORDED_NS).then(unrecorded));
        if let Some(missing) = told.or_else(|| (rows > 0).then(of_rows)) {
            manifest.health.folder_error.get_or_insert(missing);
        }
    }
}

/// Time of the incident between the end of one segment and the begin of the next, as where an agent was
/// killed and another one started, ns. What lies before the first segment is not in the recorder any more.
/// `spans`: begins and ends.
fn unrecorded_ns(mut spans: Vec<(u64, u64)>, record: &IncidentRecord) -> u64 {
    spans.sort_unstable();
    let (mut sum_ns, mut until_ns) = (0_u64, None);
    for (begin_ns, end_ns) in spans {
        let until = until_ns.get_or_insert(end_ns);
        let gap = ((*until).max(record.from_ns), begin_ns.min(record.to_ns));
        sum_ns += gap.1.saturating_sub(gap.0);
        *until = end_ns.max(*until);
    }
    sum_ns
}

/// Rows of all tables that these segments lack because they could not be written.
fn rows_lost(folders: &[Folder]) -> u64 {
    let lost = folders.iter().map(|folder| folder.manifest().rows_lost);
    lost.map(|one| one.phases + one.threads + one.samples + one.marks + one.waits + one.gpu_work).sum()
}

/// The manifest of an incident, from those of its segments.
fn manifest(last: &Manifest, folders: &[Folder], record: &IncidentRecord) -> Manifest {
    let mut clocks: Vec<_> = folders.iter().flat_map(|folder| folder.manifest().clocks.clone()).collect();
    clocks.dedup();
    let restored = folders.iter().flat_map(|folder| folder.manifest().restored.clone());
    let is_within = |one: &folder::RestoredRecord| (record.from_ns..=record.to_ns).contains(&one.noticed_ns);
    let mut manifest = Manifest { clocks, restored: restored.filter(is_within).collect(), ..last.clone() };
    // The pair in force stays first: it names the folder, and turns times of rows into wall time.
    let start = manifest.wall_ns(record.from_ns);
    manifest.clocks.retain(|pair| pair.monotonic_ns > record.from_ns);
    let first = folder::ClockPair { monotonic_ns: record.from_ns, wall_ns: start };
    manifest.clocks.insert(0, first);
    manifest.start = rfc3339(start);
    manifest.end = String::new();
    let id = facts::random_bytes().map(u128::from_be_bytes).unwrap_or_default();
    manifest.run_id = format!("{id:032x}");
    manifest.incident = Some(record.clone());
    if !record.request.is_empty() {
        manifest.name.clone_from(&record.request);
    }
    manifest
}

/// Limits of all stretches together.
fn merged(stretches: &[Stretch]) -> Vec<Limit> {
    let mut merged: Vec<Limit> = Vec::new();
    for limit in stretches.iter().flat_map(|stretch| &stretch.limits) {
        match merged.iter_mut().find(|known| known.is_of(limit)) {
            Some(known) => known.add_later(limit),
            None => merged.push(limit.clone()),
        }
    }
    merged
}

fn sums<'a, K: Clone + Ord + 'a>(maps: impl Iterator<Item = &'a BTreeMap<K, u64>>) -> BTreeMap<K, u64> {
    let mut sums = BTreeMap::new();
    for (key, count) in maps.flatten() {
        *sums.entry(key.clone()).or_insert(0) += count;
    }
    sums
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc, time::Duration};

    use rstest::rstest;

    use super::*;
    use crate::{
        clock,
        folder::{ClockPair, HealthRecord, Recorder, RecorderOptions},
        phase::AllUnfinished,
    };

    const S: u64 = 1_000_000_000;

    fn job(segments: Vec<Arc<Segment>>) -> Job {
        let record = IncidentRecord { from_ns: 0, to_ns: S, ..IncidentRecord::default() };
        let unfinished = AllUnfinished::default();
        Job { number: 0, record, segments, stretches: Vec::new(), unfinished, kept: None }
    }

    #[rstest]
    #[case::none(&[(0, 5), (5, 9), (9, 20)], 0)]
    #[case::between(&[(0, 5), (8, 20)], 3)]
    #[case::in_any_order(&[(14, 20), (0, 5), (8, 11)], 6)]
    #[case::before_it(&[(0, 1), (2, 9), (9, 20)], 0)]
    #[case::partly_before_it(&[(0, 1), (5, 20)], 2)]
    #[case::after_it(&[(0, 16), (30, 40)], 0)]
    #[case::overlapping(&[(0, 12), (4, 6), (13, 20)], 1)]
    #[case::nothing(&[], 0)]
    fn time_without_an_agent_lies_between_segments(#[case] spans: &[(u64, u64)], #[case] expected: u64) {
        let record = IncidentRecord { from_ns: 3, to_ns: 15, ..IncidentRecord::default() };
        assert_eq!(unrecorded_ns(spans.to_vec(), &record), expected);
    }

    #[test]
    fn a_time_of_which_nothing_was_recorded_is_told_as_that() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let error = gather(place.path(), job(Vec::new())).expect_err("there is nothing");
        assert!(error.to_string().starts_with("nothing was recorded then"), "{error}");
        assert_eq!(fs::read_dir(place.path()).expect("it is there").count(), 0);
    }

    #[rstest]
    #[case::none(0, None)]
    #[case::some(3, Some("3 rows of this time, or next to it, were not written by the recorder"))]
    fn rows_that_segments_lost_are_told(#[case] lost: u64, #[case] expected: Option<&str>) {
        let place = tempfile::tempdir().expect("a folder can be made");
        let start = ClockPair { monotonic_ns: 0, wall_ns: 1_000 * S };
        let options = CreateOptions { parent: place.path().join("recorder"), owner: None };
        let manifest = Manifest { boot_id: "boot".to_owned(), ..Manifest::new([7; 16], "watch", start) };
        let mut current = RunFolder::create(&options, manifest).expect("a folder can be made");
        let (length, keep) = (Duration::from_secs(10), Duration::from_mins(1));
        let options = RecorderOptions { parent: options.parent, length, keep, most_bytes: 1 << 30 };
        let mut recorder = Recorder::new(options, &current, clock::ClockPair::default());
        let end = clock::ClockPair { monotonic_ns: 2 * S, wall_ns: 1_002 * S };
        assert!(recorder.roll(&mut current, end));
        let segments = recorder.segments(0, S);
        // As the recorder writes it when a disk is full.
        let path = segments[0].path().join("manifest.json");
        let text = fs::read(&path).expect("it is there");
        let mut value: serde_json::Value = serde_json::from_slice(&text).expect("it is JSON");
        value["rows_lost"]["waits"] = lost.into();
        fs::write(&path, value.to_string()).expect("it is ours");
        let made = gather(&place.path().join("incidents"), job(segments)).expect("it can be made");
        let folder = Folder::open(made).expect("it was made");
        let HealthRecord { folder_error, .. } = &folder.manifest().health;
        assert_eq!(folder_error.as_deref(), expected);
    }
}
