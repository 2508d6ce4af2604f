//! Text quoted in an error replaces none of its words.

use std::io;

use rstest::rstest;

use super::*;
use crate::run;

fn damaged() -> run::Error {
    let what = "unknown variant `x`\nFORGED: all is well\n".into();
    run::Error::Damaged { path: "run/manifest.json".into(), what, rows_kept: None }
}

/// An error like the kernel's: a log, whose last line says why.
fn refused() -> aya::programs::ProgramError {
    io::Error::other("0: (bf) r6 = r1\nlast words of the verifier\n").into()
}

#[rstest]
#[case::a_folder(
    damaged().into(),
    "damaged file in the run folder: run/manifest.json: unknown variant `x` FORGED: all is well"
)]
#[case::a_source(
    anyhow::Error::from(io::Error::other("no\nFORGED")).context("reading\nsomething"),
    "reading something: no FORGED"
)]
#[case::a_log(
    LoadError::Program { hook: "sched_switch", source: refused() }.into(),
    "the kernel refused `sched_switch`: last words of the verifier"
)]
fn an_error_is_one_line_in_its_own_words(#[case] error: anyhow::Error, #[case] begins: &str) {
    let what = chain(error.chain());
    assert!(what.starts_with(begins), "{what}");
    assert!(!what.contains('\n'), "{what}");
}
