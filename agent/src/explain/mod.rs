//! `guestscope explain`: opens a run folder, explains its slow requests, and prints the result.
//!
//! It reads the folder and changes nothing in it. A folder that is still being written is read as far as it
//! was at the start; what cannot be read is reported, and the rest explained.

mod arguments;
mod hidden;

pub use arguments::ExplainArguments;

use guestscope_base::Hint;

use crate::untrusted::{Shown as _, Untrusted};
use crate::{
    analyze::{
        Called, SLOWEST,
        explain::{Explanation, NotCounted, Numbers, Wanted},
        gpu_work::GpuWorked,
        spinners,
    },
    folder::{self, Folder, IncidentRecord, Manifest, State, TornEnd},
    health::Fidelity,
    platform::CpuQuota,
    sinks::terminal::{self, ExplainFacts, Shown, Stream, Style, units},
};
use crate::{out, session::kept};

/// A request that was asked for and cannot be explained. `Display` gives `what: value`.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// No request has this number.
    #[error("no request has this number: {number}")]
    NoSuchRequest {
        /// The number, as it was asked for.
        number: u64,
        /// Numbers that requests of this run have.
        numbers: Option<Numbers>,
    },
    /// The request exists, but is in no statistics.
    #[error("request {}: {number}", match why {
        NotCounted::Warmup => "was a warm-up, and is compared with nothing",
        NotCounted::Unfinished => "has no recorded end, so its duration means nothing",
        NotCounted::Damaged => "is damaged, its accounts do not add up",
    })]
    NotCounted {
        /// The number, as it was asked for.
        number: u64,
        /// Reason.
        why: NotCounted,
    },
    /// The folder cannot be read.
    #[error(transparent)]
    Folder(#[from] folder::Error),
    /// The answer cannot be written.
    #[error(transparent)]
    Answer(#[from] std::io::Error),
}

impl Hint for ExplainError {
    fn hint(&self) -> Option<String> {
        match self {
            ExplainError::NoSuchRequest { numbers: Some(Numbers { lowest, highest }), .. } => {
                Some(format!("this run has requests with numbers from {lowest} to {highest}"))
            }
            ExplainError::NoSuchRequest { numbers: None, .. } | ExplainError::NotCounted { .. } => {
                Some("without --request the slowest ones are explained".to_owned())
            }
            ExplainError::Folder(error) => error.hint(),
            ExplainError::Answer(_) => None,
        }
    }
}

/// Explains and prints. The exit code is 0 if there was something to explain, else 1.
///
/// # Errors
/// The folder cannot be read, or has no such request.
pub fn run(arguments: &ExplainArguments) -> Result<i32, ExplainError> {
    let folder = Folder::open(&arguments.folder)?;
    let wanted = match arguments.request {
        Some(number) => Wanted::Number(number),
        // More requests than are shown, so that the other side is known for all of those shown.
        None => Wanted::Slowest(SLOWEST),
    };
    let mut notes = Vec::new();
    let mut explanation = requests(&folder, wanted, &mut notes)?;
    explanation.summary.weigh(folder.manifest().kept.unwrap_or_default().weight());
    notes.extend(folder.left_out().map(|left_out| left_out.to_string()));
    if explanation.summary.requests() == 0 {
        let facts = facts(&folder, &explanation, arguments, true, notes);
        if facts.hidden.has_requests() {
            out::answer(&without_requests(&explanation, &facts, arguments.json))?;
        }
        out::say_lines(&nothing(&explanation, &facts));
        return Ok(1);
    }
    if let Some(number) = arguments.request.filter(|_| !explanation.has_cases()) {
        if !arguments.json && explanation.not_counted == Some(NotCounted::Unfinished) {
            let facts = facts(&folder, &explanation, arguments, true, notes);
            out::answer(&without_requests(&explanation, &facts, false))?;
        }
        return Err(match explanation.not_counted {
            Some(why) => ExplainError::NotCounted { number, why },
            None => ExplainError::NoSuchRequest { number, numbers: explanation.numbers },
        });
    }
    explanation.circle.agent_pid = folder.manifest().agent_pid;
    // Names of libraries that this program does not know are left out.
    let samples = |name: &'static str| Some((name, *folder.manifest().spun.get(name)?));
    explanation.circle.spun = spinners::names().filter_map(samples).collect();
    explanation.circle.called = Called(folder.manifest().called.clone());
    let has_waits = evidence(&folder, &mut explanation, &mut notes);
    let facts = facts(&folder, &explanation, arguments, has_waits, notes);
    let text = if arguments.json {
        terminal::render_explanation_json(&explanation, &facts)
    } else {
        terminal::render_explanation(&explanation, &facts, Style::detect(Stream::Stdout))
    };
    out::answer(&text)?;
    Ok(0)
}

/// What is known although no request has ended.
fn without_requests(explanation: &Explanation, facts: &ExplainFacts, json: bool) -> String {
    if json {
        terminal::render_explanation_json(explanation, facts)
    } else {
        terminal::render_hidden(&facts.hidden, facts.same_syscalls, Style::detect(Stream::Stdout))
    }
}

/// All reads stop where the first one did: a run in progress adds to its folder during them.
fn requests(folder: &Folder, wanted: Wanted, notes: &mut Vec<String>) -> folder::Result<Explanation> {
    let mut most = usize::MAX;
    if folder.manifest().state == State::Running {
        let mut first = folder.requests()?;
        most = 0;
        for request in first.by_ref() {
            request?;
            most += 1;
        }
        if let Some(TornEnd { bytes, reason }) = first.torn_end() {
            notes.push(format!("the last {bytes} bytes of the phases are not whole, and left out: {reason}"));
        }
    }
    Explanation::read(|needs| Ok::<_, folder::Error>(folder.requests_with(needs)?.take(most)), wanted)
}

/// Waits, names of threads, work of GPUs; whether all waits could be read. Without them the parts still
/// stand.
fn evidence(folder: &Folder, explanation: &mut Explanation, notes: &mut Vec<String>) -> bool {
    let waits = folder.waits().and_then(|waits| explanation.add_waits(waits));
    let has_waits = waits.is_ok();
    notes.extend(waits.err().map(|error| format!("waits are missing: {error}")));
    let threads = folder.threads().and_then(|threads| explanation.add_threads(threads));
    notes.extend(threads.err().map(|error| format!("names of threads are missing: {error}")));
    let work = explanation.add_gpu_work(|| folder.gpu_work());
    notes.extend(work.err().map(|error| format!("work of GPUs is missing: {error}")));
    has_waits
}

fn facts(
    folder: &Folder,
    explanation: &Explanation,
    arguments: &ExplainArguments,
    has_waits: bool,
    mut notes: Vec<String>,
) -> ExplainFacts {
    let manifest = folder.manifest();
    let gpu_work = GpuWorked::read(|| folder.gpu_work(), || folder.requests());
    let missing = gpu_work.as_ref().err().map(|error| format!("work of GPUs is missing: {error}"));
    // Single requests may have said so before.
    if let Some(missing) = missing.filter(|missing| !notes.contains(missing)) {
        notes.push(missing);
    }
    let gpu_work = gpu_work.ok().flatten();
    notes.extend(manifest.incident.as_ref().map(incident));
    let end_ns = manifest.clocks.last().map_or(0, |clock| clock.monotonic_ns);
    notes.extend(manifest.kept.map(|kept| kept::told(&kept, end_ns)));
    notes.extend(lost(manifest));
    // A run without any waits was started with `--wait-threshold off`.
    let has_all_waits = has_waits && lost_waits(manifest) == 0 && manifest.rows.waits > 0;
    ExplainFacts {
        folder: arguments.folder.clone(),
        name: manifest.name.clone(),
        scenario: manifest.scenario.clone(),
        start_ns: manifest.clocks.first().map_or(0, |clock| clock.monotonic_ns),
        fidelity: Fidelity::ALL.into_iter().find(|one| one.name() == manifest.fidelity),
        cpu_quota: quota(manifest),
        limits: manifest.limits_seen.clone(),
        gpu_serving_percent: manifest.gpu.serving_percent(),
        gpu_work,
        same_syscalls: manifest.arch == std::env::consts::ARCH,
        is_open: manifest.state == State::Running,
        has_all_waits,
        shown: match arguments.request {
            Some(_) => Shown::One,
            None => Shown::Slowest(usize::from(arguments.slowest)),
        },
        hidden: hidden::hidden(manifest, &explanation.summary),
        notes,
    }
}

/// What a resident agent kept this folder for.
fn incident(incident: &IncidentRecord) -> String {
    let IncidentRecord { at, trigger, request, duration_ns, typical_ns, .. } = incident;
    let at = at.split('.').next().unwrap_or_default();
    let typical = typical_ns.map(|ns| format!(" (typical {})", units::duration(ns)));
    let took = (!request.is_empty()).then(|| {
        let request = Untrusted::from(request);
        format!(": {request} took {}{}", units::duration(*duration_ns), typical.unwrap_or_default())
    });
    let (at, trigger) = (Untrusted::from(at), Untrusted::from(trigger));
    format!("an incident of {at}{}; {trigger}", took.unwrap_or_default())
}

fn quota(manifest: &Manifest) -> Option<CpuQuota> {
    let (quota_ns, period_ns) = (manifest.limits.cpu_quota_ns?, manifest.limits.cpu_period_ns?);
    Some(CpuQuota { quota_ns, period_ns, group: manifest.cpu_quota_group.clone() })
}

fn lost_waits(manifest: &Manifest) -> u64 {
    manifest.health.losses.get("kernel.waits").copied().unwrap_or(0).saturating_add(manifest.rows_lost.waits)
}

/// Losses of the run in data on which evidence rests.
fn lost(manifest: &Manifest) -> Vec<String> {
    let losses = &manifest.health.losses;
    let count = |name: &str| losses.get(name).copied().unwrap_or(0);
    let rows = manifest.rows_lost;
    let mut notes = Vec::new();
    let waits = lost_waits(manifest);
    if waits > 0 {
        notes.push(format!("{waits} long waits were lost while it ran: evidence may lack them"));
    }
    let edges = count("kernel.edges").saturating_add(count("pairing.edges_lost")).saturating_add(rows.phases);
    let edges = edges.saturating_add(count("rows.without_room"));
    if edges > 0 {
        notes
            .push(format!("{edges} edges or rows of phases were lost while it ran: requests may be missing"));
    }
    let error = manifest.health.folder_error.as_ref();
    notes.extend(error.map(|error| format!("rows are missing: {}", Untrusted::told(error))));
    notes
}

/// Why nothing is explained, and the next action.
fn nothing(explanation: &Explanation, facts: &ExplainFacts) -> String {
    let left_out = explanation.summary.left_out;
    let kinds = [
        (left_out.warmups, "warm-up"),
        (left_out.unfinished, "without a recorded end"),
        (left_out.damaged, "damaged"),
    ];
    let kinds: Vec<String> =
        kinds.iter().filter(|kind| kind.0 > 0).map(|(count, kind)| format!("{count} {kind}")).collect();
    let why = if kinds.is_empty() { String::new() } else { format!(" (left out: {})", kinds.join(", ")) };
    let segments = kept::segments(&facts.folder);
    let hint = if segments.is_dir() {
        return format!(
            "no request to explain: {}: it was cut off, and its rows are in folders of their own\n\n\
             hint: explain one of those in {}\n",
            facts.folder.shown(),
            segments.shown()
        );
    } else if facts.hidden.untracked.marks > 0 {
        "observe it again with room for more threads (--max-threads)"
    } else if kinds.is_empty() && facts.hidden.requests.is_empty() {
        "mark requests with the marker library, see `guestscope run --help`"
    } else {
        "let the program run until its requests have ended"
    };
    format!("no request to explain: {}{why}\n\nhint: {hint}\n", facts.folder.shown())
}
