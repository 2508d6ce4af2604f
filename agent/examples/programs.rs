//! Verdict of this kernel's verifier on each program of the object: one line of JSON per program, for `cargo
//! xtask vm`.
//!
//! Loads everything as the agent does, with `--btf FILE` as it does without the kernel's own BTF. Where that
//! is refused, in all or in part, loads what was refused one by one and goes on after a refusal, so that one
//! run tells all of them. It attaches nothing that stays and observes nothing.
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::{collections::BTreeMap, path::PathBuf};

use aya::programs::Program;
use guestscope::{
    loader::{self, LoadError, LoadOptions, Prepared},
    probes::{FAMILIES, Hook},
    sources::socket::Watched,
};
use serde_json::json;

/// Lines of the verifier's log that are passed on.
const LOG_LINES: usize = 30;

fn main() {
    let mut words = std::env::args_os().skip(1);
    let btf = words.next().filter(|word| word == "--btf").and_then(|_| words.next()).map(PathBuf::from);
    let requests = vec![Watched::Port(1), Watched::Path("/nowhere".into())];
    let options = LoadOptions { knowledge: btf.into(), requests, arrivals: true, ..LoadOptions::default() };
    match loader::load(&options) {
        Ok(loaded) => {
            let (whole, left): (Vec<_>, Vec<_>) =
                loaded.programs().partition(|(_, program)| program.info().is_ok());
            for (name, program) in whole {
                println!("{}", told(name, program));
            }
            if !left.is_empty() {
                say_one_by_one(&options, |name| left.iter().any(|(left, _)| *left == name));
            }
        }
        Err(error) => {
            println!("{}", json!({ "refused": error.to_string() }));
            say_one_by_one(&options, |_| true);
        }
    }
}

fn say_one_by_one(options: &LoadOptions, wanted: impl Fn(&str) -> bool) {
    if let Err(error) = one_by_one(options, wanted) {
        println!("{}", json!({ "object": format!("{error:#}") }));
    }
}

/// The kernel's facts about a loaded program.
fn told(name: &str, program: &Program) -> serde_json::Value {
    match program.info() {
        Ok(info) => json!({
            "program": name,
            "instructions": info.verified_instruction_count(),
            "translated_bytes": info.size_translated(),
        }),
        Err(error) => json!({ "program": name, "error": chain(&error) }),
    }
}

/// An error with its sources, each with all its lines: the verifier's log is one of them.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let texts = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
    texts.collect::<Vec<_>>().join(": ")
}

/// The loader's work, with a verdict for each program that is asked for.
fn one_by_one(options: &LoadOptions, is_wanted: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let mut prepared = loader::prepare(options)?;
    let wanted = FAMILIES.iter().copied().flatten().filter_map(|hook| prepared.wanted(hook));
    let hooks: BTreeMap<&str, Hook> = wanted.map(|hook| (hook.program, hook)).collect();
    for (program, hook) in hooks.into_iter().filter(|(program, _)| is_wanted(program)) {
        println!("{}", verdict(&mut prepared, program, &hook));
    }
    Ok(())
}

fn verdict(prepared: &mut Prepared, name: &str, hook: &Hook) -> serde_json::Value {
    let text = match prepared.attach(hook) {
        Ok(()) => match prepared.ebpf.program(name) {
            Some(program) => return told(name, program),
            None => "the object has no such program".to_owned(),
        },
        Err(LoadError::Program { source, .. }) => chain(&source),
        Err(error) => chain(&error),
    };
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let from = lines.len().saturating_sub(LOG_LINES);
    json!({
        "program": name,
        "error": lines.first(),
        "log": &lines[from.max(1).min(lines.len())..],
    })
}
