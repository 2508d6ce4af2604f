//! `guestscope ranks`: puts the run folders of one distributed training together, and says who came last.
//!
//! It reads the folders twice, first their manifests for the clocks, then their requests, one folder at a
//! time; what is concluded lies in [`crate::analyze::ranks`]. It changes nothing in them.

mod arguments;
mod clocks;
mod error;

use std::{collections::HashSet, path::PathBuf};

pub use arguments::RanksArguments;
pub use error::RanksError;

use self::clocks::Clocks;
use crate::{
    analyze::{
        Needs,
        ranks::{Judged, Observed, Ranks, Terms},
    },
    compare::{self, Refusal},
    folder::{self, Folder, Manifest, State},
    health::Fidelity,
    out,
    session::kept,
    sinks::terminal::{self, Count, RankFolder, RanksFacts, Stream, Style, units::counted},
    untrusted::{Shown as _, Untrusted},
};

/// A training on a thousand guests.
const MOST_FOLDERS: usize = 1024;

/// A folder, as far as it is needed after its manifest was read.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    name: Untrusted,
    observed: Observed,
    /// What a reader has to know of it.
    notes: Vec<String>,
}

/// Judges and prints. The exit code is 0, whether a rank is named or not.
///
/// # Errors
/// There are no folders, they cannot be read, or less than two processes in them called collectives.
pub fn run(arguments: &RanksArguments) -> Result<i32, RanksError> {
    let (sources, clocks) = sources(arguments)?;
    let terms = Terms {
        folders: sources.iter().map(|source| source.observed).collect(),
        apart_ns: u64::try_from(arguments.clocks.as_nanos()).unwrap_or(u64::MAX),
    };
    let (judged, mut notes) = judged(&sources, &clocks, &terms, arguments.json)?;
    let has_rank = |folder: usize| judged.ranks.iter().any(|rank| rank.folder == folder);
    let of_ranks = |(at, source): (usize, Source)| {
        if has_rank(at) {
            notes.extend(source.notes);
        } else {
            out::say(&format!("warning: left out: no collectives in: {}\n", source.path.shown()));
        }
        RankFolder { path: source.path, name: source.name }
    };
    let folders = sources.into_iter().enumerate().map(of_ranks).collect();
    let facts = RanksFacts { folders, apart_ns: terms.apart_ns, notes };
    let text = if arguments.json {
        terminal::render_ranks_json(&judged, &facts)
    } else {
        terminal::render_ranks(&judged, &facts, Style::detect(Stream::Stdout))
    };
    out::answer(&text)?;
    Ok(0)
}

/// The folders that can be read, each run once; for the others the reason is printed.
fn sources(arguments: &RanksArguments) -> Result<(Vec<Source>, Clocks), RanksError> {
    let found = compare::paths(&arguments.folders)?;
    if let Some(one) = found.get(MOST_FOLDERS) {
        return Err(Refusal::TooManyFolders(one.clone()).into());
    }
    let (mut sources, mut clocks, mut known) =
        (Vec::with_capacity(found.len()), Clocks::default(), HashSet::new());
    let mut failed = None;
    for path in found {
        match Folder::open(&path) {
            Ok(folder) => {
                let manifest = folder.manifest();
                if !manifest.run_id.is_empty() && !known.insert(manifest.run_id.clone()) {
                    out::say(&format!(
                        "warning: left out: the same run as another folder: {}\n",
                        path.shown()
                    ));
                    continue;
                }
                let clock = clocks.add(manifest);
                sources.push(source(path, manifest, clock));
            }
            Err(error) => {
                out::say(&format!("warning: left out: {error}\n"));
                failed = Some(error);
            }
        }
    }
    match failed {
        Some(error) if sources.is_empty() => Err(error.into()),
        _ => Ok((sources, clocks)),
    }
}

fn source(path: PathBuf, manifest: &Manifest, clock: usize) -> Source {
    let shown = path.shown();
    let fidelity = Fidelity::ALL.into_iter().find(|one| one.name() == manifest.fidelity);
    let lost = lost(manifest);
    let kept = manifest.kept.unwrap_or_default();
    let mut notes = Vec::new();
    if manifest.state == State::Running {
        notes.push(format!(
            "{shown}: it is still being written, or was cut off: this is what is there so far"
        ));
    }
    if lost > 0 {
        let lost = counted(lost, "edge or row was", "edges or rows were");
        notes.push(format!("{shown}: {lost} lost while it ran: calls may be missing"));
    }
    let end_ns = manifest.clocks.last().map_or(0, |clock| clock.monotonic_ns);
    notes.extend(manifest.kept.map(|kept| format!("{shown}: {}", kept::told(&kept, end_ns))));
    let is_whole = lost == 0 && kept.weight() <= 1.0;
    let is_coarse = !fidelity.is_some_and(Fidelity::is_whole);
    let is_from_start = !manifest.command.is_empty() && manifest.kept.is_none();
    Source {
        path,
        name: Untrusted::from(&manifest.name),
        observed: Observed { clock, is_from_start, is_whole, is_coarse },
        notes,
    }
}

/// Edges and rows of phases that the run lost.
fn lost(manifest: &Manifest) -> u64 {
    let kinds = ["kernel.edges", "pairing.edges_lost", "pairing.phases_left_out", "rows.without_room"];
    let count = |name: &str| manifest.health.losses.get(name).copied().unwrap_or(0);
    kinds.into_iter().map(count).fold(manifest.rows_lost.phases, u64::saturating_add)
}

/// What the requests of all folders show, and notes of their reader.
fn judged(
    sources: &[Source],
    clocks: &Clocks,
    terms: &Terms,
    quiet: bool,
) -> Result<(Judged, Vec<String>), RanksError> {
    let progress = Count::start("run folders", sources.len(), !quiet);
    let (mut ranks, mut notes) = (Ranks::default(), Vec::new());
    for (at, source) in sources.iter().enumerate() {
        if let Err(error) = read(at, source, clocks, &mut ranks, &mut notes) {
            notes.push(format!("{}: judged by what could be read: {error}", source.path.shown()));
        }
        progress.update(at + 1);
    }
    progress.finish();
    let judged = ranks.judged(terms);
    if judged.ranks.len() < 2 {
        // Nothing else would tell why.
        for note in &notes {
            out::say(&format!("warning: {note}\n"));
        }
    }
    match judged.ranks.as_slice() {
        [] => {
            let first = sources.first().map(|source| source.path.clone()).unwrap_or_default();
            Err(RanksError::NoCollectives { first, others: sources.len().saturating_sub(1) })
        }
        [one] => {
            let folder = sources.get(one.folder).map(|source| source.path.clone()).unwrap_or_default();
            Err(RanksError::OneRank { pid: one.pid, folder })
        }
        _ => Ok((judged, notes)),
    }
}

fn read(
    at: usize,
    source: &Source,
    clocks: &Clocks,
    ranks: &mut Ranks,
    notes: &mut Vec<String>,
) -> folder::Result<()> {
    let folder = Folder::open(&source.path)?;
    let mut requests = folder.requests_with(Needs::Numbers)?;
    for request in requests.by_ref() {
        let request = request?;
        let start_ns = request.phases.first().map_or(0, |root| root.start_ns);
        ranks.add(at, &request, clocks.offset_ns(source.observed.clock, start_ns));
    }
    let path = source.path.shown();
    notes.extend(requests.torn_end().map(|end| {
        format!("{path}: the last {} bytes are not whole, and left out: {}", end.bytes, end.reason)
    }));
    notes.extend(folder.left_out().map(|left_out| format!("{path}: {left_out}")));
    Ok(())
}
