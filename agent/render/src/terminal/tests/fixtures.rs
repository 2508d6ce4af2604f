//! A run, its health and a guest, as the tests of the terminal need them.
//!
//! Yields plain values, and two checks of texts. The numbers are made up.

use std::{path::PathBuf, time::Duration};

use crate::{
    analyze::{Called, Hidden, Summary},
    health::{AgentCost, ExportHealth, Fidelity, Health, KernelLosses, Outcome, Verdict},
    phase::{Made, PairingLosses, Request, RestoredBy},
    platform::{Cpuid, Guest, Root, Subject},
    privileges::Layer,
    restore::{RestoreSource, State},
    run::GpuRecord,
    sources::{Kind, Report},
    terminal::{Doctor, Exit, RunFacts, Style, render_summary},
    untrusted::is_unsafe,
};

pub(in crate::terminal) const UNICODE: Style = Style { width: 100, color: false, unicode: true };
pub(in crate::terminal) const NARROW: Style = Style { width: 60, color: false, unicode: false };

pub(in crate::terminal) fn summary_of(requests: &[Request]) -> Summary {
    Summary::new(|| requests.iter().cloned())
}

pub(super) fn hook(name: &str, outcome: Outcome, consequence: &str, remedy: Option<&str>) -> Verdict {
    let remedy = remedy.map(str::to_owned);
    Verdict { hook: name.to_owned(), outcome, consequence: consequence.to_owned(), remedy }
}

pub(super) fn hooks() -> Vec<Verdict> {
    vec![
        hook("tp_btf/sched_switch", Outcome::Ok, "all accounts", None),
        hook("tp_btf/sched_waking", Outcome::Ok, "who ended a wait", None),
        hook("uprobe/marker", Outcome::Ok, "phases", None),
    ]
}

pub(in crate::terminal) fn healthy() -> Health {
    Health {
        fidelity: Fidelity::Full,
        hooks: hooks(),
        kernel: KernelLosses::default(),
        pairing: PairingLosses::default(),
        cost: AgentCost {
            cpu: Duration::from_millis(52),
            wall: Duration::from_millis(12_400),
            rss_peak_bytes: 14_234_000,
            attach: Duration::from_micros(92_100),
            bpf: Some(Duration::from_millis(11)),
        },
        export: ExportHealth {
            endpoint: Some("localhost:4317".to_owned()),
            spans_sent: 1_000,
            traces_sent: 200,
            ..ExportHealth::default()
        },
        folder_error: None,
        rows_lost: 0,
        not_let_in: 0,
        sources: Vec::new(),
        programs_unanswered: 0,
    }
}

pub(in crate::terminal) fn facts() -> RunFacts {
    RunFacts {
        version: "0.1.0".to_owned(),
        scenario: "MVM/2/VNL/CPU".to_owned(),
        kernel: Some("6.18.44".to_owned()),
        service: "ic".to_owned(),
        command: ["guestscope-workloads", "infer", "ic", "--requests", "200"].map(str::to_owned).to_vec(),
        wall: Duration::from_millis(12_400),
        exit: Exit::Code(0),
        cpu_quota: None,
        limits: Vec::new(),
        folder: Some(PathBuf::from("runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic")),
        restored: Vec::new(),
        gpu: GpuRecord::default(),
        gpu_work: None,
        hidden: Hidden::default(),
        hints: Vec::new(),
        kept: None,
        called: Called::default(),
        spun: std::collections::BTreeMap::new(),
    }
}

pub(in crate::terminal) fn text_of(requests: &[Request], style: Style) -> String {
    render_summary(&summary_of(requests), &healthy(), &facts(), style)
}

