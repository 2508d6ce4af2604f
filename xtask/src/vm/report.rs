//! The report of the matrix: each row's results, whether they are as expected, and the table.
//!
//! Yields text and one verdict. Pure; a failed row is never left out.

use std::time::Duration;

use super::{
    answers::{Doctor, Program},
    matrix::Row,
};
use crate::{progress::duration, test::libtest::Tally};

/// Results of one row.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) release: Option<String>,
    /// Seconds to the first line of the first program; none if nothing was booted.
    pub(crate) up_s: Option<f64>,
    pub(crate) doctor: Option<Doctor>,
    pub(crate) programs: Vec<Program>,
    /// Complaints of the first program, QEMU or the agent.
    pub(crate) complaints: Vec<String>,
    /// Reasons not to trust these results.
    pub(crate) trouble: Vec<String>,
    /// None if the row has no BPF programs, or the tests were not asked for.
    pub(crate) tests: Option<Tally>,
    /// Injected faults: kind, cause, how often named, first cause over all, sizes and errors.
    pub(crate) truth: Vec<String>,
    pub(crate) time: Duration,
    /// The reason why the row has no results.
    pub(crate) not_run: Option<String>,
}

impl Seen {
    pub(crate) fn not_run(why: String) -> Self {
        Self { not_run: Some(why), ..Self::default() }
    }
}

/// A row with its results.
pub(crate) struct Outcome {
    pub(crate) row: Row,
    pub(crate) seen: Seen,
}

impl Outcome {
    /// Differences from what the row expects.
    fn faults(&self) -> Vec<String> {
        let (row, seen) = (&self.row, &self.seen);
        let mut faults: Vec<String> = seen.not_run.iter().map(|why| format!("not run: {why}")).collect();
        if !faults.is_empty() {
            return faults;
        }
        if seen.release.is_none() {
            faults.push("did not boot".to_owned());
            return faults;
        }
        match &seen.doctor {
            None => faults.push("doctor gave no answer".to_owned()),
            Some(doctor) if doctor.fidelity != row.fidelity => {
                faults.push(format!("fidelity {} instead of {}", doctor.fidelity, row.fidelity));
            }
            Some(doctor) if row.is_full() => faults.extend(self.hooks_amiss(doctor)),
            Some(_) => {}
        }
        faults.extend(seen.trouble.iter().cloned());
        let lacks = |program: &Program| {
            row.lacks.iter().any(|hook| hook.rsplit('/').next() == Some(program.name.as_str()))
        };
        let refused = seen.programs.iter().filter(|program| program.verdict.is_err() && !lacks(program));
        faults.extend(refused.map(|program| format!("program {} refused", program.name)));
        if row.is_full() && seen.programs.is_empty() {
            faults.push("no program loaded".to_owned());
        }
        match &seen.tests {
            Some(tally) if tally.failed > 0 => faults.push(format!("{} tests failed", tally.failed)),
            Some(tally) if tally.passed == 0 => faults.push("no test passed".to_owned()),
            _ => {}
        }
        faults
    }

    /// Hooks that are missing unexpectedly, and those that are unexpectedly there.
    fn hooks_amiss(&self, doctor: &Doctor) -> Vec<String> {
        let amiss = doctor.hooks.iter().filter_map(|[hook, outcome, _]| {
            match (outcome == "ok", self.row.lacks.contains(hook)) {
                (true, true) => Some(format!("{hook} is in place, which the matrix says this kernel lacks")),
                (false, false) => Some(format!("{hook} is {outcome}")),
                _ => None,
            }
        });
        amiss.collect()
    }

    fn is_failure(&self) -> bool {
        self.row.supported && !self.faults().is_empty()
    }

