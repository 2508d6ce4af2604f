//! Data sources of this fidelity, as verdicts beside those of the kernel side's hooks, and their explanation
//! for people.
//!
//! It checks once whether each source exists. Missing ones stand in every report.

use super::refusal::Refusal;
use crate::{
    health::{Outcome, Verdict},
    loader::LoadError,
};

/// Hook name of the whole kernel side.
const BPF: &str = "bpf";
/// Hook name of the shared ring that carries edges.
pub const RING: &str = "shm/edges";

/// Verdicts on the missing kernel side and on the sources that exist.
pub fn verdicts(refusal: &Refusal) -> Vec<Verdict> {
    let (outcome, consequence, remedy) = match refusal {
        Refusal::Unwanted => (Outcome::Off, "the kernel side was not asked for".to_owned(), None),
        Refusal::Refused(error) => (Outcome::Unsupported, error.to_string(), Some(REMEDY.to_owned())),
    };
    let bpf = Verdict { hook: BPF.to_owned(), outcome, consequence, remedy };
    [bpf].into_iter().chain(sources()).collect()
}

/// Verdicts on the sources that work without the kernel side.
pub fn sources() -> Vec<Verdict> {
    let has_run_delay = std::fs::exists("/proc/thread-self/schedstat").unwrap_or(false);
    let source = |hook: &str, is_there: bool, purpose: &str, without: &str| Verdict {
        hook: hook.to_owned(),
        outcome: if is_there { Outcome::Ok } else { Outcome::Unsupported },
        consequence: if is_there { purpose } else { without }.to_owned(),
        remedy: None,
    };
    vec![
        source(RING, true, "edges of marked phases, with the account cpu, switches and faults", ""),
        source(
            "proc/schedstat",
            has_run_delay,
            "the account runq",
            "runq is part of other: the kernel counts no waits for a CPU (CONFIG_SCHED_INFO)",
        ),
    ]
}

/// How to get BPF permitted.
const REMEDY: &str =
    "root, or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN, and no filter of system calls that refuses bpf(2)";

/// Text for the start of a run: the fidelity, its reason, and how to get more.
pub fn explanation(error: &LoadError) -> String {
    format!(
        "BPF is refused here ({error}): phases by what their threads tell, as cpu, runq and other\n\
         hint: for all accounts, {REMEDY}\n"
    )
}