/// Health with one of every loss.
pub(super) fn lossy() -> Health {
    Health {
        hooks: vec![
            hook("tp_btf/sched_switch", Outcome::Ok, "all accounts", None),
            hook(
                "tp_btf/sched_waking",
                Outcome::Broken,
                "who ended a wait is not known",
                Some("report this kernel"),
            ),
            hook("perf/cpu_clock", Outcome::Unsupported, "what hides inside `cpu` is not known", None),
            hook("tp_btf/block_io_start", Outcome::Off, "block devices", None),
        ],
        kernel: KernelLosses {
            edges: 1,
            task_events: 2,
            tasks_missed: 3,
            edges_torn: 4,
            stale_slots: 5,
            unknown_abi: 6,
            waits: 7,
            sums_torn: 8,
            ends_unseen: 9,
            ios: 11,
            edges_unfinished: 10,
            marks_untracked: 13,
            requests_untracked: 14,
            runs_left_out: 12,
        },
        pairing: PairingLosses {
            edges_lost: 7,
            edges_before: 8,
            unmatched_ends: 9,
            unended_phases: 10,
            damaged_names: 11,
            unknown_edges: 12,
            torn_edges: 1_234_567,
            late_ios: 19,
            phases_left_out: 20,
            requests_cut: 21,
            waits_unplaced: 22,
            names_left_out: 13,
        },
        export: ExportHealth {
            spans_spilled: 14,
            spans_dropped: 15,
            spans_rejected: 16,
            waits_left_out: 18,
            last_error: Some("connection refused".to_owned()),
            ..healthy().export
        },
        folder_error: Some("No space left on device".to_owned()),
        rows_lost: 17,
        programs_unanswered: 2,
        ..healthy()
    }
}

pub(super) fn recorded(name: &str) -> Guest {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../platform/tests/data/platform").join(name);
    let archive =
        std::fs::read_to_string(path.with_extension("tree")).expect("the tree is in the repository");
    let directory = crate::platform::unpack(&archive);
    let cpuid = Cpuid { hypervisor: true, vendors: vec!["KVMKVMKVM".to_owned()] };
    let mut guest = Guest::read(&Root::at(directory.path()), Some(&cpuid), Subject::Own);
    guest.host.arch = "amd64";
    guest
}

/// Sources under a hypervisor that offers both, with a kernel that lacks one of the drivers.
fn signs() -> Vec<RestoreSource> {
    let sign = |source, state, consequence: &str, remedy: Option<&str>| {
        let remedy = remedy.map(str::to_owned);
        RestoreSource { source, state, consequence: consequence.to_owned(), remedy }
    };
    vec![
        sign(RestoredBy::Vmgenid, State::Present, "that the guest was restored", None),
        sign(
            RestoredBy::Vmclock,
            State::Unsupported,
            "the kernel does not give it on",
            Some("a newer kernel does"),
        ),
    ]
}

pub(super) fn doctor(name: &str, hooks: Vec<Verdict>) -> Doctor {
    Doctor {
        version: "0.1.0".to_owned(),
        guest: recorded(name),
        fidelity: Fidelity::Full,
        hooks,
        sources: sources(),
        signs: signs(),
        layers: layers(),
        gpu: None,
    }
}

/// Whether text has no control character but the line end, and nothing that changes the writing direction.
pub(in crate::terminal) fn is_safe(text: &str) -> bool {
    !text.chars().any(|c| c != '\n' && is_unsafe(c))
}

/// The text without `ESC [ ... m`.
pub(in crate::terminal) fn without_escapes(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    // Spaces at the end of a coloured line stand before its last escape.
    plain.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// One limit that is possible, and one that is not.
fn layers() -> Vec<Layer> {
    let layer =
        |name, is_there, consequence: &str| Layer { name, is_there, consequence: consequence.to_owned() };
    vec![
        layer("seccomp", true, "no thread can start a program"),
        layer("landlock", false, "this kernel has none, or it is off"),
    ]
}

/// Two sources that a program can have, and one that another tool holds.
fn sources() -> Vec<Report> {
    let report =
        |kind, off| Report { kind, off, made: Made::default(), found: Vec::new(), missed: Vec::new() };
    vec![
        report(Kind::Marker, None),
        report(Kind::Python, None),
        report(Kind::Nvtx, Some("another tool holds NVTX_INJECTION64_PATH".to_owned())),
    ]
}