    fn result(&self) -> &'static str {
        match (self.faults().is_empty(), self.row.supported) {
            (true, true) => "ok",
            (true, false) => "ok, though not declared supported",
            (false, true) => "FAILED",
            (false, false) => "fails, not supported",
        }
    }

    fn line(&self) -> [String; 9] {
        let seen = &self.seen;
        let none = || "-".to_owned();
        let taken: Vec<u64> =
            seen.programs.iter().filter_map(|program| program.verdict.as_ref().ok()?.to_owned()).collect();
        let loaded = seen.programs.iter().filter(|program| program.verdict.is_ok()).count();
        let programs = format!("{loaded}/{}", seen.programs.len());
        let hooks = |doctor: &Doctor| format!("{}/{}", doctor.hooks_in_place(), doctor.hooks.len());
        let tests = |tally: &Tally| format!("{}/{}/{}", tally.passed, tally.failed, tally.skipped.len());
        [
            self.row.name.clone(),
            seen.release.clone().unwrap_or_else(none),
            seen.up_s.map_or_else(none, |up_s| format!("{up_s:.1} s")),
            seen.doctor.as_ref().map_or_else(none, |doctor| doctor.fidelity.clone()),
            seen.doctor.as_ref().map_or_else(none, hooks),
            if seen.programs.is_empty() { none() } else { programs },
            if taken.is_empty() { none() } else { taken.iter().sum::<u64>().to_string() },
            seen.tests.as_ref().map_or_else(none, tests),
            duration(seen.time),
        ]
    }

    /// Details that do not fit into the table.
    fn details(&self) -> Vec<String> {
        let seen = &self.seen;
        let mut lines: Vec<String> = self.faults().iter().map(|fault| format!("fault     {fault}")).collect();
        lines.extend(seen.complaints.iter().map(|complaint| format!("said      {complaint}")));
        let hooks = seen.doctor.iter().flat_map(|doctor| &doctor.hooks);
        let mut told = "";
        for [hook, outcome, consequence] in hooks.filter(|hook| hook[1] != "ok") {
            // One refusal concerns every hook: its reason is printed once.
            let reason = if told == consequence { "the same" } else { consequence };
            let reason = reason.lines().next().unwrap_or_default();
            lines.push(format!("hook      {hook}: {outcome}: {reason}"));
            told = consequence;
        }
        let taken = seen.programs.iter().filter_map(|program| {
            let instructions = program.verdict.as_ref().ok()?;
            let instructions = instructions.map_or_else(|| "?".to_owned(), |number| number.to_string());
            Some(format!("{} {instructions}", program.name))
        });
        let taken: Vec<String> = taken.collect();
        if !taken.is_empty() {
            lines.push(format!("verified  {}", taken.join(", ")));
        }
        let refused = seen.programs.iter().filter_map(|p| Some((&p.name, p.verdict.as_ref().err()?)));
        lines.extend(refused.map(|(name, reason)| format!("refused   {name}: {reason}")));
        lines.extend(seen.truth.iter().map(|row| format!("truth     {row}")));
        if let Some(tally) = &seen.tests {
            let first = |text: &str| {
                let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                lines.find(|line| !line.starts_with("thread '")).unwrap_or_default().to_owned()
            };
            lines.extend(
                tally.failures.iter().map(|(name, text)| format!("failed    {name}: {}", first(text))),
            );
            lines.extend(tally.skipped.iter().map(|(name, reason)| format!("skipped   {name}: {reason}")));
        }
        lines.into_iter().map(|line| format!("  {line}")).collect()
    }
}

/// The complete text: details of each row, then the table.
pub(crate) fn render(outcomes: &[Outcome]) -> String {
    let mut lines = Vec::new();
    for outcome in outcomes {
        let details = outcome.details();
        if !details.is_empty() {
            lines.push(format!("\n{}: {}", outcome.row.name, outcome.result()));
            lines.extend(details);
        }
    }
    let head =
        ["row", "kernel", "booted", "fidelity", "hooks", "programs", "instructions", "tests p/f/s", "time"];
    let mut table = vec![(head.map(str::to_owned), "result")];
    table.extend(outcomes.iter().map(|outcome| (outcome.line(), outcome.result())));
    let width = |column: usize| table.iter().map(|(cells, _)| cells[column].len()).max().unwrap_or_default();
    lines.push(String::new());
    for (cells, result) in &table {
        let padded =
            cells.iter().enumerate().map(|(column, cell)| format!("{cell:<width$}", width = width(column)));
        lines.push(format!("{}  {result}", padded.collect::<Vec<_>>().join("  ")));
    }
    let failed: Vec<&str> =
        outcomes.iter().filter(|o| o.is_failure()).map(|outcome| outcome.row.name.as_str()).collect();
    lines.push(match failed.as_slice() {
        [] => "\nevery supported row is as it should be\n".to_owned(),
        failed => format!("\nnot as they should be: {}\n", failed.join(", ")),
    });
    lines.join("\n")
}

/// Every row as one test: passed, failed with its details, or skipped if it could not run.
pub(crate) fn tally(outcomes: &[Outcome]) -> Tally {
    let mut tally = Tally::default();
    for outcome in outcomes {
        let name = format!("guest {}", outcome.row.name);
        match &outcome.seen.not_run {
            Some(why) => {
                let why = why.lines().next().unwrap_or_default().to_owned();
                tally.skipped.insert((name, why));
            }
            None if outcome.is_failure() => tally.failures.push((name, outcome.details().join("\n"))),
            None => tally.passed += 1,
        }
    }
    tally.failed = tally.failures.len() as u64;
    tally
}

