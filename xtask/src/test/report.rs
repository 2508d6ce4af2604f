//! What `cargo xtask test` says at its end: a table of stages, failures with their output, what was skipped.
//!
//! Yields text and the verdict, from plain data; the very last line is `N passed, N failed, N skipped`. With
//! CI set, what was skipped has failed, except what needs a GPU, guests that could not be had, and what the
//! hypervisor disturbed. It runs nothing.

use std::{path::PathBuf, time::Duration};

use super::libtest::Tally;
use crate::progress::duration;

/// Skips that are normal even in CI begin with one of these: what needs a GPU, guests where neither an
/// emulator nor other kernels could be downloaded, servers where the disk has no room for their packages and
/// tests that want such packages, and faults that could not be judged in many attempts because the hypervisor
/// took so much of the time; and checks whose data or compiler lie in places that this machine does not
/// reach. The report says so.
const NORMAL: [&str; 7] =
    ["advisories", "gpu", "miri", "packages", "stage guests", "stage servers", "stolen"];
/// How much of a failed test's output is repeated.
const LINES_PER_FAILURE: usize = 60;
/// An assertion on whole documents makes lines of many thousand characters; the log has them whole.
const CHARACTERS_PER_LINE: usize = 400;
/// Start of the output that only the log repeats.
const BACKTRACE: &str = "stack backtrace:";

/// One stage that ran, or why it did not.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) time: Duration,
    pub(crate) tally: Tally,
    pub(crate) log: Option<PathBuf>,
    /// Said in the table instead of `ok` or `FAILED`.
    pub(crate) not_run: Option<String>,
}

/// Everything that ran.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) stages: Vec<Stage>,
    pub(crate) shortfalls: Vec<String>,
    /// Whether CI is set to something.
    pub(crate) strict: bool,
    /// From the first stage to the last.
    pub(crate) time: Duration,
    /// Names of stages that ran side by side, in two rows.
    pub(crate) beside: Option<(Vec<&'static str>, Vec<&'static str>)>,
}

impl Report {
    fn skipped(&self) -> impl Iterator<Item = &(String, String)> {
        self.stages.iter().flat_map(|stage| &stage.tally.skipped)
    }

    fn is_failure(&self, (name, _): &(String, String)) -> bool {
        self.strict && !NORMAL.iter().any(|begin| name.starts_with(begin))
    }

    /// Passed, failed, skipped.
    fn totals(&self) -> (u64, u64, u64) {
        let passed = self.stages.iter().map(|stage| stage.tally.passed).sum();
        let failed: u64 = self.stages.iter().map(|stage| stage.tally.failed).sum();
        let counted =
            |failure: bool| self.skipped().filter(|skip| self.is_failure(skip) == failure).count() as u64;
        (passed, failed + counted(true), counted(false))
    }

    /// Whether nothing failed and something passed.
    pub(crate) fn is_success(&self) -> bool {
        let (passed, failed, _) = self.totals();
        failed == 0 && passed > 0
    }

    /// The time of all stages, and why theirs add up to more.
    fn whole(&self) -> String {
        let beside = self.beside.as_ref().map(|rows| {
            let (first, second) = (rows.0.join(", "), rows.1.join(", "));
            format!("; {first} ran beside {second}")
        });
        format!("whole time {}{}", duration(self.time), beside.unwrap_or_default())
    }

    /// The whole text, ending with the line of totals.
    pub(crate) fn render(&self) -> String {
        let mut lines: Vec<String> = self.stages.iter().flat_map(failures).collect();
        lines.extend(table(&self.stages));
        lines.push(self.whole());
        lines.extend(list("could not be had", self.shortfalls.iter().cloned()));
        let skips = self.skipped().map(|skip| {
            let (name, reason) = skip;
            let verdict = if self.is_failure(skip) { " (a failure, because CI is set)" } else { "" };
            format!("{name}: {reason}{verdict}")
        });
        lines.extend(list("skipped", skips));
        let (passed, failed, skipped) = self.totals();
        lines.extend([
            String::new(),
            format!("{passed} passed, {failed} failed, {skipped} skipped"),
            String::new(),
        ]);
        lines.join("\n")
    }
}

/// The failed tests of a stage with their output, then where the rest of it is.
fn failures(stage: &Stage) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, text) in &stage.tally.failures {
        lines.extend([String::new(), format!("FAILED {}: {name}", stage.name)]);
        let said: Vec<&str> = text.trim_end().lines().take_while(|line| *line != BACKTRACE).collect();
        lines.extend(said.iter().take(LINES_PER_FAILURE).map(|line| format!("  | {}", shortened(line))));
        let rest = said.len().saturating_sub(LINES_PER_FAILURE);
        if rest > 0 {
            lines.push(format!("  | ... {rest} more lines"));
        }
    }
    if let (true, Some(log)) = (stage.tally.failed > 0, &stage.log) {
        lines.extend([String::new(), format!("whole output of {}: {}", stage.name, log.display())]);
    }
    lines
}

fn shortened(line: &str) -> String {
    let rest = line.chars().count().saturating_sub(CHARACTERS_PER_LINE);
    if rest == 0 {
        return line.to_owned();
    }
    let start: String = line.chars().take(CHARACTERS_PER_LINE).collect();
    format!("{start} ... {rest} more characters")
}

