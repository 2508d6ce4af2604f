//! BPF programs for calls of functions, and the table of functions that they read: the source `function`
//! places probes with them.
//!
//! They are loaded only on request, since verifying them takes time. Files and symbols are handled by the
//! source.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use aya::{
    Ebpf, EbpfLoader, Pod,
    maps::{Array, HashMap, Map, MapData, MapError, Queue},
    programs::{Program, ProgramError, UProbe},
};
use guestscope_contract::{
    calls::{
        COOKIE_EVENT_SHIFT, COOKIE_GO, COOKIE_PLACE, FUNCTIONS, Function, GOROUTINES, Goroutine,
        PLACES_IN_PAGE,
    },
    helpers::Process,
};

pub use super::uprobe::Spot;
use super::{LoadError, options::LoadOptions, uprobe};

const BEGIN: &str = "function_begin";
const END: &str = "function_end";
const MOVES: &str = "goroutine_moves";

/// A function as a map's value.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Value(Function);
// SAFETY: a transparent wrapper of integers without padding.
unsafe impl Pod for Value {}

/// A goroutine as a map's key.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Key(Goroutine);
// SAFETY: a transparent wrapper of integers without padding.
unsafe impl Pod for Key {}

/// A process as a map's value.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct ProcessValue(Process);
// SAFETY: a transparent wrapper of integers without padding.
unsafe impl Pod for ProcessValue {}

/// Where a probe's open calls are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A thread, by the frames on its stack.
    Thread,
    /// A thread, between two places that no call returns to.
    Place,
    /// A goroutine.
    Goroutine,
    /// Nothing: the probes lie in Go's scheduler, each with an event.
    Scheduler,
}

/// The programs and their table.
pub struct FunctionProbes {
    begin: OwnedFd,
    end: OwnedFd,
    moves: OwnedFd,
    kind: u32,
    has_cookies: bool,
    tables: Mutex<Tables>,
}

struct Tables {
    functions: Array<MapData, Value>,
    /// Number of a function to 1 if no more of its calls are shown.
    closing: Array<MapData, u32>,
    /// For kernels without cookies: cookies by the probe's position in its page.
    at: Array<MapData, u64>,
    /// Places of the open calls by goroutine, and the places that are free.
    goroutines: HashMap<MapData, Key, u32>,
    free: Queue<MapData, u32>,
    /// Number of requests without a place.
    not_carried: Array<MapData, u64>,
    processes: Processes,
    /// Number of the next function.
    next: u32,
}

/// The processes that the kernel side tracks. Their numbers are those of the initial PID namespace.
struct Processes {
    numbers: HashMap<MapData, u32, u32>,
    by_number: Array<MapData, ProcessValue>,
}

impl Processes {
    /// Other users of the maps have them too.
    fn shared(ebpf: &Ebpf) -> Result<Self, LoadError> {
        let shared = |name| -> Result<MapData, LoadError> {
            let (Map::HashMap(map) | Map::Array(map)) = ebpf.map(name).ok_or(LoadError::Missing(name))?
            else {
                return Err(LoadError::Missing(name));
            };
            let own = map.fd().as_fd().try_clone_to_owned().map_err(MapError::from)?;
            Ok(MapData::from_fd(own)?)
        };
        Ok(Self {
            numbers: HashMap::try_from(Map::HashMap(shared("PROCESS_OF")?))?,
            by_number: Array::try_from(Map::Array(shared("PROCESSES")?))?,
        })
    }

    /// Whether a goroutine's process lives, and has not replaced its program.
    fn runs(&self, goroutine: Goroutine) -> bool {
        let number = self.numbers.get(&(goroutine.program as u32), 0);
        let process = number.and_then(|number| self.by_number.get(&number, 0));
        process.is_ok_and(|process| process.0.replaced as u32 == (goroutine.program >> 32) as u32)
    }
}

