//! Source `driver`: which threads are inside functions of a graphics processor's driver.
//!
//! It takes files as programs map them, knows drivers' libraries by their names, finds their exported
//! functions, and has the kernel put probes there. It makes no phases: time inside becomes account `gpu`, and
//! the part `cpu.gpu` of account `cpu`.

mod table;

use std::{
    collections::HashMap,
    fs::{File, Metadata, OpenOptions},
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    },
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use guestscope_contract::driver::Does;

use self::table::Driver;
use crate::{
    descriptors,
    function::{FOLDERS, Named, SymbolError, cheap_entry, exported},
    guarded,
    loader::DriverProbes,
    untrusted::Shown as _,
};

/// Folders of drivers beside those of libraries in general: ROCm, WSL, NixOS, NVIDIA's packages.
const MORE_FOLDERS: [&str; 4] =
    ["/opt/rocm/lib", "/usr/lib/wsl/lib", "/run/opengl-driver/lib", "/usr/local/nvidia/lib64"];
/// Most files that are looked at in all: a program may make any number with such a name.
const MOST_FILES: usize = 64;
/// Most probes in all files together. libcuda has two for each of some 40 functions. Removing one takes the
/// kernel 0.1 s, also when it ends a killed agent.
const MOST_PROBES: usize = 512;

/// Why a library has no probes, or not all of them.
#[derive(Debug, thiserror::Error)]
enum DriverError {
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error("{0}")]
    Symbols(#[from] SymbolError),
    #[error("exports none of the functions by which {0} waits")]
    NoFunction(&'static str),
    #[error("the kernel refused a probe: {0}")]
    Refused(std::io::Error),
    #[error("no more files may be open")]
    Descriptors,
    #[error("{MOST_PROBES} probes are in drivers already, and no more are placed")]
    TooManyProbes,
    #[error("{MOST_FILES} files with such names were looked at, and no more are")]
    TooManyFiles,
}

/// A file's device and inode: its own as long as it is mapped, whatever becomes of its name and its times.
type Number = (u64, u64);

#[derive(Default)]
struct Files {
    /// Files that were looked at, and their probes.
    probes: HashMap<Number, Vec<OwnedFd>>,
    /// It was told that there are too many files.
    is_full: bool,
}

impl Files {
    fn placed(&self) -> usize {
        self.probes.values().map(Vec::len).sum()
    }
}

/// The probes in drivers' files.
pub struct Drivers {
    programs: DriverProbes,
    files: Mutex<Files>,
}

impl Drivers {
    /// No file has probes yet.
    pub fn new(programs: DriverProbes) -> Self {
        Self { programs, files: Mutex::default() }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a file of this path may be a driver's, and is worth opening.
    pub fn is_wanted(&self, path: &Path) -> bool {
        table::all().iter().any(|driver| driver.is_at(path))
    }

    /// Puts probes into drivers in the usual folders, before a program maps them: so that the first call is
    /// seen. What cannot be probed there (a library for another processor, say) is told if a program maps it.
    pub fn put_ahead(&self) {
        for folder in FOLDERS.into_iter().chain(MORE_FOLDERS) {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if !self.is_wanted(&path) {
                    continue;
                }
                let mut to_look = OpenOptions::new();
                let Ok(file) = to_look.read(true).custom_flags(libc::O_PATH).open(&path) else { continue };
                if self.attach(&file, &path).is_some()
                    && let Ok(metadata) = file.metadata()
                {
                    self.files().probes.remove(&number(&metadata));
                }
            }
        }
    }

    /// Puts probes into a file that a program has mapped under this path, if it is a driver's. `found` was
    /// opened with `O_PATH`: that very file is read and probed. Returns a problem, if there is one.
    pub fn attach(&self, found: &File, path: &Path) -> Option<String> {
        let metadata = found.metadata().ok().filter(Metadata::is_file)?;
        let driver = table::all().iter().find(|driver| driver.is_at(path))?;
        let number = number(&metadata);
        let placed = {
            let mut files = self.files();
            if files.probes.contains_key(&number) {
                return None;
            }
            if files.probes.len() >= MOST_FILES {
                let is_new = !std::mem::replace(&mut files.is_full, true);
                return is_new.then(|| problem(path, &DriverError::TooManyFiles));
            }
            // Another thread does not do the same meanwhile; what failed is not tried again.
            files.probes.insert(number, Vec::new());
            files.placed()
        };
        let (probes, error) = self.put(found, driver, MOST_PROBES.saturating_sub(placed));
        self.files().probes.insert(number, probes);
        error.map(|error| problem(path, &error))
    }

    /// Puts at most so many probes into a file. What is placed before an error stays.
    fn put(&self, found: &File, driver: &'static Driver, most: usize) -> (Vec<OwnedFd>, Option<DriverError>) {
        let mut probes = Vec::new();
        let mut put = || -> Result<(), DriverError> {
            let file = guarded::open_found(found)?;
            let mut places = HashMap::new();
            exported(&file, |name, offset| {
                if let Some(does) = driver.does(name) {
                    let has_bytes = matches!(does, Does::CopyIn | Does::CopyOut);
                    places.insert(cheap_entry(&file, offset, has_bytes), does);
                }
            })?;
            if places.is_empty() {
                return Err(DriverError::NoFunction(&driver.name));
            }
            let path = format!("/proc/self/fd/{}", found.as_raw_fd());
            for (offset, does) in places {
                if probes.len() + 2 > most {
                    return Err(DriverError::TooManyProbes);
                }
                if !descriptors::are_free() {
                    return Err(DriverError::Descriptors);
                }
                probes.extend(self.programs.attach(&path, offset, does).map_err(DriverError::Refused)?);
            }
            Ok(())
        };
        let error = put().err();
        (probes, error)
    }
}

fn number(metadata: &Metadata) -> Number {
    (metadata.dev(), metadata.ino())
}

fn problem(path: &Path, error: &DriverError) -> String {
    format!("waits for the GPU are not all known: `{}` {error}", path.shown())
}

impl Drop for Drivers {
    fn drop(&mut self) {
        let probes = std::mem::take(&mut self.files().probes).into_values().flatten().collect();
        DriverProbes::take_out(probes);
    }
}

impl Driver {
    /// Whether a file of this path is its library, of any version.
    fn is_at(&self, path: &Path) -> bool {
        Named::of(&self.library, path) == Named::Yes
    }
}
