//! What is printed of an error, through all types that wrap it.

use std::io;

use guestscope_base::{Hint as _, hint::told};
use rstest::rstest;

use super::Failure;
use crate::{
    compare::{CompareError, Refusal},
    descriptors,
    explain::ExplainError,
    facts::formats::FormatError,
    folder,
    loader::{LoadError, VisitError},
    report::ReportError,
    session::SessionError,
};

fn damaged() -> folder::Error {
    let what = "unknown variant `x`\nFORGED: all is well\n".into();
    folder::Error::Damaged { path: "run/manifest.json".into(), what, rows_kept: None }
}

/// An error like the kernel's: a log, whose last line says why.
fn refused() -> aya::programs::ProgramError {
    io::Error::other("0: (bf) r6 = r1\nlast words of the verifier\n").into()
}

#[rstest]
#[case::a_folder(
    ExplainError::from(damaged()),
    "error: damaged file in the run folder: run/manifest.json: unknown variant `x` FORGED: all is well\n\n\
     hint: the other files of the folder may still be read; copy it again if it was copied\n"
)]
#[case::a_step(
    SessionError::Step { what: "reading signals", source: io::Error::other("no\nFORGED") },
    "error: reading signals: no FORGED\n"
)]
#[case::a_log(
    SessionError::from(LoadError::Program { hook: "sched_switch", source: refused() }),
    "error: the kernel refused `sched_switch`: last words of the verifier\n\n\
     hint: `guestscope doctor` tells hook by hook what this kernel allows (lockdown, a container's seccomp \
     filter or missing capabilities refuse BPF)\n"
)]
#[case::a_walk(
    SessionError::from(VisitError::Object(LoadError::Permission("CAP_BPF"))),
    "error: observing needs CAP_BPF\n\nhint: run it as root: sudo guestscope run -- CMD\n"
)]
#[case::of_another_verb(
    ReportError::from(CompareError::from(Refusal::TracesInReport)),
    "error: a report is of run folders, not of traces: --jaeger\n\n\
     hint: give the folders of the runs, or compare the traces: guestscope compare --jaeger URL\n"
)]
#[case::without_a_hint(ExplainError::Answer(io::Error::other("closed")), "error: closed\n")]
fn an_error_is_one_line_and_a_hint(#[case] error: impl Into<Failure>, #[case] expected: &str) {
    assert_eq!(told(&error.into()), expected);
}

/// What the kernel lacks decides, not the layer that noticed.
#[test]
fn a_cause_keeps_its_hint() {
    let formats = Failure::from(SessionError::from(LoadError::Formats(FormatError::NoTracefs)));
    assert!(formats.hint().is_some_and(|hint| hint.starts_with("mount it (`mount -t tracefs")));
    let too_few = descriptors::HINT;
    assert!(too_few.contains("LimitNOFILE"));
}