fn table(stages: &[Stage]) -> Vec<String> {
    let head = ["result", "time", "passed", "failed", "skipped"];
    let row = |name: &str, [result, time, passed, failed, skipped]: [&str; 5]| {
        format!("{name:<14}{result:<10}{time:>14}{passed:>9}{failed:>9}{skipped:>9}")
    };
    let mut lines = vec![String::new(), row("stage", head)];
    for Stage { name, time, tally, log: _, not_run } in stages {
        if let Some(reason) = not_run {
            lines.push(format!("{name:<14}not run: {reason}"));
            continue;
        }
        let result = match (tally.failed, tally.passed) {
            (0, 0) => "no tests",
            (0, _) => "ok",
            _ => "FAILED",
        };
        let counts = [tally.passed, tally.failed, tally.skipped.len() as u64].map(|count| count.to_string());
        lines.push(row(name, [result, &duration(*time), &counts[0], &counts[1], &counts[2]]));
    }
    lines
}

/// A title and its lines, indented; nothing at all if there are none.
fn list(title: &str, lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.map(|line| format!("  {line}")).collect();
    if !lines.is_empty() {
        lines.splice(0..0, [String::new(), title.to_owned()]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::{Report, Stage};
    use crate::test::libtest::Tally;

    fn stage(name: &'static str, passed: u64, failures: &[&str], skipped: &[&str]) -> Stage {
        let tally = Tally {
            passed,
            failed: failures.len() as u64,
            failures: failures.iter().map(|&f| (f.to_owned(), "why\n".to_owned())).collect(),
            skipped: skipped.iter().map(|&s| (s.to_owned(), "not here".to_owned())).collect(),
        };
        Stage {
            name,
            time: Duration::from_millis(1500),
            tally,
            log: Some("target/x.log".into()),
            not_run: None,
        }
    }

    #[test]
    fn the_report_ends_with_the_totals() {
        let mut kernel = stage("kernel", 3, &["throttled"], &["gpu.nvml"]);
        kernel.log = Some("target/test-logs/kernel.log".into());
        let mut e2e = stage("end-to-end", 0, &[], &[]);
        e2e.not_run = Some("needs root".to_owned());
        let shortfalls = vec!["no page in Jaeger".to_owned()];
        let stages = vec![stage("host", 40, &[], &[]), stage("programs", 1, &[], &[]), kernel, e2e];
        let beside = Some((vec!["check", "host"], vec!["programs"]));
        let report = Report { stages, shortfalls, strict: false, time: Duration::from_millis(3_200), beside };
        assert_eq!(
            report.render(),
            "
FAILED kernel: throttled
  | why

whole output of kernel: target/test-logs/kernel.log

stage         result              time   passed   failed  skipped
host          ok                 1.5 s       40        0        0
programs      ok                 1.5 s        1        0        0
kernel        FAILED             1.5 s        3        1        1
end-to-end    not run: needs root
whole time 3.2 s; check, host ran beside programs

could not be had
  no page in Jaeger

skipped
  gpu.nvml: not here

44 passed, 1 failed, 1 skipped
"
        );
        assert!(!report.is_success());
    }

    #[rstest]
    #[case::all_passed(2, &[], &[], false, true, "2 passed, 0 failed, 0 skipped")]
    #[case::nothing_ran(0, &[], &[], false, false, "0 passed, 0 failed, 0 skipped")]
    #[case::skipped_by_hand(2, &[], &["perf"], false, true, "2 passed, 0 failed, 1 skipped")]
    #[case::skipped_in_ci(2, &[], &["perf"], true, false, "2 passed, 1 failed, 0 skipped")]
    #[case::no_gpu_in_ci(2, &[], &["gpu.nvml", "gpu-events"], true, true, "2 passed, 0 failed, 2 skipped")]
    #[case::no_guests_in_ci(2, &[], &["stage guests"], true, true, "2 passed, 0 failed, 1 skipped")]
    #[case::failed(2, &["a"], &[], false, false, "2 passed, 1 failed, 0 skipped")]
    fn skips_are_failures_in_ci_unless_they_need_a_gpu(
        #[case] passed: u64,
        #[case] failures: &[&str],
        #[case] skipped: &[&str],
        #[case] strict: bool,
        #[case] success: bool,
        #[case] last: &str,
    ) {
        let report =
            Report { stages: vec![stage("host", passed, failures, skipped)], strict, ..Report::default() };
        assert_eq!(report.is_success(), success);
        assert_eq!(report.render().lines().last(), Some(last));
    }

    #[test]
    fn long_output_is_cut() {
        let mut report = Report { stages: vec![stage("host", 1, &["a"], &[])], ..Report::default() };
        report.stages[0].tally.failures[0].1 = "line\n".repeat(100);
        assert!(report.render().contains("  | ... 40 more lines"));
        report.stages[0].tally.failures[0].1 = format!("{}\nstack backtrace:\n   0: main\n", "ü".repeat(500));
        let text = report.render();
        assert!(text.contains("üü ... 100 more characters") && !text.contains("main"), "{text}");
    }
}
