//! Reads what a guest printed: pure, from lines to facts.
//!
//! Yields [`Answers`] (raw, by step), and from these the results of doctor, the verifier and the kernel
//! tests. Unknown lines are skipped; they are in the log.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::test::libtest::{self, Tally};

/// The line with which a guest asks for its next job.
pub(crate) const READY: &str = "ready";

/// The output of a guest.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answers {
    pub(crate) release: Option<String>,
    /// Seconds from the kernel's start to the first line of the first program.
    pub(crate) up_s: Option<f64>,
    /// Whether it finished its job.
    pub(crate) is_done: bool,
    /// Complaints of the first program.
    pub(crate) complaints: Vec<String>,
    /// Reasons not to trust any of its output: its kernel or the emulator failed.
    pub(crate) trouble: Vec<String>,
    pub(crate) steps: BTreeMap<String, Said>,
}

/// The output of one program, and how it ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
    /// `status 0`, `signal 9`, `over its limit`; none if the guest ended first.
    pub(crate) end: Option<String>,
}

impl Answers {
    pub(crate) fn read(text: &str) -> Self {
        let mut answers = Self::default();
        for line in text.lines() {
            answers.line(line.trim_end_matches('\r'));
        }
        answers
    }

    fn line(&mut self, line: &str) {
        let Some(at) = line.find(|c: char| !c.is_ascii_lowercase()) else { return };
        let (name, rest) = line.split_at(at);
        let mark = rest.chars().next().unwrap_or_default();
        let text = rest[mark.len_utf8()..].strip_prefix(' ').unwrap_or_default();
        if (name, mark) == ("guest", ':') {
            return self.of_the_guest(text);
        }
        if name.is_empty() || !['|', '!', '='].contains(&mark) {
            return;
        }
        let said = self.steps.entry(name.to_owned()).or_default();
        match mark {
            '|' => said.out.extend([text, "\n"]),
            '!' => said.err.extend([text, "\n"]),
            _ => said.end = Some(text.split(", ").next().unwrap_or_default().to_owned()),
        }
    }

    fn of_the_guest(&mut self, text: &str) {
        match text.split_once(' ') {
            _ if text == "done" => self.is_done = true,
            // It waits for the next job: see `Session`.
            _ if text == READY => {}
            Some(("up", rest)) => {
                let (up_s, release) = rest.split_once(' ').unwrap_or((rest, ""));
                // A guest that has started anew begins its job again.
                self.steps.clear();
                self.up_s = up_s.parse().ok();
                self.release = Some(release.to_owned());
            }
            _ => self.complaints.push(text.to_owned()),
        }
    }
}

/// The result of `guestscope doctor --json`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Doctor {
    pub(crate) fidelity: String,
    /// Hook, outcome, and the consequence of the outcome.
    pub(crate) hooks: Vec<[String; 3]>,
}

impl Doctor {
    pub(crate) fn read(said: &Said) -> Option<Self> {
        // On this machine both streams are one, so a warning may stand beside the JSON.
        let json = said.out.get(said.out.find('{')?..=said.out.rfind('}')?)?;
        let value: Value = serde_json::from_str(json).ok()?;
        let hook = |hook: &Value| {
            let field = |name: &str| Some(hook[name].as_str()?.to_owned());
            Some([field("hook")?, field("outcome")?, field("consequence")?])
        };
        Some(Self {
            fidelity: value["fidelity"].as_str()?.to_owned(),
            hooks: value["hooks"].as_array()?.iter().filter_map(hook).collect(),
        })
    }

    pub(crate) fn hooks_in_place(&self) -> usize {
        self.hooks.iter().filter(|hook| hook[1] == "ok").count()
    }
}

/// The verifier's result for one BPF program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) name: String,
    /// Instructions that it processed, if the kernel tells (5.16 and later), or why it refused the program.
    pub(crate) verdict: Result<Option<u64>, String>,
}

