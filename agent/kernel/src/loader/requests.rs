//! Writes the watched ports and paths into the maps of family `socket`.

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, HashMap},
};
use guestscope_contract::connection::{CONNECTIONS_MOST, PATH_ROOM, PORT_WORDS, WATCHES, Watch};

use super::{LoadError, globals::Globals, options::LoadOptions};
use crate::{
    health::{Outcome, Verdict},
    probes::{Hook, socket},
    watched::Watched,
};

/// A kernel before 6.3 lacks nothing if no requests by name were asked for: a marked request then begins
/// where its handler does.
pub(super) fn judged(options: &LoadOptions, hook: &Hook, mut verdict: Verdict) -> Verdict {
    let is_asked_for = !options.requests.is_empty() || !socket::HOOKS.contains(hook);
    if !is_asked_for && verdict.outcome == Outcome::Unsupported {
        verdict.outcome = Outcome::Off;
    }
    verdict
}

/// Whether connections are followed at all.
pub(super) fn are_wanted(options: &LoadOptions) -> bool {
    options.arrivals || !options.requests.is_empty()
}

/// A watch as a map's value.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct WatchValue(Watch);
// SAFETY: a transparent wrapper of integers without padding.
unsafe impl aya::Pod for WatchValue {}

/// Sizes the maps: they take memory only where they are used.
pub(super) fn size(loader: &mut EbpfLoader<'_>, options: &LoadOptions) {
    let is_wanted = are_wanted(options);
    let sizes =
        [("CONNECTIONS", CONNECTIONS_MOST), ("PORTS", PORT_WORDS), ("PATHS", WATCHES), ("WATCHED", WATCHES)];
    for (map, size) in sizes {
        loader.map_max_entries(map, if is_wanted { size } else { 1 });
    }
    loader.map_max_entries("PEERS", if options.arrivals { CONNECTIONS_MOST } else { 1 });
    loader.map_max_entries("TAKEN", if options.arrivals { options.slots + 1 } else { 1 });
}

/// Whether requests by connections are wanted, whether Unix sockets are looked at, and whether arrivals are
/// noted for requests that the program marks.
pub(super) fn tell(globals: &mut Globals, options: &LoadOptions) {
    let has_paths = options.requests.iter().any(|watched| matches!(watched, Watched::Path(_)));
    globals.set("HAS_ARRIVALS", u32::from(options.arrivals));
    globals.set("HAS_REQUESTS", u32::from(!options.requests.is_empty()));
    globals.set("HAS_PATHS", u32::from(has_paths));
}

/// Fills the maps of ports and paths.
pub(super) fn fill(ebpf: &mut Ebpf, requests: &[Watched]) -> Result<(), LoadError> {
    for (number, watched) in (1_u8..).zip(requests) {
        let (name, length) = watched.name_bytes();
        let map = ebpf.map_mut("WATCHED").ok_or(LoadError::Missing("WATCHED"))?;
        let mut names: Array<_, WatchValue> = Array::try_from(map)?;
        names.set(u32::from(number), WatchValue(Watch { name, length }), 0)?;
        match watched {
            Watched::Port(port) => {
                let map = ebpf.map_mut("PORTS").ok_or(LoadError::Missing("PORTS"))?;
                let mut ports: Array<_, [u8; 8]> = Array::try_from(map)?;
                let word = u32::from(port >> 3);
                let mut eight = ports.get(&word, 0)?;
                eight[usize::from(port & 7)] = number;
                ports.set(word, eight, 0)?;
            }
            Watched::Path(_) => {
                let map = ebpf.map_mut("PATHS").ok_or(LoadError::Missing("PATHS"))?;
                let mut paths: HashMap<_, [u8; PATH_ROOM], u32> = HashMap::try_from(map)?;
                if let Some(path) = watched.path_bytes() {
                    paths.insert(path, u32::from(number), 0)?;
                }
            }
        }
    }
    Ok(())
}
