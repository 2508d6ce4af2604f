//! `guestscope compare`: from run folders, or the traces of a Jaeger, to a verdict and its causes.
//!
//! Reads, groups and checks; what is compared and how lies in [`crate::analyze::compare`], what is shown in
//! [`crate::sinks::terminal`]. Changes nothing on disk.

mod arguments;
mod error;
mod failed;
mod fidelity;
mod grouping;
mod jaeger;
mod limits;
mod notes;
mod pooled;
mod read;
mod slim;
mod sources;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

pub use arguments::{Choice, CompareArguments, CompareBy, FailOn};
pub use error::Refusal;
pub use failed::CompareError;
pub use jaeger::JaegerError;
pub(crate) use read::each_in_parallel;
pub(crate) use sources::paths;
pub use work::Work;

use self::{
    grouping::{Grouped, RunsOf},
    jaeger::Question,
    read::{ReadRun, read_all},
};
use crate::out;
use crate::untrusted::{Shown as _, Untrusted};
use crate::{
    analyze::compare::{
        Common, Declared, MOST_WARMUP, Metric, Overall, Platform, Run, SelfTest, Warmup, compare,
    },
    folder::{Manifest, State},
    sinks::terminal::{self, Compared, Count, Stream, Style},
};

/// Note on what a comparison of traces cannot know.
const SPANS: &str = "runs out of Jaeger: spans hold times, counts and nesting; not what was lost on the way, which hooks \
                     failed, how the program ended or, unless a folder was exported, a hash of its work";

/// The runs that the arguments name: read, checked and grouped.
#[derive(Debug)]
pub struct Gathered {
    /// The platform that others are compared with.
    pub baseline: Platform,
    /// The others; none only where one platform is enough.
    pub platforms: Vec<Platform>,
    /// Their runs, baseline first, each in the order of the platform's runs.
    pub members: Vec<Vec<Member>>,
    /// Metrics and margins.
    pub declared: Declared,
    /// Whether the work was equal.
    pub work: Work,
    /// The property that platforms differ by.
    pub by: &'static str,
    /// Notes on single runs.
    pub notes: Vec<String>,
    /// The programs marked no request: whole processes are compared.
    pub is_process: bool,
}

/// A run of a platform.
#[derive(Clone, Debug)]
pub struct Member {
    /// The run's folder.
    pub folder: PathBuf,
    /// Its manifest, reduced: see [`read`].
    pub manifest: Arc<Manifest>,
}

impl Member {
    /// Last part of the folder's path.
    pub fn name(&self) -> String {
        self.folder.file_name().unwrap_or(self.folder.as_os_str()).shown().to_string()
    }
}

impl Gathered {
    /// Compares.
    pub fn compare(self) -> Compared {
        let Self { baseline, platforms, declared, work, by, notes, is_process, .. } = self;
        let comparison = compare(&baseline, &platforms, &declared);
        Compared { comparison, work, by, declared, notes, is_process }
    }
}