/// Why a probe could not be placed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Too many functions are probed.
    #[error("{} functions are probed already, and no more are", FUNCTIONS - 1)]
    TooMany,
    /// Two functions cannot be distinguished on an old kernel.
    #[error(
        "it begins or ends at the same place of its page as another one, which a kernel before Linux 5.15 cannot tell apart"
    )]
    Alike,
    /// A map is not as expected.
    #[error("the table of functions: {0}")]
    Map(#[from] MapError),
    /// The kernel refused it.
    #[error("the kernel refused the probe: {0}")]
    Kernel(#[from] io::Error),
}

/// Whether a program can identify its probe: 5.15 and later.
pub(super) fn has_cookies() -> bool {
    aya::features().bpf_cookie() && aya::features().bpf_perf_link()
}

/// Sizes the tables.
pub(super) fn size(loader: &mut EbpfLoader<'_>, options: &LoadOptions) {
    let sizes = [
        ("OPEN", GOROUTINES + 2 + options.slots),
        ("RUNS", options.slots + 1),
        ("GOROUTINE_CALLS", GOROUTINES),
        ("FREE_GOROUTINES", GOROUTINES),
        ("CARRIED", GOROUTINES + 1),
    ];
    for (map, most) in sizes {
        loader.map_max_entries(map, if options.functions { most } else { 1 });
    }
}

/// Has the kernel verify all programs in parallel.
pub(super) fn load(ebpf: &mut Ebpf) -> Result<FunctionProbes, LoadError> {
    let [mut begin, mut end, mut moves] = [None, None, None];
    for (name, program) in ebpf.programs_mut() {
        match (name, program) {
            (BEGIN, Program::UProbe(program)) => begin = Some(program),
            (END, Program::UProbe(program)) => end = Some(program),
            (MOVES, Program::UProbe(program)) => moves = Some(program),
            _ => {}
        }
    }
    let begin = begin.ok_or(LoadError::Missing(BEGIN))?;
    let end = end.ok_or(LoadError::Missing(END))?;
    let moves = moves.ok_or(LoadError::Missing(MOVES))?;
    thread::scope(|scope| {
        for program in [&mut *begin, &mut *moves] {
            let _ = thread::Builder::new().spawn_scoped(scope, || program.load());
        }
        let _ = end.load();
    });
    let [begin, end, moves] = [begin, end, moves].map(|program| loaded("uprobe/function", program));
    let kind = uprobe::kind().map_err(|error| LoadError::Program {
        hook: "uprobe/function",
        source: ProgramError::IOError(error),
    })?;
    let mut map = |name| ebpf.take_map(name).ok_or(LoadError::Missing(name));
    let mut tables = Tables {
        functions: Array::try_from(map("FUNCTIONS_BY_NUMBER")?)?,
        closing: Array::try_from(map("CLOSING")?)?,
        at: Array::try_from(map("FUNCTION_AT")?)?,
        goroutines: HashMap::try_from(map("GOROUTINE_CALLS")?)?,
        free: Queue::try_from(map("FREE_GOROUTINES")?)?,
        not_carried: Array::try_from(map("NOT_CARRIED")?)?,
        processes: Processes::shared(ebpf)?,
        next: 1,
    };
    for place in 1..=GOROUTINES {
        tables.free.push(place, 0)?;
    }
    let (has_cookies, tables) = (has_cookies(), Mutex::new(tables));
    Ok(FunctionProbes { begin: begin?, end: end?, moves: moves?, kind, has_cookies, tables })
}

/// The descriptor of a program; a refused one is loaded again to get the reason.
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

    /// Registers a function and returns its number.
    pub fn add(&self, function: Function) -> Result<u32, ProbeError> {
        let mut tables = self.tables();
        let number = tables.next;
        if number >= FUNCTIONS {
            return Err(ProbeError::TooMany);
        }
        tables.functions.set(number, Value(function), 0)?;
        tables.next += 1;
        Ok(number)
    }

    /// The counts of a function.
    pub fn counts(&self, number: u32) -> Option<Function> {
        self.tables().functions.get(&number, 0).ok().map(|value| value.0)
    }

    /// Stops showing calls of this function; open ones still end.
    pub fn close(&self, number: u32) {
        let _ = self.tables().closing.set(number, 1, 0);
    }

    /// Places a probe of a function in a file, where its calls begin or end.
    pub fn attach(
        &self,
        path: &str,
        spot: Spot,
        number: u32,
        is_end: bool,
        carrier: Carrier,
    ) -> Result<OwnedFd, ProbeError> {
        let of_calls = if is_end { &self.end } else { &self.begin };
        let (program, flags) = match carrier {
            Carrier::Scheduler => (&self.moves, spot.event << COOKIE_EVENT_SHIFT),
            Carrier::Goroutine => (of_calls, COOKIE_GO),
            Carrier::Place => (of_calls, COOKIE_PLACE),
            Carrier::Thread => (of_calls, 0),
        };
        let cookie = flags | u64::from(number);
        if !self.has_cookies {
            self.tables().remember(spot.offset, is_end, cookie)?;
        }
        Ok(uprobe::open(self.kind, path, spot, program.as_fd(), self.has_cookies.then_some(cookie))?)
    }

    /// Number of requests that do not follow their goroutine because too many others are followed.
    pub fn not_carried(&self) -> u64 {
        self.tables().not_carried.get(&0, 0).unwrap_or_default()
    }

    /// Frees the places of goroutines whose programs are gone.
    pub fn forget_goroutines(&self) {
        let mut tables = self.tables();
        let keys = tables.goroutines.keys().filter_map(Result::ok);
        let gone: Vec<Key> = keys.filter(|key| !tables.processes.runs(key.0)).collect();
        for key in gone {
            if let Ok(place) = tables.goroutines.get(&key, 0)
                && tables.goroutines.remove(&key).is_ok()
            {
                let _ = tables.free.push(place, 0);
            }
        }
    }

    /// Removes probes, all of them together.
    pub fn take_out(probes: Vec<OwnedFd>) {
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
