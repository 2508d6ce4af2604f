//! What this kernel's verifier makes of each program of the object: one line of JSON per program, for `cargo xtask vm`.
//!
//! Loads everything as the agent does. Where that is refused, loads the programs one by one and goes on after a refusal,
//! so that one run tells all of them. It attaches nothing that stays and observes nothing.
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::{collections::BTreeMap, path::Path};

use aya::{
    Ebpf, EbpfLoader,
    programs::{Program, ProgramError},
};
use guestscope::{
    kernel::{
        btf::{Btf, KERNEL_BTF},
        casts::Casts,
        syscalls,
    },
    loader::{self, LoadOptions},
    probes::{FAMILIES, Hook, Place},
};
use guestscope_ebpf::fields::FIELDS;
use serde_json::json;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/probes"));
/// How much of the verifier's log is passed on.
const LOG_LINES: usize = 30;

fn main() {
    match loader::load(LoadOptions::default()) {
        Ok(loaded) => {
            for (name, program) in loaded.programs() {
                println!("{}", told(name, program));
            }
        }
        Err(error) => {
            println!("{}", json!({ "refused": error.to_string() }));
            if let Err(error) = one_by_one() {
                println!("{}", json!({ "object": format!("{error:#}") }));
            }
        }
    }
}

/// What the kernel says about a program that it has taken.
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

/// The loader's work, with a verdict for each program.
fn one_by_one() -> anyhow::Result<()> {
    let offsets = Btf::from_file(Path::new(KERNEL_BTF))?;
    let casts = Casts::find(&offsets);
    let kernel_btf = aya::Btf::from_sys_fs()?;
    let mut members = Vec::new();
    for field in FIELDS {
        match offsets.first_offset(field.paths) {
            Ok(member) => members.push((field, member)),
            Err(error) if field.required => println!("{}", json!({ "member": error.to_string() })),
            Err(_) => {}
        }
    }
    let mut loader = EbpfLoader::new();
    loader.btf(Some(&kernel_btf));
    for (field, member) in &members {
        loader.override_global(field.offset, &member.offset, true);
        if !field.mask.is_empty() {
            loader.override_global(field.mask, &member.mask, true);
        }
    }
    let accounts = syscalls::account_of();
    let switch_state = u32::from(offsets.tracepoint_arguments("sched_switch") >= Some(4));
    loader.override_global("HAS_SWITCH_STATE", &switch_state, true);
    loader.override_global("TYPE_FILE", &casts.file, true);
    loader.override_global("TYPE_POINTER", &casts.pointer, true);
    loader.override_global("TYPE_REGISTERS", &casts.registers, true);
    loader.override_global(aya_log::LEVEL, &0_u8, false);
    loader.override_global("ACCOUNT_OF", &accounts[..], true);
    let mut ebpf = loader.load(&casts.put_into(OBJECT))?;
    let hooks: BTreeMap<&str, &Hook> =
        FAMILIES.iter().copied().flatten().map(|hook| (hook.program, hook)).collect();
    for (program, hook) in hooks {
        println!("{}", verdict(&mut ebpf, program, hook, &kernel_btf));
    }
    Ok(())
}

fn verdict(ebpf: &mut Ebpf, name: &str, hook: &Hook, btf: &aya::Btf) -> serde_json::Value {
    let Some(program) = ebpf.program_mut(name) else {
        return json!({ "program": name, "error": "the object has no such program" });
    };
    let loaded = match (hook.place, &mut *program) {
        (Place::BtfTracepoint(tracepoint), Program::BtfTracePoint(program)) => program.load(tracepoint, btf),
        (Place::Called, Program::RawTracePoint(program)) => program.load(),
        (Place::Marker, Program::UProbe(program)) => program.load(),
        _ => Err(ProgramError::UnexpectedProgramType),
    };
    let Err(error) = loaded.and_then(|()| attached(hook.place, program)) else { return told(name, program) };
    let text = chain(&error);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let from = lines.len().saturating_sub(LOG_LINES);
    json!({
        "program": name,
        "error": lines.first(),
        "log": &lines[from.max(1).min(lines.len())..],
    })
}

/// A program may be taken and its hook refused. The link goes away with this process.
fn attached(place: Place, program: &mut Program) -> Result<(), ProgramError> {
    match (place, program) {
        (Place::BtfTracepoint(_), Program::BtfTracePoint(program)) => program.attach().map(drop),
        _ => Ok(()),
    }
}