/// Reads what the arguments name. `least` platforms are needed; progress is shown unless `quiet`.
///
/// # Errors
/// Nothing can be read, or what can be read cannot be compared.
pub fn gather(choice: &Choice, least: usize, quiet: bool) -> Result<Gathered, CompareError> {
    let (mut runs, request) = with_requests(usable(read(choice, quiet)?)?, choice.request.as_deref())?;
    let shortest = shortest(&runs, request.stored());
    let work = work::check(&runs, choice.allow_unequal_work)?;
    let fold = fidelity::common(runs.iter().map(|run| run.manifest.fidelity.as_str()));
    let grouped = grouping::group(&runs, choice.by);
    let (first, grouped) = grouped.split(&runs, choice.baseline.as_deref(), least)?;
    let Grouped { platforms: others, by } = grouped;
    let groups: Vec<RunsOf> = std::iter::once(first).chain(others).collect();
    let mut notes: Vec<String> = fold.map(fidelity::words).into_iter().collect();
    notes.extend(choice.jaeger.as_ref().map(|_| SPANS.to_owned()));
    notes.extend(notes::emulated(&runs, &groups));
    notes.extend(pooled::notes(&runs, &groups));
    notes.extend(notes::short(&runs, &groups, request.stored()));
    notes.extend(notes::of(&runs));
    let member = |index: &usize| Member {
        folder: runs[*index].source.path.clone(),
        manifest: Arc::clone(&runs[*index].manifest),
    };
    let members = groups.iter().map(|group| group.indices.iter().map(member).collect()).collect();
    let mut platforms: Vec<Platform> = groups
        .into_iter()
        .map(|RunsOf { label, indices }| platform(&mut runs, label, &indices, request.stored()))
        .collect();
    let declared = declare(choice, shortest, fold)?;
    let is_process = runs.iter().any(|run| run.digest.is_process);
    let baseline = platforms.remove(0);
    Ok(Gathered { baseline, platforms, members, declared, work, by, notes, is_process })
}

/// Compares and prints. Returns 1 if the verdict is one to fail on, else 0.
pub fn run(arguments: &CompareArguments) -> Result<i32, CompareError> {
    if arguments.self_test {
        return self_test(arguments);
    }
    let compared = gather(&arguments.choice, 2, arguments.json)?.compare();
    let platforms = &compared.comparison.platforms;
    let fails = platforms.iter().any(|one| is_failure(one.overall, arguments.fail_on));
    let is_open = |overall| matches!(overall, Overall::TooFewRuns | Overall::Drift);
    if arguments.fail_on.is_some() && !fails && platforms.iter().any(|one| is_open(one.overall)) {
        out::say(
            "warning: not all platforms have a verdict, and --fail-on does not fail for that; not-equivalent does\n",
        );
    }
    let text = if arguments.json {
        terminal::render_comparison_json(&compared)
    } else {
        terminal::render_comparison(&compared, Style::detect(Stream::Stdout))
    };
    out::answer(&text)?;
    Ok(i32::from(fails))
}

/// All readable runs: folders first, then runs from Jaeger.
fn read(choice: &Choice, quiet: bool) -> Result<Vec<ReadRun>, CompareError> {
    let warmup = match choice.warmup {
        None => Warmup::Usual,
        Some(requests) if requests <= MOST_WARMUP => Warmup::Requests(requests),
        Some(requests) => return Err(Refusal::Warmup(requests).into()),
    };
    let mut runs = if choice.folders.is_empty() { Vec::new() } else { folders(choice, warmup, quiet)? };
    if let Some(url) = &choice.jaeger {
        let Choice { service: services, lookback, .. } = choice;
        let question = Question { url, services, lookback: *lookback, warmup };
        let progress = Count::rising("traces from Jaeger", !quiet);
        let found = jaeger::read(&question, &|traces| progress.update(traces));
        progress.finish();
        runs.extend(found?);
    }
    Ok(runs)
}

/// All readable folders; for the others the reason is printed.
fn folders(choice: &Choice, warmup: Warmup, quiet: bool) -> Result<Vec<ReadRun>, CompareError> {
    let sources = sources::find(&choice.folders)?;
    let progress = Count::start("run folders", sources.len(), !quiet);
    let read = read_all(&sources, warmup, &|done| progress.update(done));
    progress.finish();
    let mut runs = Vec::with_capacity(read.len());
    let mut failed = None;
    for result in read {
        match result {
            Ok(run) => runs.push(run),
            Err(error) => {
                out::say(&format!("warning: left out: {error}\n"));
                failed = Some(error);
            }
        }
    }
    match failed {
        Some(error) if runs.is_empty() => Err(error.into()),
        _ => Ok(runs),
    }
}

