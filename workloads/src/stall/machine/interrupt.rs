//! Ctrl-C and SIGTERM as a flag that is checked between requests, so that a stopped run still removes its
//! cgroups. A second signal ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use crate::stall::error::StallError;

static STOPPED: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_: libc::c_int) {
    STOPPED.store(true, Ordering::Relaxed);
}

/// Makes the first signal set the flag.
pub fn listen() -> Result<(), StallError> {
    let flags = SaFlags::SA_RESTART | SaFlags::SA_RESETHAND;
    let action = SigAction::new(SigHandler::Handler(stop), flags, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // SAFETY: the handler stores to an atomic and does nothing else.
        unsafe { sigaction(signal, &action) }.map_err(StallError::call("sigaction"))?;
    }
    Ok(())
}

/// Whether a signal has come.
pub fn stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}