/// Whether every supported row is as expected.
pub(crate) fn is_success(outcomes: &[Outcome]) -> bool {
    !outcomes.iter().any(Outcome::is_failure)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Outcome, Seen, is_success, render, tally};
    use crate::{
        test::libtest::Tally,
        vm::{
            answers::{Doctor, Program},
            matrix::{Outside, Row},
        },
    };

    fn row(name: &str, supported: bool) -> Row {
        Row {
            name: name.to_owned(),
            kernel: Some("k".to_owned()),
            hide_btf: false,
            outside: Outside::Nothing,
            unprivileged: false,
            fidelity: "full".to_owned(),
            cpus: 2,
            lacks: Vec::new(),
            supported,
            tested: true,
        }
    }

    fn doctor(fidelity: &str, outcome: &str) -> Doctor {
        let hook = ["tp_btf/x", outcome, "why\nmore"].map(str::to_owned);
        Doctor { fidelity: fidelity.to_owned(), hooks: vec![hook.clone(), hook] }
    }

    fn good() -> Seen {
        Seen {
            release: Some("6.1.0-47".to_owned()),
            up_s: Some(3.25),
            doctor: Some(doctor("full", "ok")),
            programs: vec![Program { name: "edge".to_owned(), verdict: Ok(Some(810)) }],
            tests: Some(Tally { passed: 3, ..Tally::default() }),
            time: Duration::from_secs(70),
            ..Seen::default()
        }
    }

    fn bad() -> Seen {
        let failures = vec![("a::b".to_owned(), "\nthread 'a::b' panicked at x\nno good\n".to_owned())];
        Seen {
            doctor: Some(doctor("none", "broken")),
            programs: vec![Program { name: "edge".to_owned(), verdict: Err("unknown func".to_owned()) }],
            tests: Some(Tally { passed: 2, failed: 1, failures, ..Tally::default() }),
            ..good()
        }
    }

    #[test]
    fn the_report_tells_rows_apart() {
        let outcome = |name, supported, seen| Outcome { row: row(name, supported), seen };
        let none = Seen { not_run: Some("no mirror".to_owned()), ..Seen::default() };
        let outcomes =
            [outcome("6.1", true, good()), outcome("5.10", false, bad()), outcome("7", true, none)];
        assert_eq!(
            render(&outcomes),
            "
6.1: ok
  verified  edge 810

5.10: fails, not supported
  fault     fidelity none instead of full
  fault     program edge refused
  fault     1 tests failed
  hook      tp_btf/x: broken: why
  hook      tp_btf/x: broken: the same
  refused   edge: unknown func
  failed    a::b: no good

7: FAILED
  fault     not run: no mirror

row   kernel    booted  fidelity  hooks  programs  instructions  tests p/f/s  time        result
6.1   6.1.0-47  3.2 s   full      2/2    1/1       810           3/0/0        1 min 10 s  ok
5.10  6.1.0-47  3.2 s   none      0/2    0/1       -             2/1/0        1 min 10 s  fails, not supported
7     -         -       -         -      -         -             -            0.0 s       FAILED

not as they should be: 7
"
        );
        assert!(!is_success(&outcomes) && is_success(&outcomes[..2]));
    }

    #[test]
    fn a_kernel_lacks_what_the_matrix_says_and_nothing_else() {
        let faults = |lacks: &[&str], outcome: &str, refused: bool| {
            let lacks = lacks.iter().map(|&hook| hook.to_owned()).collect();
            let verdict = if refused { Err("not loaded".to_owned()) } else { Ok(None) };
            let programs = vec![Program { name: "x".to_owned(), verdict }];
            let seen = Seen { doctor: Some(doctor("full", outcome)), programs, ..good() };
            Outcome { row: Row { lacks, ..row("5.10", true) }, seen }.faults().len()
        };
        assert_eq!(faults(&[], "ok", false), 0);
        assert_eq!(faults(&["tp_btf/x"], "unsupported", true), 0);
        assert_eq!(faults(&["tp_btf/x"], "ok", false), 2);
        assert_eq!(faults(&[], "broken", false), 2);
        assert_eq!(faults(&[], "ok", true), 1);
    }

    #[test]
    fn a_row_counts_as_a_test() {
        let outcome = |name, seen| Outcome { row: row(name, true), seen };
        let none = Seen::not_run("no mirror\nmore".to_owned());
        let tally = tally(&[outcome("6.1", good()), outcome("5.10", bad()), outcome("7", none)]);
        assert_eq!((tally.passed, tally.failed), (1, 1));
        assert!(tally.failures[0].0 == "guest 5.10" && tally.failures[0].1.contains("program edge refused"));
        let skipped = [("guest 7".to_owned(), "no mirror".to_owned())];
        assert_eq!(tally.skipped.into_iter().collect::<Vec<_>>(), skipped);
    }

    #[test]
    fn what_was_not_seen_is_a_fault() {
        for seen in [
            Seen { release: None, ..good() },
            Seen { doctor: None, ..good() },
            Seen { programs: Vec::new(), ..good() },
            Seen { tests: Some(Tally::default()), ..good() },
            Seen { trouble: vec!["no answer to `faults`".to_owned()], ..good() },
        ] {
            assert!(!is_success(&[Outcome { row: row("6.1", true), seen }]));
        }
        let without_tests = Seen { tests: None, ..good() };
        assert!(is_success(&[Outcome { row: row("6.1", true), seen: without_tests }]));
    }
}
