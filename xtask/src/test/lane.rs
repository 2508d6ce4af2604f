//! A row of stages, of which two run side by side.
//!
//! Yields a [`Lane`] whatever happens in it, so that neither row hides what the other one has found.

use std::time::Instant;

use anyhow::Result;

use super::{libtest::Tally, report::Stage};

/// What a row of stages came to.
pub(super) struct Lane<T> {
    pub(super) stages: Vec<Stage>,
    /// What later stages need; none if it could not be built.
    pub(super) built: Option<T>,
}

impl<T> Lane<T> {
    /// Runs stages, which add themselves; what ends them early is a failed stage with the row's name.
    pub(super) fn run(name: &'static str, work: impl FnOnce(&mut Vec<Stage>) -> Result<Option<T>>) -> Self {
        let started = Instant::now();
        let mut stages = Vec::new();
        let built = work(&mut stages).unwrap_or_else(|error| {
            stages.push(failed(name, started, &error));
            None
        });
        Self { stages, built }
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.stages.iter().map(|stage| stage.name).collect()
    }
}

/// Builds something as a stage of one test.
pub(super) fn build_stage<T>(name: &'static str, build: impl FnOnce() -> Result<T>) -> (Stage, Option<T>) {
    let started = Instant::now();
    match build() {
        Ok(built) => {
            let tally = Tally { passed: 1, ..Tally::default() };
            (Stage { name, time: started.elapsed(), tally, log: None, not_run: None }, Some(built))
        }
        Err(error) => (failed(name, started, &error), None),
    }
}

fn failed(name: &'static str, started: Instant, error: &anyhow::Error) -> Stage {
    let failures = vec![(name.to_owned(), crate::failure::render(error))];
    let tally = Tally { failed: 1, failures, ..Tally::default() };
    Stage { name, time: started.elapsed(), tally, log: None, not_run: None }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::{Lane, build_stage};

    #[test]
    fn an_error_is_a_failed_stage_after_those_before_it() {
        let lane = Lane::<()>::run("programs", |stages| {
            stages.push(build_stage("build", || Ok(())).0);
            bail!("no disk")
        });
        assert_eq!(lane.names(), ["build", "programs"]);
        let [build, programs] = &lane.stages[..] else { panic!() };
        assert_eq!((build.tally.passed, build.tally.failed), (1, 0));
        assert!(programs.tally.failed == 1 && programs.tally.failures[0].1.contains("no disk"));
        assert!(lane.built.is_none());
    }
}
