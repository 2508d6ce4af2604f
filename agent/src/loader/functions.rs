//! The programs for calls of functions, and the table of functions that they read: what the source `function`
//! puts probes in with.
//!
//! They are loaded when somebody asks for them alone, since the verifier takes its time for them. It knows no
//! files and no symbols.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use aya::{
    Ebpf, Pod,
    maps::{Array, MapData, MapError},
    programs::{Program, ProgramError, UProbe},
};
use guestscope_ebpf::calls::{COOKIE_PLACE, FUNCTIONS, Function, PLACES_IN_PAGE};

pub(crate) use super::uprobe::Spot;
use super::{LoadError, uprobe};

const BEGIN: &str = "function_begin";
const END: &str = "function_end";

/// A function as a map's value.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Value(Function);
// SAFETY: a transparent wrapper of integers without padding.
unsafe impl Pod for Value {}

/// The programs and their table.
pub struct FunctionProbes {
    begin: OwnedFd,
    end: OwnedFd,
    kind: u32,
    has_cookies: bool,
    tables: Mutex<Tables>,
}

struct Tables {
    functions: Array<MapData, Value>,
    /// Without cookies: by the place in its page.
    at: Array<MapData, u64>,
    /// Number of the next function.
    next: u32,
}

/// Why a probe could not be put in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    /// Too many are in place.
    #[error("{} functions are probed already, and no more are", FUNCTIONS - 1)]
    TooMany,
    /// Two functions cannot be told apart on an old kernel.
    #[error(
        "it begins or ends at the same place of its page as another one, which a kernel before Linux 5.15 cannot tell apart"
    )]
    Alike,
    /// A map is not as expected.
    #[error("the table of functions: {0}")]
    Map(#[from] MapError),
    /// The kernel did not take it.
    #[error("the kernel refused the probe: {0}")]
    Kernel(#[from] io::Error),
}

/// Whether a program learns which probe runs it: 5.15 and later.
pub(super) fn has_cookies() -> bool {
    aya::features().bpf_cookie() && aya::features().bpf_perf_link()
}

/// Has the kernel look at both programs at the same time.
pub(super) fn load(ebpf: &mut Ebpf) -> Result<FunctionProbes, LoadError> {
    let (mut begin, mut end) = (None, None);
    for (name, program) in ebpf.programs_mut() {
        match (name, program) {
            (BEGIN, Program::UProbe(program)) => begin = Some(program),
            (END, Program::UProbe(program)) => end = Some(program),
            _ => {}
        }
    }
    let begin = begin.ok_or(LoadError::Missing(BEGIN))?;
    let end = end.ok_or(LoadError::Missing(END))?;
    thread::scope(|scope| {
        let _ = thread::Builder::new().spawn_scoped(scope, || begin.load());
        let _ = end.load();
    });
    let begin = loaded("uprobe/function", begin)?;
    let end = loaded("uprobe/function", end)?;
    let kind = uprobe::kind().map_err(|error| LoadError::Program {
        hook: "uprobe/function",
        source: ProgramError::IOError(error),
    })?;
    let mut map = |name| ebpf.take_map(name).ok_or(LoadError::Missing(name));
    let functions = Array::try_from(map("FUNCTIONS_BY_NUMBER")?)?;
    let at = Array::try_from(map("FUNCTION_AT")?)?;
    let tables = Tables { functions, at, next: 1 };
    Ok(FunctionProbes { begin, end, kind, has_cookies: has_cookies(), tables: Mutex::new(tables) })
}

/// What was refused is loaded again, so that it is told why.
fn loaded(hook: &'static str, program: &mut UProbe) -> Result<OwnedFd, LoadError> {
    let mut load = || -> Result<OwnedFd, ProgramError> {
        if program.fd().is_err() {
            program.load()?;
        }
        Ok(program.fd()?.as_fd().try_clone_to_owned()?)
    };
    load().map_err(|source| LoadError::Program { hook, source })
}

impl FunctionProbes {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a function known: its number.
    pub(crate) fn add(&self, function: Function) -> Result<u32, ProbeError> {
        let mut tables = self.tables();
        let number = tables.next;
        if number >= FUNCTIONS {
            return Err(ProbeError::TooMany);
        }
        tables.functions.set(number, Value(function), 0)?;
        tables.next += 1;
        Ok(number)
    }

    /// What is counted of a function.
    pub(crate) fn counts(&self, number: u32) -> Option<Function> {
        self.tables().functions.get(&number, 0).ok().map(|value| value.0)
    }

    /// From here on no call of it is shown, but those that are open end.
    pub(crate) fn close(&self, number: u32) {
        let mut tables = self.tables();
        if let Ok(Value(function)) = tables.functions.get(&number, 0) {
            let _ = tables.functions.set(number, Value(Function { closing: 1, ..function }), 0);
        }
    }

    /// Puts a probe of a function into a file: where a call of it ends, or begins. A place is none that calls
    /// return to.
    pub(crate) fn attach(
        &self,
        path: &str,
        spot: Spot,
        number: u32,
        (is_end, is_place): (bool, bool),
    ) -> Result<OwnedFd, ProbeError> {
        let program = if is_end { self.end.as_fd() } else { self.begin.as_fd() };
        let cookie = if is_place { COOKIE_PLACE } else { 0 } | u64::from(number);
        if !self.has_cookies {
            self.tables().remember(spot.offset, is_end, cookie)?;
        }
        Ok(uprobe::open(self.kind, path, spot, program, self.has_cookies.then_some(cookie))?)
    }

    /// Takes probes out, all of them together.
    pub(crate) fn take_out(probes: Vec<OwnedFd>) {
        uprobe::take_out(probes);
    }
}

impl Tables {
    /// Files are mapped by pages, so a place in a page is the same in each process.
    fn remember(&mut self, offset: u64, is_end: bool, cookie: u64) -> Result<(), ProbeError> {
        let from = if is_end { PLACES_IN_PAGE } else { 0 };
        let at = from + (offset % u64::from(PLACES_IN_PAGE)) as u32;
        let before = self.at.get(&at, 0)?;
        if before != 0 && before != cookie {
            return Err(ProbeError::Alike);
        }
        Ok(self.at.set(at, cookie, 0)?)
    }
}