/// Runs that can be compared; for the others the reason is printed. One bad run is no reason to refuse all.
fn usable(runs: Vec<ReadRun>) -> Result<Vec<ReadRun>, Refusal> {
    let knows_work = |run: &ReadRun| run.manifest.workload.is_some();
    let some_know = runs.iter().any(knows_work);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut last = "no run holds a request".to_owned();
    let mut kept = Vec::with_capacity(runs.len());
    for run in runs {
        let path = run.source.path.shown().to_string();
        let why = if run.digest.groups.is_empty() {
            format!("no requests in {path}")
        } else if let Some(&first) = seen.get(&run.manifest.run_id) {
            let first: &ReadRun = &kept[first];
            if !first.is_same_as(&run) {
                let [first, other] = [first.source.path.clone(), run.source.path];
                return Err(Refusal::TwoFolders { first, other });
            }
            format!("the same run as another folder: {path}")
        } else if some_know && !knows_work(&run) && run.manifest.state == State::Running {
            format!("never closed, and so without a word of the workload: {path}")
        } else {
            if !run.manifest.run_id.is_empty() {
                seen.insert(run.manifest.run_id.clone(), kept.len());
            }
            kept.push(run);
            continue;
        };
        out::say(&format!("warning: left out: {why}\n"));
        last = why;
    }
    if kept.is_empty() { Err(Refusal::NoRequests(last)) } else { Ok(kept) }
}

/// Runs with requests of the kind compared, and that kind. A program that ended before its first request is
/// no reason to refuse all; where as many runs lack that kind as have it, there is none in common.
fn with_requests(runs: Vec<ReadRun>, wanted: Option<&str>) -> Result<(Vec<ReadRun>, Untrusted), Refusal> {
    let name = choose_request(&runs, wanted)?;
    let (kept, lacking): (Vec<ReadRun>, Vec<ReadRun>) =
        runs.into_iter().partition(|run| run.digest.group(name.stored()).is_some());
    if let Some(first) = lacking.first().filter(|_| lacking.len() >= kept.len()) {
        let lacking = first.source.path.shown().to_string();
        return Err(Refusal::UnknownRequest { name: name.to_string(), lacking });
    }
    for run in lacking {
        let path = run.source.path.shown();
        out::say(&format!("warning: left out: no requests of this name: {name}; in {path}\n"));
    }
    Ok((kept, name))
}

/// The run with the fewest requests.
#[derive(Default)]
struct Shortest {
    requests: u64,
    path: PathBuf,
}

fn shortest(runs: &[ReadRun], request: &str) -> Shortest {
    let counted =
        |run: &ReadRun| Shortest { requests: run.digest.count(request), path: run.source.path.clone() };
    runs.iter().map(counted).min_by_key(|run| run.requests).unwrap_or_default()
}

/// The kind of request that most runs have and that took most of their time, or the one asked for.
fn choose_request(runs: &[ReadRun], wanted: Option<&str>) -> Result<Untrusted, Refusal> {
    let mut times: BTreeMap<&Untrusted, (usize, f64)> = BTreeMap::new();
    for group in runs.iter().flat_map(|run| &run.digest.groups) {
        let (runs, time) = times.entry(&group.name).or_default();
        *runs += 1;
        *time += group.mean_ns * group.latencies_ns.len() as f64;
    }
    let most = times.iter().max_by(|(_, (a, a_ns)), (_, (b, b_ns))| a.cmp(b).then(a_ns.total_cmp(b_ns)));
    match (wanted, most) {
        (Some(wanted), _) => Ok(Untrusted::from(wanted)),
        (None, Some((name, _))) => Ok((*name).clone()),
        (None, None) => Err(Refusal::NoRequests("no run holds a request".to_owned())),
    }
}