/// The result of the example `programs`: the BPF programs, and messages about the whole object.
pub(crate) fn programs(said: &Said) -> (Vec<Program>, Vec<String>) {
    let (mut programs, mut whole) = (Vec::new(), Vec::new());
    for value in said.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if let Some(name) = value["program"].as_str() {
            let verdict = match value["error"].as_str() {
                Some(error) => Err(reason(error, &strings(&value["log"]))),
                None => Ok(value["instructions"].as_u64()),
            };
            programs.push(Program { name: name.to_owned(), verdict });
        }
        for (about, word) in [("refused", "agent"), ("object", "object")] {
            let line = value[about].as_str().and_then(|text| text.lines().next());
            whole.extend(line.map(|line| format!("{word}: {line}")));
        }
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    (programs, whole)
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The first line of the verifier's reason, which follows the last instruction that it looked at. Without a
/// log, the error itself.
fn reason(error: &str, log: &[&str]) -> String {
    // Statistics, and the error number that follows the log.
    const NOISE: [&str; 4] = ["processed ", "verification time", "stack depth", ": "];
    let is_step = |line: &str| {
        // An instruction, a source line, or the state in which a branch continues.
        let number = line.split(':').next().unwrap_or_default();
        let is_instruction = line.contains(':') && number.chars().all(|c| c.is_ascii_digit());
        is_instruction || line.starts_with(';') || line.starts_with("from ")
    };
    let said: Vec<&str> =
        log.iter().copied().filter(|line| !NOISE.iter().any(|noise| line.starts_with(noise))).collect();
    let after = said.iter().rposition(|line| is_step(line)).map_or(0, |at| at + 1);
    said.get(after).or(said.last()).map_or_else(|| error.to_owned(), |line| (*line).to_owned())
}

/// The results of the kernel tests. Tests that did not end before the guest did count as failed.
pub(crate) fn tests(said: &Said) -> Tally {
    let mut tally = libtest::tally(&said.out);
    if !said.out.contains("test result: ") {
        let is_test = |line: &&str| line.starts_with("test ");
        tally.passed =
            said.out.lines().filter(is_test).filter(|line| line.ends_with(" ... ok")).count() as u64;
        // A hanging test has not ended its line, which a hanging guest has kept: it may also be the next
        // test.
        let last = said.out.lines().rfind(|line| is_test(line) && line.contains(" ... "));
        let last = last.and_then(|line| line.strip_prefix("test ")?.split(" ... ").next());
        let running =
            last.map_or_else(|| "the test program".to_owned(), |last| format!("in or after {last}"));
        let end = said.end.as_deref().unwrap_or("the guest ended first");
        tally.failures.push((running, format!("{end}\n{}", said.err)));
        tally.failed = tally.failures.len() as u64;
    }
    tally
}

/// The table of injected faults that the truth suite prints at its end, line by line.
pub(crate) fn truth(said: &Said) -> Vec<String> {
    let is_head = |line: &&str| line.starts_with("fault ") && line.contains(" headline ");
    let table = said.out.lines().skip_while(|line| !is_head(line)).skip(1);
    table.take_while(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{Answers, Doctor, Program, Said, programs, reason, tests, truth};

    const ANSWERS: &str = "\
guest: up 3.21 6.1.0-47-cloud-amd64\r
guest: module /modules/0-virtio.ko: Exec format error\r
doctor| {\"fidelity\": \"full\",\r
doctor|  \"hooks\": [{\"hook\": \"a/b\", \"outcome\": \"ok\", \"consequence\": \"c\"}]}\r
doctor! warning: x\r
doctor= status 0, 1.2 s\r
tests| test a ... ok
something else: entirely
guest: done
";

    fn said(out: &str) -> Said {
        Said { out: out.to_owned(), ..Said::default() }
    }

    #[test]
    fn a_guest_is_understood() {
        let answers = Answers::read(ANSWERS);
        assert_eq!(answers.release.as_deref(), Some("6.1.0-47-cloud-amd64"));
        assert_eq!((answers.up_s, answers.is_done), (Some(3.21), true));
        assert_eq!(answers.complaints, ["module /modules/0-virtio.ko: Exec format error"]);
        let step = &answers.steps["doctor"];
        assert_eq!((step.err.as_str(), step.end.as_deref()), ("warning: x\n", Some("status 0")));
        let doctor = Doctor::read(step).unwrap();
        assert_eq!((doctor.fidelity.as_str(), doctor.hooks_in_place()), ("full", 1));
        assert_eq!(answers.steps["tests"], said("test a ... ok\n"));
    }

    #[test]
    fn programs_are_told_with_their_reasons() {
        let out = r#"{"refused": "the kernel refused `x`\nlog"}
{"program": "b", "instructions": 812, "translated_bytes": 4096}
{"program": "a", "error": "the BPF_PROG_LOAD syscall failed", "log": ["0: (85) call x#175", "unknown func x#175", "processed 0 insns"]}
noise
{"program": "c", "instructions": null}
"#;
        let program = |name: &str, verdict| Program { name: name.to_owned(), verdict };
        let expected = [
            program("a", Err("unknown func x#175".to_owned())),
            program("b", Ok(Some(812))),
            program("c", Ok(None)),
        ];
        let (found, whole) = programs(&said(out));
        assert_eq!(found, expected);
        assert_eq!(whole, ["agent: the kernel refused `x`"]);
    }

    #[rstest]
    #[case::no_log("EPERM", &[], "EPERM")]
    #[case::after_the_last_step(
        "e",
        &["1: (85) call f#1", "; source: text", "2: (79) r1 = *(u64 *)(r1 +0)", "from 1 to 3: R0=inv", "invalid access", "more", "processed 3 insns", ": EINVAL"],
        "invalid access"
    )]
    #[case::steps_alone("e", &["1: (85) call f#1", "processed 3 insns"], "1: (85) call f#1")]
    #[case::reason_alone("e", &["kernel function f is not allowed", "processed 0 insns"], "kernel function f is not allowed")]
    fn the_reason_stands_behind_the_last_step(
        #[case] error: &str,
        #[case] log: &[&str],
        #[case] expected: &str,
    ) {
        assert_eq!(reason(error, log), expected);
    }

    #[test]
    fn the_table_of_faults_is_found() {
        let out = "fault of a disk\n\nfault   cause  named  headline  injected\nquota x\nlock y\n\nelse\n";
        assert_eq!(truth(&said(out)), ["quota x", "lock y"]);
        assert!(truth(&said("test a ... ok\n")).is_empty());
    }

    #[test]
    fn tests_that_were_cut_off_fail() {
        let cut = tests(&said("running 3 tests\ntest a ... ok\ntest b ... "));
        assert_eq!((cut.passed, cut.failed, cut.failures[0].0.as_str()), (1, 1, "in or after b"));
        let whole = tests(&said("test a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n"));
        assert_eq!((whole.passed, whole.failed), (1, 0));
    }
}
