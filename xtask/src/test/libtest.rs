//! Reads what cargo and Rust's test harness print, and counts.
//!
//! Yields a [`Tally`]: passed, failed with their output, skipped with their reasons. A test that lacks
//! something prints `skipped: NAME: REASON` and returns, which the harness calls a pass: here it is none.

use std::collections::BTreeSet;

/// A line of a test that could not do what it is there for.
const SKIPPED: &str = "skipped: ";

/// What a stage's output says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Name and output of each failed test.
    pub(crate) failures: Vec<(String, String)>,
    /// Name and reason; a set, because one reason may be printed by several tests.
    pub(crate) skipped: BTreeSet<(String, String)>,
}

impl Tally {
    /// The sum of both tallies.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures.extend(other.failures);
        self.skipped.extend(other.skipped);
        self
    }
}

/// The part of the output of one test program that is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Names,
    Successes,
    Failures,
}

/// Reader of one stage's output, line by line.
struct Reader {
    tally: Tally,
    part: Part,
    /// The test whose output is being read.
    section: Option<(String, String)>,
    /// How many of this program's passes were none, as their sections say.
    hollow: u64,
    /// Skips that went past the harness's capture, one per test.
    loose: BTreeSet<String>,
    /// The open section has said that it skips.
    section_skips: bool,
}

/// Counts everything in a stage's output, which may hold any number of test programs.
pub(crate) fn tally(output: &str) -> Tally {
    let mut reader = Reader {
        tally: Tally::default(),
        part: Part::Names,
        section: None,
        hollow: 0,
        loose: BTreeSet::new(),
        section_skips: false,
    };
    for line in output.lines() {
        reader.line(line);
    }
    reader.close_section();
    reader.tally
}

impl Reader {
    fn line(&mut self, line: &str) {
        if let Some((name, reason)) = skip(line) {
            self.tally.skipped.insert((name.to_owned(), reason.to_owned()));
            match self.section {
                Some(_) => self.section_skips = true,
                None => drop(self.loose.insert(name.to_owned())),
            }
        }
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.close_section();
            self.result(counts);
        } else if let Some(name) =
            line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            self.close_section();
            self.section = Some((name.to_owned(), String::new()));
        } else if line == "successes:" || line == "failures:" {
            self.close_section();
            self.part = if line == "successes:" { Part::Successes } else { Part::Failures };
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.split(" ... ignored").next())
            && line.contains(" ... ignored")
        {
            let reason = line.split(" ... ignored").nth(1).unwrap_or_default().trim_start_matches([',', ' ']);
            let reason = if reason.is_empty() { "ignored" } else { reason };
            self.tally.skipped.insert((name.to_owned(), reason.to_owned()));
        } else if let Some((_, text)) = &mut self.section {
            text.push_str(line);
            text.push('\n');
        }
    }

    fn close_section(&mut self) {
        let skips = std::mem::take(&mut self.section_skips);
        let Some((name, text)) = self.section.take() else { return };
        match self.part {
            Part::Failures => self.tally.failures.push((name, text)),
            Part::Successes if skips => self.hollow += 1,
            Part::Names | Part::Successes => {}
        }
    }

    /// `ok. 3 passed; 0 failed; 0 ignored; ...`: the end of one test program.
    fn result(&mut self, counts: &str) {
        let number = |word: &str| {
            let mut fields = counts.split(['.', ';']).map(str::trim);
            fields.find_map(|field| field.strip_suffix(word)?.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        self.tally.passed += number("passed").saturating_sub(self.hollow + self.loose.len() as u64);
        self.tally.failed += number("failed");
        self.hollow = 0;
        self.loose.clear();
        self.part = Part::Names;
    }
}

/// Name and reason of a line that says so. It may follow the harness's own `test NAME ... ` on the same line.
fn skip(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let text = line.strip_prefix(SKIPPED).or_else(|| {
        line.strip_prefix("test ")?;
        Some(line.split_once(&format!(" ... {SKIPPED}"))?.1)
    })?;
    let (name, reason) = text.split_once(": ").unwrap_or((text, "no reason given"));
    Some((name.trim(), reason.trim()))
}

#[cfg(test)]
mod tests {
    use super::tally;

    const TWO_PROGRAMS: &str = "\
   Compiling guestscope v0.1.0
     Running unittests src/lib.rs (target/debug/deps/guestscope-1)

running 3 tests
test a::sums ... ok
test a::gpu ... ok
test a::slow ... ignored, only by hand

successes:

---- a::gpu stdout ----
skipped: gpu.nvml: no libnvidia-ml.so.1 here

---- a::sums stdout ----
hello


successes:
    a::gpu
    a::sums

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s

     Running tests/kernel.rs (target/debug/deps/kernel-2)

running 2 tests
test throttled ... FAILED
test switches ... ok

successes:

successes:
    switches

failures:

---- throttled stdout ----

thread 'throttled' panicked at agent/tests/kernel.rs:7:5:
assertion failed
  skipped: cgroup-v2: no controllers

failures:
    throttled

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s

error: test failed, to rerun pass `-p guestscope --test kernel`
";

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn passes_that_skip_are_no_passes() {
        let tally = tally(TWO_PROGRAMS);
        assert_eq!((tally.passed, tally.failed), (2, 1));
        let skipped: Vec<_> = tally.skipped.into_iter().collect();
        assert_eq!(
            skipped,
            pairs(&[
                ("a::slow", "only by hand"),
                ("cgroup-v2", "no controllers"),
                ("gpu.nvml", "no libnvidia-ml.so.1 here"),
            ])
        );
    }

    #[test]
    fn a_failed_test_keeps_its_output() {
        let failures = tally(TWO_PROGRAMS).failures;
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].0, "throttled");
        assert!(failures[0].1.contains("assertion failed"), "{failures:?}");
    }

    #[test]
    fn the_same_skip_counts_once() {
        let text = "skipped: perf: not here\nskipped: perf: not here\nskipped: odd\n";
        let skipped: Vec<_> = tally(text).skipped.into_iter().collect();
        assert_eq!(skipped, pairs(&[("odd", "no reason given"), ("perf", "not here")]));
    }

    #[test]
    fn a_test_that_skips_twice_is_one_pass_less() {
        let text = "successes:\n\n---- a stdout ----\nskipped: x: y\nskipped: z: y\n\nsuccesses:\n    a\n    b\n\n\
                    test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s\n";
        let tally = tally(text);
        assert_eq!((tally.passed, tally.skipped.len()), (1, 2));
    }

    #[test]
    fn a_skip_past_the_capture_is_no_pass_either() {
        let result =
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s";
        let alone = format!("test a ... skipped: a: no BTF\nok\ntest b ... ok\n\n{result}\n");
        let twice =
            format!("test a ... ok\n\nskipped: a: no BTF\nskipped: a: no BTF\ntest b ... ok\n{result}\n");
        for text in [alone, twice] {
            let tally = tally(&text);
            assert_eq!((tally.passed, tally.skipped.len()), (1, 1), "{text}");
        }
    }

    #[test]
    fn output_without_tests_counts_nothing() {
        assert_eq!(tally("error: could not compile `x`\n"), super::Tally::default());
    }
}
