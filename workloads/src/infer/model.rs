//! What an inference workload has beside its three phases: a name, a model, and what decides its work. Yields
//! the report of a run.

use super::{Settings, libtorch};
use crate::{
    data::file_set::{self, FileSet, FilesError, Kind},
    digest::Digest,
    error::{Error, Smaller},
    load::{self, Workload, clock::Monotonic},
    report::{Identity, Report, left_out},
};

/// An inference workload.
pub trait Model: Workload + Sized {
    /// Name on the command line.
    const NAME: &'static str;
    /// Name for people.
    const MODEL: &'static str;
    /// Goes up when the same input is prepared differently than before.
    const PREPARATION_VERSION: u64;
    /// Whether `--scale` makes the model smaller.
    const IS_SCALED: bool = true;

    /// Input files of the requests.
    fn files(settings: &Settings) -> Result<FileSet, Error>;
    fn new(settings: &Settings, files: FileSet) -> Result<Self, Error>;
    /// Number of the model's parameters with these settings.
    fn parameters(settings: &Settings) -> u64;
    /// Hash of the model's values and of whatever else prepares inputs and is not an input file.
    fn digest(&self) -> Digest;

    /// The most symbols taken from one step, if the output has no length of its own.
    fn most_symbols(&self) -> Option<u64> {
        None
    }
}

/// Runs the workload with these settings.
pub fn run<M: Model>(settings: &Settings) -> Result<Report, Error> {
    libtorch::set_threads(settings.threads);
    let models = M::parameters(settings).saturating_mul(u64::from(settings.plan.workers));
    let smaller = if M::IS_SCALED { Smaller::ScaleOrWorkers } else { Smaller::Workers };
    libtorch::room_for(M::MODEL, models, smaller)?;
    let files = M::files(settings)?;
    let another = || M::new(settings, files.clone()).map_err(|error| error.of_model(M::MODEL, smaller));
    let mut workload = another()?;
    let measured = load::run(&settings.plan, &Monotonic, &mut workload, &another)?;
    let identity = Identity {
        name: M::NAME,
        model: M::MODEL,
        parameters: M::parameters(settings),
        scale: settings.scale.reduced(),
        most_symbols: workload.most_symbols(),
        batch: settings.batch,
        threads: settings.threads,
        seed: settings.seed,
        precision: settings.precision.name(),
        requests: measured.records.len() as u64,
        warmup: settings.plan.warmup,
        rounds: None,
        work_hash: work_hash(&workload, &files, settings),
        output_hash: measured.outputs(&settings.plan),
    };
    Ok(Report::new(identity, &settings.plan, measured).without(files.skipped()))
}

/// Hash of everything that decides the computation, including the files left out, unless speed decides how
/// many files were reached. Threads are not in it: they belong to the platform, and platforms of different
/// size are to be compared; nor is the warm-up, which no statistic contains.
fn work_hash<M: Model>(workload: &M, files: &FileSet, settings: &Settings) -> Digest {
    let mut hash = Digest::default();
    hash.text(M::NAME).text(M::MODEL).text(settings.precision.name());
    hash.u64(settings.batch).u64(M::PREPARATION_VERSION);
    settings.plan.describe(&mut hash);
    if let Some(scale) = settings.scale.reduced() {
        hash.text("scale").u64(scale.to_bits());
        hash.u64(workload.most_symbols().unwrap_or(0));
    }
    hash.u64(workload.digest().value()).u64(files.digest.value());
    if !settings.plan.is_of_speed() {
        left_out::describe(&files.skipped(), &mut hash);
    }
    hash
}

/// The user's files of this kind, else made ones: `make` yields the content of the file with a given number,
/// `version` goes up when `make` changes.
pub fn files(
    kind: &Kind,
    settings: &Settings,
    version: u64,
    mut make: impl FnMut(u64) -> Vec<u8>,
) -> Result<FileSet, FilesError> {
    if let Some(folder) = &settings.data {
        return kind.open_folder(folder);
    }
    let mut digest = Digest::default();
    digest.text(kind.what).u64(version).u64(settings.seed).u64(u64::from(settings.generated));
    kind.open_generated(&file_set::cache_folder()?, digest, settings.generated, |place| {
        Ok(make(u64::from(place)))
    })
}
