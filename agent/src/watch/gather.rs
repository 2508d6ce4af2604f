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
};

/// Makes the folder. Returns its path.
///
/// # Errors
/// No segment can be read, or the folder cannot be made.
pub(super) fn gather(parent: &Path, job: Job) -> Result<PathBuf, folder::Error> {
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
        let missing = || folder::Error::NotARunFolder { path: parent.to_owned() };
        return Err(problem.unwrap_or_else(missing));
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
        summary.add_waits(into.waits()?)
    });
    problem = problem.or_else(|| evidence.err());
    if let (Ok(summary), Some(kept)) = (&mut summary, &kept) {
        summary.weigh(kept.weight());
    }
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
        manifest.spun = sums(stretches.iter().map(|one| &one.spun));
        manifest.called = sums(stretches.iter().map(|one| &one.called));
        manifest.unfinished = (&unfinished).into();
        if let Some(problem) = problem {
            manifest.health.folder_error.get_or_insert(problem.to_string());
        }
    };
    let path = into.path().to_owned();
    ending::close(into, finish, summary.as_ref().ok())?;
    Ok(path)
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
