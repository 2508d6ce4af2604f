//! How requests arrive, and how each is measured. So far one way: MLPerf's SingleStream, where the next request
//! begins when the one before is done. Yields latencies, phase times and the hash of the outputs; marks every
//! request and its phases for guestscope. It does not know what a request computes.

use std::time::Instant;

use crate::{digest::Digest, error::Error, progress};

/// The phases of a request, in order; their names are those of the studies.
pub const PHASES: [&str; 3] = ["preprocess", "inference", "postprocess"];

/// What a request computes, in three steps.
pub trait Workload {
    /// What `preprocess` hands to `infer`.
    type Input;
    /// What `infer` hands to `postprocess`.
    type Output;

    fn preprocess(&mut self, request: u64) -> Result<Self::Input, Error>;
    fn infer(&mut self, input: Self::Input) -> Result<Self::Output, Error>;
    /// Finishes the request and adds its output to `outputs`.
    fn postprocess(&mut self, output: Self::Output, outputs: &mut Digest) -> Result<(), Error>;
}

/// How many requests, numbered from 0; warm-up requests are numbered from 0 as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub requests: u64,
    pub warmup: u64,
    /// Whether a terminal sees a bar; not where guestscope draws one of its own.
    pub progress: bool,
}

/// Nanoseconds of every measured request, in order.
#[derive(Debug, Default)]
pub struct Measured {
    pub request_ns: Vec<u64>,
    pub phase_ns: [Vec<u64>; 3],
    /// From the begin of the first to the end of the last measured request.
    pub elapsed_ns: u64,
    pub outputs: Digest,
}

impl Measured {
    /// The share of a request's time that lies inside its phases; of the request where it is smallest.
    pub fn least_phase_share(&self) -> f64 {
        let share = |(i, total): (usize, &u64)| {
            let inside: u64 = self.phase_ns.iter().map(|phase| phase[i]).sum();
            if *total == 0 { 1.0 } else { inside as f64 / *total as f64 }
        };
        self.request_ns.iter().enumerate().map(share).fold(1.0, f64::min)
    }
}

/// Runs the warm-up, then the requests, one after the other.
pub fn single_stream<W: Workload>(workload: &mut W, plan: Plan) -> Result<Measured, Error> {
    let bar = plan.progress.then(|| progress::bar(plan.warmup + plan.requests, "requests"));
    let advance = || {
        if let Some(bar) = &bar {
            bar.inc(1);
        }
    };
    let mut discarded = Measured::default();
    for number in 0..plan.warmup {
        one(workload, "warmup", number, &mut discarded)?;
        advance();
    }
    let mut measured = Measured::default();
    let start = Instant::now();
    for number in 0..plan.requests {
        one(workload, "request", number, &mut measured)?;
        measured.elapsed_ns = start.elapsed().as_nanos() as u64;
        advance();
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(measured)
}

fn one<W: Workload>(workload: &mut W, name: &str, number: u64, measured: &mut Measured) -> Result<(), Error> {
    let start = Instant::now();
    let request = guestscope_marker::request(name, number);
    let (input, preprocess_ns) = phase(PHASES[0], || workload.preprocess(number))?;
    let (output, inference_ns) = phase(PHASES[1], || workload.infer(input))?;
    let ((), postprocess_ns) = phase(PHASES[2], || workload.postprocess(output, &mut measured.outputs))?;
    drop(request);
    measured.request_ns.push(start.elapsed().as_nanos() as u64);
    for (all, ns) in measured.phase_ns.iter_mut().zip([preprocess_ns, inference_ns, postprocess_ns]) {
        all.push(ns);
    }
    Ok(())
}

/// Runs `work` as the phase `name`; its result, and how long it took.
fn phase<T>(name: &str, work: impl FnOnce() -> Result<T, Error>) -> Result<(T, u64), Error> {
    let start = Instant::now();
    let guard = guestscope_marker::phase(name);
    let result = work();
    drop(guard);
    let ns = start.elapsed().as_nanos() as u64;
    result.map(|value| (value, ns))
}

/// The `percent`-th percentile by nearest rank: the smallest value that at least so many percent do not exceed.
/// Zero when there is none.
pub fn percentile(values: &[u64], percent: f64) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{Measured, Plan, Workload, percentile, single_stream};
    use crate::{digest::Digest, error::Error};

    #[rstest]
    #[case(&[], 50.0, 0)]
    #[case(&[7], 99.0, 7)]
    #[case(&[40, 10, 30, 20], 50.0, 20)]
    #[case(&[40, 10, 30, 20], 50.1, 30)]
    #[case(&[40, 10, 30, 20], 100.0, 40)]
    fn percentile_is_the_nearest_rank(#[case] values: &[u64], #[case] percent: f64, #[case] expected: u64) {
        assert_eq!(percentile(values, percent), expected);
    }

    /// Writes down what it is asked to do.
    #[derive(Default)]
    struct Recorder(Vec<String>);

    impl Workload for Recorder {
        type Input = u64;
        type Output = u64;

        fn preprocess(&mut self, request: u64) -> Result<u64, Error> {
            self.0.push(format!("preprocess {request}"));
            Ok(request)
        }

        fn infer(&mut self, input: u64) -> Result<u64, Error> {
            self.0.push(format!("infer {input}"));
            Ok(input)
        }

        fn postprocess(&mut self, output: u64, outputs: &mut Digest) -> Result<(), Error> {
            self.0.push(format!("postprocess {output}"));
            outputs.u64(output);
            Ok(())
        }
    }

    #[test]
    fn warm_up_comes_first_and_leaves_no_trace() {
        let mut recorder = Recorder::default();
        let measured =
            single_stream(&mut recorder, Plan { requests: 2, warmup: 1, progress: false }).unwrap();
        let steps = ["preprocess", "infer", "postprocess"];
        let expected: Vec<String> =
            [0, 0, 1].iter().flat_map(|n| steps.map(|step| format!("{step} {n}"))).collect();
        assert_eq!(recorder.0, expected);
        assert_eq!(measured.request_ns.len(), 2);
        let mut outputs = Digest::default();
        outputs.u64(0).u64(1);
        assert_eq!(measured.outputs, outputs);
        assert!(measured.elapsed_ns >= measured.request_ns.iter().sum());
    }

    #[test]
    fn the_least_share_is_that_of_the_worst_request() {
        let measured = Measured {
            request_ns: vec![100, 200],
            phase_ns: [vec![50, 60], vec![45, 60], vec![5, 60]],
            ..Measured::default()
        };
        assert!((measured.least_phase_share() - 0.9).abs() < 1e-12);
    }
}
