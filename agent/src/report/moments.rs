//! Single requests for a closer look, with their waits; and between which CPUs threads moved in long waits.
//!
//! Reads the folders of a comparison a second time, once the requests to show are known. Read errors become
//! notes; the rest is shown.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use crate::untrusted::Untrusted;
use crate::{
    analyze::compare::{Pick, Picked, Platform, is_told_by, latency_ns},
    compare::{Member, each_in_parallel},
    folder::{self, Folder},
    phase::{GpuReading, GpuWork, Request, ThreadId, Wait},
    sinks::{
        html::{Looked, Moment, Why},
        terminal::Count,
    },
};

/// Slowest requests shown per platform.
const SLOWEST: usize = 5;
/// Most waits kept of a request, the longest ones.
const MOST_WAITS: usize = 2_000;
/// Most phases drawn of a request, the longest ones. A chart has a thousand pixels.
const MOST_PHASES: usize = 2_000;
/// Most GPU readings of a run: five per second and device, for an hour.
const MOST_READINGS: usize = 20_000;
/// Most pieces of work of GPUs of a request.
const MOST_WORKS: usize = 20_000;
/// Most pairs of CPUs that are counted.
const MOST_PAIRS: usize = 1 << 16;

/// One run, read.
#[derive(Default)]
struct Read {
    picked: Picked,
    waits: HashMap<u64, (Vec<Wait>, usize)>,
    moves: BTreeMap<(u32, u32), u64>,
    seen: u64,
    threads: HashMap<ThreadId, Untrusted>,
    gpus: Vec<GpuReading>,
    works: HashMap<u64, Vec<GpuWork>>,
    left_out: u64,
}

/// Looks into all runs of all platforms.
pub(super) fn look(platforms: &[(&Platform, &[Member])], is_process: bool) -> Vec<Looked> {
    let picks: Vec<(usize, &Member, Pick)> = platforms
        .iter()
        .enumerate()
        .flat_map(|(index, (platform, members))| picks(index, platform, members, is_process))
        .collect();
    let progress = Count::start("run folders, for single requests", picks.len(), true);
    let read =
        each_in_parallel(&picks, |(_, member, pick)| read(member, pick), &|done| progress.update(done));
    progress.finish();
    let mut looked: Vec<Looked> = platforms.iter().map(|_| Looked::default()).collect();
    let mut found: Vec<Vec<(String, u64, Read)>> = platforms.iter().map(|_| Vec::new()).collect();
    for ((index, member, pick), read) in picks.iter().zip(read) {
        let run = member.name();
        match read {
            Ok(read) => found[*index].push((run, pick.typical_ns, read)),
            Err(error) => looked[*index].notes.push(format!("single requests of {run} are missing: {error}")),
        }
    }
    for (looked, found) in looked.iter_mut().zip(found) {
        fill(looked, found);
    }
    looked
}

fn picks<'a>(
    index: usize,
    platform: &Platform,
    members: &'a [Member],
    is_process: bool,
) -> Vec<(usize, &'a Member, Pick)> {
    let medians: Vec<u64> = platform
        .runs
        .iter()
        .filter_map(|run| {
            let latencies = &run.requests.latencies_ns;
            latencies.get(latencies.len() / 2).copied()
        })
        .collect();
    let sum: u128 = medians.iter().map(|&median_ns| u128::from(median_ns)).sum();
    let typical_ns = (sum / medians.len().max(1) as u128) as u64;
    let pick = |(run, member): (&crate::analyze::compare::Run, &'a Member)| {
        let pick = Pick {
            name: run.requests.name.clone(),
            warmup: run.requests.warmup,
            typical_ns,
            slowest: SLOWEST,
            is_process,
            most_phases: MOST_PHASES,
        };
        (index, member, pick)
    };
    platform.runs.iter().zip(members).map(pick).collect()
}

