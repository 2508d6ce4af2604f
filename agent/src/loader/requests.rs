//! What shall be watched for requests, told to the programs of family `socket`.

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, HashMap},
};
use guestscope_ebpf::connection::{CONNECTIONS_MOST, PATH_ROOM, PORT_WORDS, WATCHES, Watch};

use super::LoadError;
use crate::sources::socket::Watched;

/// Unix sockets are looked at.
static HAS_PATHS: u32 = 1;

/// A watch as a map's value.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct WatchValue(Watch);
// SAFETY: a transparent wrapper of integers without padding.
unsafe impl aya::Pod for WatchValue {}

/// Sizes the maps: they take memory only where they are used.
pub(super) fn size(loader: &mut EbpfLoader<'_>, requests: &[Watched]) {
    let is_wanted = !requests.is_empty();
    let sizes =
        [("CONNECTIONS", CONNECTIONS_MOST), ("PORTS", PORT_WORDS), ("PATHS", WATCHES), ("WATCHED", WATCHES)];
    for (map, size) in sizes {
        loader.map_max_entries(map, if is_wanted { size } else { 1 });
    }
    if requests.iter().any(|watched| matches!(watched, Watched::Path(_))) {
        loader.override_global("HAS_PATHS", &HAS_PATHS, true);
    }
}

/// Fills the maps.
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
