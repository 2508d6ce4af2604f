//! Workers that fail or panic: the run ends, says why, and no worker goes on or waits.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    thread,
    time::Duration,
};

use crate::{
    digest::Digest,
    error::Error,
    load::{Plan, Workload, clock::Monotonic, error::LoadError, run, scenario::Scenario, tests::plan},
};

/// A workload that fails, or panics, in one request.
struct Breaks {
    at: u64,
    panics: bool,
}

impl Workload for Breaks {
    type Input = ();
    type Output = ();

    fn preprocess(&mut self, request: u64) -> Result<(), Error> {
        assert!(!(self.panics && request == self.at), "as asked");
        if request == self.at { Err(LoadError::NoRate.into()) } else { Ok(()) }
    }

    fn infer(&mut self, (): ()) -> Result<(), Error> {
        Ok(())
    }

    fn postprocess(&mut self, (): (), _: &mut Digest) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn a_worker_that_fails_ends_the_run() {
    let never = u64::MAX;
    let plan = Plan { scenario: Scenario::Offline, workers: 3, ..plan(10_000) };
    let attempt = |plan: &Plan, first, others, panics: bool| {
        let another = || Ok(Breaks { at: others, panics });
        run(plan, &Monotonic, &mut Breaks { at: first, panics: false }, &another).map(drop)
    };
    assert!(attempt(&plan, never, never, false).is_ok());
    // The worker that draws number 5000 fails.
    assert!(matches!(attempt(&plan, 5000, 5000, false), Err(Error::Load(LoadError::NoRate))));
    let warm = Plan { warmup: 3, ..plan.clone() };
    assert!(matches!(attempt(&warm, never, 1, false), Err(Error::Load(LoadError::NoRate))));
    assert!(matches!(attempt(&warm, 1, never, false), Err(Error::Load(LoadError::NoRate))));
    let made = AtomicU32::new(0);
    let another = || {
        made.fetch_add(1, SeqCst);
        Err::<Breaks, _>(LoadError::WorkerGone.into())
    };
    let result = run(&plan, &Monotonic, &mut Breaks { at: never, panics: false }, &another);
    assert!(matches!(result, Err(Error::Load(LoadError::WorkerGone))));
    assert_eq!(made.load(SeqCst), 2);
    let panicked = catch_unwind(AssertUnwindSafe(|| attempt(&warm, never, 1, true)));
    assert!(panicked.is_err(), "a panic comes through, and nobody waits for its thread");
}

/// The first worker counts its requests, a thousand per second once the other has panicked.
struct Panics<'a> {
    is_first: bool,
    has_panicked: &'a AtomicBool,
    run: &'a AtomicU32,
}

impl Workload for Panics<'_> {
    type Input = ();
    type Output = ();

    fn preprocess(&mut self, _: u64) -> Result<(), Error> {
        if !self.is_first {
            self.has_panicked.store(true, SeqCst);
            panic!("as asked");
        }
        while !self.has_panicked.load(SeqCst) {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(1));
        self.run.fetch_add(1, SeqCst);
        Ok(())
    }

    fn infer(&mut self, (): ()) -> Result<(), Error> {
        Ok(())
    }

    fn postprocess(&mut self, (): (), _: &mut Digest) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn nobody_runs_the_rest_after_a_panic() {
    let plan = Plan { scenario: Scenario::Offline, workers: 2, ..plan(10_000) };
    let (has_panicked, run_after) = (AtomicBool::new(false), AtomicU32::new(0));
    let worker = |is_first| Panics { is_first, has_panicked: &has_panicked, run: &run_after };
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        run(&plan, &Monotonic, &mut worker(true), &|| Ok(worker(false))).map(drop)
    }));
    assert!(panicked.is_err());
    assert!(run_after.load(SeqCst) < 9_000, "{run_after:?}");
}
