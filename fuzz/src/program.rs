//! As much of the agent as reads programs' files, for the targets `elf` and `unwind`. Its sources are
//! compiled in: the crates around them carry BPF programs, which take a compiler of their own.

#[path = "../../agent/sources/src/function/code.rs"]
mod code;
#[path = "../../agent/sources/src/function/error.rs"]
mod error;
#[path = "../../agent/sources/src/function/found.rs"]
mod found;
#[path = "../../agent/sources/src/function/golang.rs"]
mod golang;
#[path = "../../agent/sources/src/function/names.rs"]
mod names;
#[path = "../../agent/sources/src/function/pclntab.rs"]
mod pclntab;
#[path = "../../agent/sources/src/function/place.rs"]
mod place;
#[path = "../../agent/sources/src/function/registers.rs"]
mod registers;
#[path = "../../agent/sources/src/function/scheduler.rs"]
mod scheduler;
#[path = "../../agent/sources/src/function/soname.rs"]
mod soname;
#[path = "../../agent/sources/src/function/symbols.rs"]
mod symbols;
#[path = "../../agent/sources/src/function/table.rs"]
mod table;
#[path = "../../agent/sources/src/function/unwind.rs"]
mod unwind;
#[path = "../../agent/sources/src/function/usdt.rs"]
mod usdt;

use std::{fs::File, os::unix::fs::FileExt as _, path::Path, sync::OnceLock};

use self::{place::Place, scheduler::scheduler, unwind::Unwind};
use crate::{folder, probes::phase};

/// What is looked for in a file.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// The marker's probe point.
    Marker,
    /// Functions by a pattern or a way through tables.
    Functions(&'static str),
    /// What lies between two USDT probes.
    Probes,
    /// The library's own name.
    Name,
    /// Places in Go's scheduler.
    Scheduler,
}

/// By the first byte of an input.
pub const ASKED: [Asked; 7] = [
    Asked::Marker,
    Asked::Functions("base"),
    Asked::Functions("*a*"),
    Asked::Functions("base()[0]"),
    Asked::Probes,
    Asked::Name,
    Asked::Scheduler,
];

/// Looks for one of these in a file with these bytes; yields how many places of probes there are.
///
/// # Panics
/// A probe would be placed outside the file.
pub fn look(asked: &Asked, bytes: &[u8]) -> usize {
    let file = written(bytes);
    let places = match asked {
        Asked::Marker => {
            let copy = file.try_clone().expect("there are descriptors");
            return usize::from(matches!(phase::find_in(copy, Path::new("program")), Ok(Some(_))));
        }
        Asked::Name => return usize::from(soname::has_name(file, "libp.so.1")),
        Asked::Probes => return usdt::find(file, "p", "a", None, Some(1)).map_or(0, |places| places.len()),
        Asked::Scheduler if !golang::is_program(file) => return 0,
        Asked::Scheduler => return scheduler(file).map_or(0, |place| place.begins.len()),
        Asked::Functions(symbol) => Place::of_functions(file, symbol, Some(1)),
    };
    // Code was read where probes go.
    let places = places.map(|(places, _)| places).unwrap_or_default();
    for place in &places {
        for spot in place.begins.iter().chain(&place.ends) {
            assert!(spot.offset <= bytes.len() as u64, "{:?} has a probe behind the file's end", place.name);
        }
    }
    places.len()
}

/// Looks for the function around an address in a table that lies at `table_at`.
///
/// # Panics
/// A function would begin behind the address.
pub fn begin_in(table_at: u64, wanted: u64, table: &[u8]) {
    let table = [&unwind::HEADER[..], table].concat();
    let Some(unwind) = Unwind::parse(table_at, table) else { return };
    if let Some((begin, _)) = unwind.at_or_before(wanted) {
        assert!(begin <= wanted, "{begin:x} is said to be at or before {wanted:x}");
        let _ = unwind.begins(begin);
    }
}

/// The file of this process, with these bytes.
fn written(bytes: &[u8]) -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let path = folder().join("program");
        File::options().read(true).write(true).create(true).truncate(true).open(path).expect("it can be made")
    });
    file.set_len(0).and_then(|()| file.write_all_at(bytes, 0)).expect("there is room for an input");
    file
}
