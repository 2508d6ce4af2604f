//! A function with its probes, and their supervision: the rate of calls, and changes of the file.

use std::{
    fmt,
    fs::File,
    os::fd::{AsRawFd as _, OwnedFd},
    path::Path,
    time::{Duration, Instant},
};

use guestscope_contract::{NAME_BYTES, Source, calls::Function};

use super::{error::FunctionError, place::Place, state::State, wanted::Wanted};
use crate::{
    descriptors,
    loader::{
        FunctionProbes,
        functions::{Carrier, Spot},
    },
    untrusted::{Shown as _, Untrusted},
};

/// Calls per second above which a function's probes are taken out: each call costs the program two
/// exceptions, whether it is shown or not. In a virtual machine, where single-stepping an instruction that
/// the kernel does not emulate leaves the guest, a call was 12 to 22 us (6.18): a third of a CPU at this
/// rate.
const TOO_OFTEN: f64 = 15_000.0;
/// Consecutive looks above that rate.
const LOOKS: u32 = 2;
/// Least time between two looks.
const BETWEEN: Duration = Duration::from_millis(500);
/// Time that open calls get to end before the probes go.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// A file that probes are put into.
#[derive(Clone, Copy)]
pub(super) struct Probed<'a> {
    /// Opened with `O_PATH`.
    pub(super) found: &'a File,
    /// Where a program has mapped it.
    pub(super) path: &'a Path,
    pub(super) state: State,
}

/// A function with its probes.
pub(super) struct Placed {
    /// Index of its phase.
    pub(super) wanted: usize,
    number: u32,
    name: Untrusted,
    phase: Untrusted,
    file: Untrusted,
    pub(super) on: Carrier,
    pub(super) state: State,
    watch: File,
    /// Probes of the start first.
    probes: Vec<OwnedFd>,
    /// Time at which the probes go.
    closing: Option<Instant>,
    looked: Instant,
    calls: u64,
    often: u32,
}

impl Placed {
    /// Puts the probes of the phase with this index in: those of the end first, so that every call whose
    /// start is seen has a visible end.
    pub(super) fn put(
        probes: &FunctionProbes,
        wanted: Option<&Wanted>,
        place: Place,
        index: usize,
        Probed { found, path, state }: Probed<'_>,
    ) -> Result<Self, FunctionError> {
        let probed = format!("/proc/self/fd/{}", found.as_raw_fd());
        let watch = found.try_clone()?;
        let phase = wanted.map_or("", |wanted| &wanted.name);
        let mut name = [0; NAME_BYTES];
        name[..phase.len()].copy_from_slice(phase.as_bytes());
        let number = probes.add(Function {
            name,
            name_bytes: phase.len() as u32,
            source: if place.on == Carrier::Place { Source::Usdt } else { Source::Function } as u32,
            argument: place.argument,
            is_mark: u64::from(place.ends.is_empty()),
            window_ns: 0,
            in_window: 0,
            calls: 0,
            thinned: 0,
            too_deep: 0,
            lost: 0,
        })?;
        let put = |spot: &Spot, is_end| -> Result<OwnedFd, FunctionError> {
            if !descriptors::are_free() {
                return Err(FunctionError::Descriptors);
            }
            probes.attach(&probed, *spot, number, is_end, place.on).map_err(FunctionError::Refused)
        };
        let put_all = |spots: &[Spot], is_end| -> Result<Vec<OwnedFd>, FunctionError> {
            spots.iter().map(|spot| put(spot, is_end)).collect()
        };
        let ends = put_all(&place.ends, true)?;
        let mut all = put_all(&place.begins, false)?;
        all.extend(ends);
        Ok(Self {
            wanted: index,
            number,
            name: place.name,
            phase: Untrusted::from(phase),
            file: path.shown(),
            on: place.on,
            state,
            watch,
            probes: all,
            closing: None,
            looked: Instant::now(),
            calls: 0,
            often: 0,
        })
    }

    /// Looks at the file and the rate of calls; returns a message if there is something to report.
    pub(super) fn look(&mut self, probes: &FunctionProbes) -> Option<String> {
        if self.closing.is_some() || self.probes.is_empty() {
            return None;
        }
        if self.watch.metadata().is_ok_and(|now| State::of(&now) != self.state) {
            probes.close(self.number);
            // A program that maps it from now on may have another instruction there.
            self.closing = Some(Instant::now());
            return Some(format!(
                "{}`{}` has been changed: its probes are taken out",
                self.whose(),
                self.file
            ));
        }
        let elapsed = self.looked.elapsed();
        if elapsed < BETWEEN {
            return None;
        }
        let calls = probes.counts(self.number)?.calls;
        let per_second = calls.wrapping_sub(self.calls) as f64 / elapsed.as_secs_f64();
        (self.calls, self.looked) = (calls, Instant::now());
        self.often = if per_second > TOO_OFTEN { self.often + 1 } else { 0 };
        if self.often < LOOKS {
            return None;
        }
        self.close(probes);
        let does = if self.on == Carrier::Scheduler { "are switched between" } else { "was called" };
        Some(format!(
            "{}{} in `{}` {does} {per_second:.0} times a second, which costs the program more than it tells: \
             its probes are taken out",
            self.whose(),
            self.name,
            self.file
        ))
    }

    /// Beginning of its messages.
    fn whose(&self) -> String {
        if self.on == Carrier::Scheduler { String::new() } else { format!("phase {}: ", self.phase) }
    }

    /// Whether it follows the goroutines of this file.
    pub(super) fn follows(&self, state: State) -> bool {
        self.on == Carrier::Scheduler && self.state == state
    }

    /// Shows no more calls from here on; the probes go once open calls had time to end.
    pub(super) fn close(&mut self, probes: &FunctionProbes) {
        probes.close(self.number);
        self.closing.get_or_insert(Instant::now() + LAST_CALLS);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Probes that are due to go.
    pub(super) fn due(&mut self) -> Vec<OwnedFd> {
        let is_due = self.closing.is_some_and(|when| when <= Instant::now());
        if is_due { self.take_probes() } else { Vec::new() }
    }

    pub(super) fn take_probes(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.probes)
    }

    /// Counts of calls: all, too many to be shown, too deep to be shown, and without a return.
    pub(super) fn counts(&self, probes: &FunctionProbes) -> [u64; 4] {
        let counted = probes.counts(self.number);
        counted.map_or([0; 4], |it| [it.calls, it.thinned, it.too_deep, it.lost])
    }
}

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.name, self.file)
    }
}
