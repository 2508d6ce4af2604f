//! Whether all runs did the same work: if not, a difference in time says nothing about platforms.

pub use guestscope_model::analyze::compare::Work;

use super::{error::Refusal, read::ReadRun};
use crate::untrusted::Shown as _;

/// Foreign text in a message: on one line, and not too much of it.
fn shown(text: &str) -> String {
    const MOST: usize = 120;
    let text: String =
        text.chars().map(|c| if crate::untrusted::is_unsafe(c) { ' ' } else { c }).take(MOST).collect();
    text.trim().to_owned()
}

fn text<'a>(run: &'a ReadRun, key: &str) -> Option<&'a str> {
    run.manifest.workload.as_ref()?.get(key)?.as_str()
}

/// Finds out, and refuses what is known to differ unless that is allowed.
pub(super) fn check(runs: &[ReadRun], allow_unequal: bool) -> Result<Work, Refusal> {
    let Some(first) = runs.first() else { return Ok(Work::Unknown("no runs".to_owned())) };
    let refuse = |what: String| {
        if allow_unequal { Ok(Work::Unknown(what)) } else { Err(Refusal::UnequalWork(what)) }
    };
    let folder = |run: &ReadRun| run.source.path.shown().to_string();
    match text(first, "work_hash") {
        Some(hash) => {
            if let Some(other) = runs.iter().find(|run| text(run, "work_hash") != Some(hash)) {
                let theirs = text(other, "work_hash").unwrap_or("none");
                let (hash, theirs) = (shown(hash), shown(theirs));
                return refuse(format!("hash {hash} in {}, {theirs} in {}", folder(first), folder(other)));
            }
            let words = ["name", "model"].into_iter().filter_map(|key| text(first, key)).map(str::to_owned);
            let mut outputs = runs.iter().filter_map(|run| text(run, "output_hash"));
            let output = outputs.next();
            let outputs_differ = outputs.any(|other| Some(other) != output);
            Ok(Work::Equal { hash: hash.to_owned(), words: words.collect(), outputs_differ })
        }
        None if runs.iter().any(|run| text(run, "work_hash").is_some()) => {
            refuse(format!("only some name a hash of it; {} does not", folder(first)))
        }
        None => {
            let command = shown(&first.manifest.command.join(" "));
            let other = runs.iter().find(|run| run.manifest.command != first.manifest.command);
            match other {
                Some(other) => refuse(format!(
                    "`{command}` in {}, `{}` in {}",
                    folder(first),
                    shown(&other.manifest.command.join(" ")),
                    folder(other)
                )),
                None => Ok(Work::SameCommand(command)),
            }
        }
    }
}
