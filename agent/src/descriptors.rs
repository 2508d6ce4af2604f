//! How many files this process may have open at once. The usual limit, 1,024, is there for programs that call select(2), which the
//! agent does not; a program that it starts may, and gets the limit back that this process had.

use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Two for each sampled thread, of which there are 4,096 at most unless somebody asks for more, and some for each map, hook and CPU.
const WANTED: u64 = 16_384;

static INHERITED: OnceLock<Limit> = OnceLock::new();

/// Soft and hard.
#[derive(Clone, Copy)]
pub(crate) struct Limit(u64, u64);

/// Raises the soft limit as far as everybody may, and keeps in mind what it was. Where it stays too low, whatever opens a file
/// says so.
pub(crate) fn raise() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let wanted = WANTED.min(hard);
    if soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() {
        // Whoever raised it first saw the inherited one.
        let _ = INHERITED.set(Limit(soft, hard));
    }
}

/// What this process began with; none if that is what it has.
pub(crate) fn inherited() -> Option<Limit> {
    INHERITED.get().copied()
}

impl Limit {
    /// Makes it this process's.
    pub(crate) fn set(self) -> nix::Result<()> {
        setrlimit(Resource::RLIMIT_NOFILE, self.0, self.1)
    }
}
