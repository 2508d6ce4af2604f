//! How much of a request lies inside its phases: 99 % and more, of each, or the workload does something
//! unseen between them. Yields shares, and the requests of a name that have too little of it; the caller
//! knows which phases there should be.

use guestscope::phase::{Phase, PhaseKind, Request};
use guestscope_contract::Account;

/// Least share of a request's time inside its phases.
pub(crate) const LEAST: f64 = 0.99;
/// How often a run may be disturbed: an interrupt between two phases of a short request is the machine's, and
/// a gap of the program's own would be there every time.
pub(crate) const ATTEMPTS: u32 = 5;
/// One in so many requests of a run may be disturbed. A program's own gap between phases would be in each.
const DISTURBED: usize = 10;

/// The share of a request that lies inside its outermost phases, without the time in which it waited for a
/// CPU: that can come anywhere. The queue lies before the request, so that neither has it.
pub(crate) fn share(request: &Request) -> f64 {
    let own = |phase: &Phase| {
        let others = phase.accounts.get(Account::Runq) + phase.accounts.get(Account::Throttled);
        phase.duration_ns - others
    };
    let root = request.root();
    let inside: u64 = request.phases.iter().filter(|phase| is_outermost(root, phase)).map(own).sum();
    inside as f64 / own(root).max(1) as f64
}

/// Whether its outermost phases follow each other without a gap, from its begin to its end, to the
/// nanosecond.
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

/// What to say of requests of a name when more than a tenth of them have too little inside their phases.
pub(crate) fn poor(name: &str, requests: &[&Request]) -> Option<String> {
    let mut shares: Vec<f64> = requests.iter().map(|request| share(request)).collect();
    shares.retain(|share| *share < LEAST);
    let is_poor = shares.len() > requests.len() / DISTURBED;
    is_poor
        .then(|| format!("{name}: of {} requests {} have less: {shares:.4?}", requests.len(), shares.len()))
}
