//! The marker in programs that run: which of the files that a process has mapped carry it.
//!
//! It is handed a process's number and the loaded programs, and yields what went wrong, file by file. Nothing that the
//! process says is believed.

use std::{
    io,
    path::{Path, PathBuf},
};

use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};

use crate::loader::Loaded;

/// Attaches the probe to every file with the marker that a process has mapped to execute. What went wrong, by file.
pub fn attach_markers(pid: i32, loaded: &mut Loaded) -> procfs::ProcResult<Vec<String>> {
    let mut errors = Vec::new();
    let maps = Process::new(pid)?.maps()?;
    if maps.iter().next().is_none() {
        // The kernel shows nothing to whom it does not allow to look.
        errors.push(format!("the maps of process {pid} may not be read"));
    }
    for map in maps {
        let MMapPath::Path(path) = &map.pathname else { continue };
        if !map.perms.contains(MMPermissions::EXECUTE) {
            continue;
        }
        let relative = path.strip_prefix("/").unwrap_or(path);
        match attach(pid, &map, relative, loaded) {
            Ok(_) => {}
            // Deleted or replaced since it was mapped.
            Err(error) if is(&error, io::ErrorKind::NotFound) => {}
            Err(error) => errors.push(format!("attaching to `{}`: {error:#}", name(relative))),
        }
    }
    Ok(errors)
}

/// By the mapping itself, which leads to the very file, deleted or in whatever mount namespace; the kernel allows it to root
/// of the initial user namespace. Else by the process's root, under the path that it knows the file by.
fn attach(pid: i32, map: &MemoryMap, relative: &Path, loaded: &mut Loaded) -> Result<bool, anyhow::Error> {
    let (start, end) = map.address;
    let by_mapping = loaded.attach_marker(&PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}")));
    match by_mapping {
        Err(error) if is(&error, io::ErrorKind::NotFound) || is(&error, io::ErrorKind::PermissionDenied) => {
            loaded.attach_marker(&PathBuf::from(format!("/proc/{pid}/root")).join(relative))
        }
        attached => attached,
    }
}

fn is(error: &anyhow::Error, kind: io::ErrorKind) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == kind)
}

/// A path that somebody else chose, for people: one line without control characters.
fn name(path: &Path) -> String {
    path.to_string_lossy().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// How much a process has mapped to execute, in kB: of its program, of libraries. It changes when a library is loaded, and
/// costs a tenth of reading what is mapped.
pub fn mapped_code(pid: u32) -> Option<(u64, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kibibytes = |field: &str| -> Option<u64> {
        let value = status.lines().find_map(|line| line.strip_prefix(field))?;
        value.trim().strip_suffix(" kB")?.trim().parse().ok()
    };
    Some((kibibytes("VmExe:")?, kibibytes("VmLib:")?))
}
