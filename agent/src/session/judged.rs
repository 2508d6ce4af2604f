//! The verdicts of a run's summary for the rows of its folder, in order of conversion.
//!
//! Requests are read again beside the rows. Rows beyond those that are read of a request get no verdict; the
//! next request's rows keep theirs.

use std::collections::VecDeque;

use crate::{
    analyze::TailVerdict,
    folder::{self, PhasesLeftOut, Requests},
    phase::Request,
};

/// The second reading of requests.
pub(crate) trait Again: Iterator<Item = folder::Result<Request>> {
    /// Phases beyond the limits.
    fn left_out(&self) -> Option<PhasesLeftOut>;
}

impl Again for Requests {
    fn left_out(&self) -> Option<PhasesLeftOut> {
        Requests::left_out(self)
    }
}

/// Gives each row its verdict.
pub(crate) struct Judged<R, J> {
    requests: R,
    judge: J,
    /// The request whose rows are given now.
    root: Option<u64>,
    verdicts: VecDeque<TailVerdict>,
    error: Option<folder::Error>,
}

impl<R: Again, J: FnMut(&Request) -> Vec<TailVerdict>> Judged<R, J> {
    pub(crate) fn new(requests: R, judge: J) -> Self {
        Self { requests, judge, root: None, verdicts: VecDeque::new(), error: None }
    }

    /// Verdict of the next row, whose request has the outermost phase `root`.
    pub(crate) fn verdict(&mut self, root: u64) -> TailVerdict {
        if self.root.replace(root) != Some(root) {
            self.verdicts.clear();
            match self.requests.next() {
                Some(Ok(request)) => self.verdicts = (self.judge)(&request).into(),
                Some(Err(error)) => self.error = self.error.take().or(Some(error)),
                None => {}
            }
        }
        self.verdicts.pop_front().unwrap_or_default()
    }

    /// Why some rows lack a verdict.
    pub(crate) fn fault(&self) -> Option<String> {
        let error = self.error.as_ref().map(|error| format!("rows without causes: {error}"));
        error.or_else(|| self.requests.left_out().map(|left_out| left_out.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::Band;

    struct Given(Vec<folder::Result<Request>>);

    impl Iterator for Given {
        type Item = folder::Result<Request>;
        fn next(&mut self) -> Option<Self::Item> {
            (!self.0.is_empty()).then(|| self.0.remove(0))
        }
    }

    impl Again for Given {
        fn left_out(&self) -> Option<PhasesLeftOut> {
            Some(PhasesLeftOut { phases: 2, requests: 1 })
        }
    }

    fn damaged() -> folder::Error {
        folder::Error::Damaged { path: "phases.arrows".into(), what: "torn".into(), rows_kept: None }
    }

    #[test]
    fn rows_beyond_what_was_judged_shift_no_verdict_of_the_next_request() {
        let verdict = |band| TailVerdict { cause: None, tail: Some(band) };
        let mut bands = vec![Band::P99, Band::P50];
        let judge = |_: &Request| vec![verdict(bands.pop().unwrap()); 2];
        let request = || Ok(Request { phases: Vec::new() });
        let mut judged = Judged::new(Given(vec![request(), request()]), judge);
        let tails = [1, 1, 1, 1, 7, 7].map(|root| judged.verdict(root).tail);
        let (first, second) = (Some(Band::P50), Some(Band::P99));
        assert_eq!(tails, [first, first, None, None, second, second]);
        assert!(judged.fault().unwrap().starts_with("2 phases are left out"), "{:?}", judged.fault());
    }

    #[test]
    fn a_second_reading_that_fails_is_told() {
        let mut judged = Judged::new(Given(vec![Err(damaged())]), |_: &Request| Vec::new());
        assert_eq!(judged.verdict(1), TailVerdict::default());
        assert!(judged.fault().unwrap().starts_with("rows without causes: damaged file"));
    }
}
