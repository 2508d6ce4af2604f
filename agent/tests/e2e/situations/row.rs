//! The rows of the table of situations.

use super::{judge::Verdict, kinds::Kind};
use crate::kept;

/// Runs in a hundred that must be right in everything: other load may disturb the rest.
const ENOUGH_PERCENT: usize = 90;

/// All runs of one situation.
pub(super) struct Row {
    kind: &'static Kind,
    runs: usize,
    causes: usize,
    culprits: usize,
    advice: usize,
    agreed: usize,
    lied: usize,
    silent: usize,
    /// Runs that were not right while others used the CPUs, and were repeated.
    busy: usize,
    /// What was said when it was wrong, the first time.
    wrong: Option<String>,
}

impl Row {
    pub(super) fn new(kind: &'static Kind) -> Self {
        let (runs, causes, culprits, advice, agreed) = (0, 0, 0, 0, 0);
        let (lied, silent, busy, wrong) = (0, 0, 0, None);
        Self { kind, runs, causes, culprits, advice, agreed, lied, silent, busy, wrong }
    }

    /// Takes a run that others disturbed.
    pub(super) fn skip(&mut self, fault: &Verdict, control: &Verdict) {
        self.busy += 1;
        self.keep_wrong(fault, control);
    }

    fn keep_wrong(&mut self, fault: &Verdict, control: &Verdict) {
        if self.wrong.is_some() {
            return;
        }
        let control =
            if control.is_named() { format!("\n  control:\n{}", control.said) } else { String::new() };
        self.wrong = Some(format!("{}\n  false: {:?}{control}", fault.said, fault.lies));
    }

    /// Takes a run and its control.
    pub(super) fn add(&mut self, fault: &Verdict, control: &Verdict) {
        let is_silent = control.is_silent_beside(fault);
        let holds = fault.holds() && is_silent;
        self.runs += 1;
        self.causes += usize::from(fault.has_cause);
        self.culprits += usize::from(fault.has_culprit);
        self.advice += usize::from(fault.has_advice);
        self.agreed += usize::from(fault.differs.is_none());
        self.lied += usize::from(!fault.lies.is_empty());
        self.silent += usize::from(is_silent);
        if !holds {
            self.keep_wrong(fault, control);
        }
    }

    /// Whether enough runs were right; also if others disturbed all of them, which the table shows.
    pub(super) fn holds(&self) -> bool {
        let Self { kind: _, runs, causes, culprits, advice, agreed, lied, silent, busy, wrong: _ } = *self;
        let least = [causes, culprits, advice, agreed, runs - lied, silent].into_iter().min();
        let is_judged = runs > 0 || busy > 0;
        is_judged && least.is_some_and(|least| least * 100 >= runs * ENOUGH_PERCENT)
    }

    /// The row, and what was said when it was wrong.
    pub(super) fn text(&self) -> String {
        let Self { kind, runs, causes, culprits, advice, agreed, lied, silent, busy, wrong } = self;
        let right = *runs * 6 == causes + culprits + advice + agreed + (runs - lied) + silent;
        let wrong = wrong.as_ref().filter(|_| *runs == 0 || !right);
        let wrong = wrong.map_or_else(String::new, |wrong| format!("\n{wrong}"));
        let first = format!("{:<18} {runs:>4} {causes:>6} {culprits:>8} {advice:>7}", kind.name);
        format!("{first} {agreed:>6} {lied:>6} {silent:>7} {busy:>9}{wrong}")
    }

    /// Into the table that is printed after all tests.
    pub(super) fn keep(&self) {
        let head = format!(
            "{:<18} {:>4} {:>6} {:>8} {:>7} {:>6} {:>6} {:>7} {:>9}",
            "situation", "runs", "cause", "culprit", "advice", "agree", "false", "silent", "disturbed"
        );
        kept::keep(head, self.text());
    }
}
