//! A busy loop of known length in the three phases of a request: the load generator without a model, and so
//! without libtorch. Yields the report of the run. Its results mean nothing.

use super::Loop;
use crate::{
    digest::Digest,
    error::Error,
    load::{self, Workload, clock::Monotonic},
    report::{Identity, Report},
    stall::machine::work::{Amount, Work},
};

/// Name in place of a model's.
pub const ARITHMETIC: &str = "integers";

/// Runs the loop with these settings.
pub fn run(settings: &Loop) -> Result<Report, Error> {
    let Loop { plan, batch, seed, work: amount } = settings;
    let work = Work::new(match amount {
        Amount::Lasting { ns } => Amount::Lasting { ns: ns.saturating_mul(*batch) },
        Amount::Rounds(rounds) => Amount::Rounds(rounds.saturating_mul(*batch)),
    });
    let mut busy = Busy { work };
    let measured = load::run(plan, &Monotonic, &mut busy, &|| Ok(Busy { work }))?;
    let mut work_hash = Digest::default();
    match amount {
        Amount::Lasting { ns } => work_hash.text("loop").u64(*ns),
        Amount::Rounds(rounds) => work_hash.text("loop rounds").u64(*rounds),
    };
    work_hash.u64(*batch);
    plan.describe(&mut work_hash);
    let identity = Identity {
        name: "loop",
        model: ARITHMETIC,
        parameters: 0,
        scale: None,
        most_symbols: None,
        batch: *batch,
        threads: 1,
        seed: *seed,
        precision: "u64",
        requests: measured.records.len() as u64,
        warmup: plan.warmup,
        rounds: Some(work.rounds),
        work_hash,
        output_hash: measured.outputs(plan),
    };
    Ok(Report::new(identity, plan, measured))
}

/// The same work for every request.
struct Busy {
    work: Work,
}

impl Workload for Busy {
    type Input = u64;
    type Output = u64;

    fn preprocess(&mut self, request: u64) -> Result<u64, Error> {
        self.work.eighths(1).run();
        Ok(request)
    }

    fn infer(&mut self, input: u64) -> Result<u64, Error> {
        self.work.eighths(6).run();
        Ok(input)
    }

    fn postprocess(&mut self, output: u64, outputs: &mut Digest) -> Result<(), Error> {
        self.work.eighths(1).run();
        outputs.u64(output);
        Ok(())
    }
}