/// Takes the digests of the runs out of them.
fn platform(runs: &mut [ReadRun], label: String, indices: &[usize], request: &str) -> Platform {
    let mut taken = Vec::with_capacity(indices.len());
    let manifests: Vec<&Manifest> = indices.iter().map(|&index| runs[index].manifest.as_ref()).collect();
    let limits = limits::of(&manifests);
    for &index in indices {
        let run = &mut runs[index];
        let start_ns = run.manifest.clocks.first().map_or(0, |clock| clock.wall_ns);
        let at = run.digest.groups.iter().position(|group| group.name == *request);
        let is_emulated = notes::is_emulated(&run.manifest);
        taken.extend(at.map(|at| Run { start_ns, is_emulated, requests: run.digest.groups.swap_remove(at) }));
    }
    Platform { label, runs: taken, limits }
}

/// The metrics and margins.
fn declare(choice: &Choice, shortest: Shortest, fold: Option<Common>) -> Result<Declared, Refusal> {
    let Shortest { requests: fewest, path: shortest } = shortest;
    let is_usual = choice.metric.is_empty();
    let mut metrics = if is_usual { Metric::USUAL.to_vec() } else { choice.metric.clone() };
    // Twice the same would count twice in the correction for the number of verdicts.
    let mut known = BTreeSet::new();
    metrics.retain(|metric| known.insert(*metric));
    let lacks = |metric: &&Metric| fewest < metric.requests_needed();
    if let Some(&metric) = metrics.iter().find(lacks).filter(|_| !is_usual) {
        let needed = metric.requests_needed();
        return Err(Refusal::TooFewRequests { metric, fewest, needed, shortest });
    }
    let known = |of: &Option<Metric>| of.is_none_or(|of| metrics.contains(&of));
    if let Some((Some(metric), _)) = choice.margin.iter().find(|(of, _)| !known(of)) {
        return Err(Refusal::UnusedMargin(*metric));
    }
    let margin = |metric: Metric| {
        let wanted = choice.margin.iter().rev().find(|(of, _)| of.is_none_or(|of| of == metric));
        wanted.map_or(metric.usual_margin(), |(_, margin)| *margin)
    };
    let metrics = metrics.into_iter().map(|metric| (metric, margin(metric))).collect();
    Ok(Declared { metrics, is_usual, allow_drift: choice.allow_drift, fold })
}

const fn is_failure(overall: Overall, fail_on: Option<FailOn>) -> bool {
    match fail_on {
        None => false,
        Some(FailOn::Slower) => matches!(overall, Overall::Slower | Overall::Mixed),
        Some(FailOn::Different) => matches!(overall, Overall::Slower | Overall::Mixed | Overall::Faster),
        Some(FailOn::NotEquivalent) => {
            !matches!(overall, Overall::Equivalent | Overall::Negligible | Overall::Faster)
        }
    }
}

fn self_test(arguments: &CompareArguments) -> Result<i32, CompareError> {
    let choice = &arguments.choice;
    let (mut runs, request) =
        with_requests(usable(read(choice, arguments.json)?)?, choice.request.as_deref())?;
    let shortest = shortest(&runs, request.stored());
    work::check(&runs, choice.allow_unequal_work)?;
    // A self-test wants runs together, and needs no second platform.
    let grouped = grouping::group(&runs, choice.by.or(Some(CompareBy::Scenario)));
    for note in pooled::notes(&runs, &grouped.platforms) {
        out::say(&format!("warning: {note}\n"));
    }
    let platforms: Vec<Platform> = grouped
        .platforms
        .iter()
        .map(|RunsOf { label, indices }| platform(&mut runs, label.clone(), indices, request.stored()))
        .collect();
    let declared = declare(choice, shortest, None)?;
    let tests: Vec<SelfTest> =
        platforms.iter().map(|platform| SelfTest::of(platform, &declared, 1)).collect();
    let text = if arguments.json {
        terminal::render_self_test_json(&tests)
    } else {
        terminal::render_self_test(&tests, Style::detect(Stream::Stdout))
    };
    out::answer(&text)?;
    Ok(i32::from(!tests.iter().all(|test| test.passes() == Some(true))))
}
