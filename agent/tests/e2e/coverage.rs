//! The share of a request that lies inside its phases: at least 99 % of each, or the workload does unmarked
//! work between them. Yields shares, and the requests of a name that have less; the caller knows which phases
//! there should be.

use guestscope::phase::{Phase, PhaseKind, Request};
use guestscope_contract::Account;

/// Least share of a request's time inside its phases.
pub(crate) const LEAST: f64 = 0.99;
/// Attempts. An interrupt between two phases of a short request disturbs one run; a gap in the program would
/// be there every time.
pub(crate) const ATTEMPTS: u32 = 5;
/// One in this many requests of a run may be disturbed. A gap in the program would be in each of them.
const DISTURBED: usize = 10;

/// The share of a request that lies inside its outermost phases. Time that it waited for a CPU does not
/// count, since that can happen anywhere. The queue lies before the request and belongs to neither.
pub(crate) fn share(request: &Request) -> f64 {
    let own = |phase: &Phase| {
        let others = phase.accounts.get(Account::Runq) + phase.accounts.get(Account::Throttled);
        phase.duration_ns - others
    };
    let root = request.root();
    let inside: u64 = request.phases.iter().filter(|phase| is_outermost(root, phase)).map(own).sum();
    inside as f64 / own(root).max(1) as f64
}

/// Whether its outermost phases follow each other without a gap, from start to end, to the nanosecond.
pub(crate) fn is_whole(request: &Request) -> bool {
    let root = request.root();
    let mut at_ns = root.start_ns;
    for phase in request.phases.iter().filter(|phase| is_outermost(root, phase)) {
        if phase.start_ns != at_ns {
            return false;
        }
        at_ns += phase.duration_ns;
    }
    at_ns == root.start_ns + root.duration_ns
}

fn is_outermost(root: &Phase, phase: &Phase) -> bool {
    phase.parent == Some(root.id) && phase.kind == PhaseKind::Phase
}

/// The message if more than a tenth of the requests of a name have too little time inside their phases.
pub(crate) fn poor(name: &str, requests: &[&Request]) -> Option<String> {
    let mut shares: Vec<f64> = requests.iter().map(|request| share(request)).collect();
    shares.retain(|share| *share < LEAST);
    let is_poor = shares.len() > requests.len() / DISTURBED;
    is_poor
        .then(|| format!("{name}: of {} requests {} have less: {shares:.4?}", requests.len(), shares.len()))
}