fn read(member: &Member, pick: &Pick) -> Result<Read, folder::Error> {
    let folder = Folder::open(&member.folder)?;
    let picked = Picked::read(folder.requests()?, pick)?;
    let mut read = Read { picked, ..Read::default() };
    for request in read.picked.slowest.iter().chain(&read.picked.typical) {
        read.waits.insert(request.root().id, (Vec::new(), 0));
    }
    for wait in folder.waits()? {
        read.add(wait?);
    }
    for sample in folder.samples()? {
        let reading = sample?.gpu.filter(|reading| read.picked.is_told_by(reading.time_ns));
        read.left_out += u64::from(reading.is_some() && read.gpus.len() >= MOST_READINGS);
        read.gpus.extend(reading.filter(|_| read.gpus.len() < MOST_READINGS));
    }
    for work in folder.gpu_work()?.into_iter().flatten() {
        read.work(work?);
    }
    let shown = read.waits.values().flat_map(|(waits, _)| waits).map(|wait| wait.thread);
    let picked = read.picked.slowest.iter().chain(&read.picked.typical).map(|request| request.root().thread);
    let shown: HashSet<ThreadId> = shown.chain(picked).collect();
    for thread in folder.threads()? {
        let thread = thread?;
        if shown.contains(&thread.id) {
            read.threads.insert(thread.id, thread.comm);
        }
    }
    Ok(read)
}

impl Read {
    fn add(&mut self, wait: Wait) {
        let Some(root) = wait.root else { return };
        self.seen += 1;
        let pair = (wait.left_cpu, wait.cpu);
        if wait.left_cpu != wait.cpu && (self.moves.len() < MOST_PAIRS || self.moves.contains_key(&pair)) {
            *self.moves.entry(pair).or_default() += 1;
        } else if wait.left_cpu != wait.cpu {
            self.left_out += 1;
        }
        let Some((waits, left_out)) = self.waits.get_mut(&root) else { return };
        waits.push(wait);
        if waits.len() > 2 * MOST_WAITS {
            *left_out += shorten(waits);
        }
    }
}

impl Read {
    fn work(&mut self, work: GpuWork) {
        let Some(root) = work.root.filter(|root| self.waits.contains_key(root)) else { return };
        let works = self.works.entry(root).or_default();
        if works.len() < MOST_WORKS {
            works.push(work);
        } else {
            self.left_out += 1;
        }
    }
}

/// Keeps the longest waits; returns how many were dropped.
fn shorten(waits: &mut Vec<Wait>) -> usize {
    let too_many = waits.len().saturating_sub(MOST_WAITS);
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.duration_ns));
    waits.truncate(MOST_WAITS);
    too_many
}

fn fill(looked: &mut Looked, found: Vec<(String, u64, Read)>) {
    let mut typical: Option<(u64, Moment)> = None;
    let mut slowest = Vec::new();
    for (run, typical_ns, mut read) in found {
        looked.waits += read.seen;
        let (phases, others) = (read.picked.phases_left_out, read.left_out);
        if phases > 0 {
            looked.notes.push(format!("{run}: {phases} short phases of single requests are not drawn"));
        }
        if others > 0 {
            looked.notes.push(format!("{run}: {others} moves, readings or works of devices are not drawn"));
        }
        for (pair, count) in std::mem::take(&mut read.moves) {
            *looked.moves.entry(pair).or_default() += count;
        }
        let threads = Arc::new(std::mem::take(&mut read.threads));
        let Picked { typical: nearest, slowest: slow, .. } = std::mem::take(&mut read.picked);
        let moment = |why: Why, request: Request| {
            let (mut waits, mut waits_left_out) =
                read.waits.get(&request.root().id).cloned().unwrap_or_default();
            waits_left_out += shorten(&mut waits);
            waits.sort_by_key(|wait| wait.start_ns);
            let mut works = read.works.get(&request.root().id).cloned().unwrap_or_default();
            works.sort_by_key(|work| work.start_ns);
            let gpus = read.gpus.iter().filter(|reading| is_told_by(&request, reading.time_ns));
            Moment {
                why,
                gpus: gpus.copied().collect(),
                works,
                run: run.clone(),
                request,
                waits,
                waits_left_out,
                threads: Arc::clone(&threads),
            }
        };
        if let Some(request) = nearest {
            let distance = latency_ns(&request).abs_diff(typical_ns);
            if typical.as_ref().is_none_or(|(known, _)| distance < *known) {
                typical = Some((distance, moment(Why::Typical, request)));
            }
        }
        slowest.extend(slow.into_iter().map(|request| moment(Why::Slow(0), request)));
    }
    slowest.sort_by_key(|moment| std::cmp::Reverse(latency_ns(&moment.request)));
    slowest.truncate(SLOWEST);
    for (index, moment) in slowest.iter_mut().enumerate() {
        moment.why = Why::Slow(index + 1);
    }
    looked.moments = typical.into_iter().map(|(_, moment)| moment).chain(slowest).collect();
}
