//! Tests of the pairing: recorded events as text in, what it makes of them as aligned text out.
//!
//! [`script`] reads the events and keeps the ledgers that the kernel would have kept; [`print`] writes the
//! outputs. The properties draw events instead. No test here touches a kernel.

mod address_space;
mod attached;
mod beside;
mod bounds;
mod connections;
mod contract;
mod garbage;
mod goroutines;
mod held_up;
mod helpers;
mod ios;
mod lives;
mod losses;
mod model;
mod print;
mod properties;
mod requests;
mod script;
mod sources;
mod stops;
mod thinned;
mod traces;
mod unfinished;
mod waits;

use super::{Phase, PhaseKind, pairing::Output};

/// Plays a script and prints what came out.
fn play(text: &str) -> String {
    let mut world = script::World::default();
    let outputs = world.play(text);
    print::outputs(&outputs, &world.pairing)
}

/// Every phase among the outputs.
fn phases(outputs: &[Output]) -> impl Iterator<Item = &Phase> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Request(request) => Some(&request.phases),
            Output::Thread(_) | Output::Mark(_) | Output::Wait(_) | Output::GpuWork(_) | Output::Pause(_) => {
                None
            }
        })
        .flatten()
}

/// Invariants of any outputs: sums, one root per request, ids that the wire format allows.
fn check_invariants(outputs: &[Output]) {
    let mut ids = std::collections::HashSet::new();
    for phase in phases(outputs) {
        assert!(phase.id != 0 && ids.insert(phase.id), "id used twice: {phase:?}");
        assert_ne!(phase.trace.trace_id, [0; 16], "{phase:?}");
        assert_ne!(phase.trace.span_id, [0; 8], "{phase:?}");
        assert_ne!(phase.trace.parent_span_id, Some([0; 8]), "{phase:?}");
        let on_threads: u128 = phase.accounts.0.iter().map(|&ns| u128::from(ns)).sum();
        if phase.kind == PhaseKind::Queue {
            assert_eq!((on_threads, phase.suspended_ns), (0, 0), "{phase:?}");
        } else {
            assert_eq!(
                on_threads + u128::from(phase.suspended_ns),
                u128::from(phase.duration_ns),
                "{phase:?}"
            );
        }
    }
    for output in outputs {
        if let Output::Wait(wait) = output {
            assert!(wait.blocked_ns + wait.throttled_ns <= wait.duration_ns, "{wait:?}");
        }
        let Output::Request(request) = output else { continue };
        let root = request.root();
        assert!(matches!(root.kind, PhaseKind::Request | PhaseKind::Process) && root.parent.is_none());
        for phase in &request.phases {
            assert_eq!(phase.root, root.id);
            assert_eq!(phase.trace.trace_id, root.trace.trace_id);
            assert_eq!(phase.parent.is_none(), phase.id == root.id, "one root: {phase:?}");
            let parent = phase.parent.map(|id| request.phases.iter().find(|phase| phase.id == id));
            assert!(parent.is_none_or(|parent| parent.is_some()), "its parent is in the request: {phase:?}");
        }
    }
}
