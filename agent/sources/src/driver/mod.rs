//! Source `driver`: which threads are inside functions of a graphics processor's driver.
//!
//! It takes files as programs map them, knows drivers' libraries by their names, finds their exported
//! functions, and has the kernel put probes there. It makes no phases: time inside becomes account `gpu`, and
//! the part `cpu.gpu` of account `cpu`.

mod table;

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::OpenOptionsExt as _,
    },
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use self::table::Driver;
use crate::{
    descriptors,
    function::{FOLDERS, Named, State, SymbolError, exported},
    guarded,
    loader::DriverProbes,
    untrusted::Shown as _,
};

/// Most files of drivers with probes: a program may make any number with one name.
const MOST_FILES: usize = 16;
/// Most functions of a file with probes: libcuda 535 has 63 by the table.
const MOST_FUNCTIONS: usize = 160;

/// Why a library has no probes.
#[derive(Debug, thiserror::Error)]
enum DriverError {
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error("{0}")]
    Symbols(#[from] SymbolError),
    #[error("exports none of the functions by which {0} waits")]
    NoFunction(&'static str),
    #[error("the kernel refused the probe: {0}")]
    Refused(std::io::Error),
    #[error("no more files may be open")]
    Descriptors,
}

/// The probes, by the state of their file.
pub struct Drivers {
    programs: DriverProbes,
    files: Mutex<HashMap<State, Vec<OwnedFd>>>,
}

impl Drivers {
    /// No file has probes yet.
    pub fn new(programs: DriverProbes) -> Self {
        Self { programs, files: Mutex::default() }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<State, Vec<OwnedFd>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a file of this path may be a driver's, and is worth opening.
    pub fn is_wanted(&self, path: &Path) -> bool {
        table::all().iter().any(|driver| driver.is_at(path))
    }

    /// Puts probes into drivers in the usual folders, before a program maps them: so that the first call is
    /// seen. Returns problems.
    pub fn put_ahead(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for driver in table::all() {
            for folder in FOLDERS {
                let path = Path::new(folder).join(format!("{}.1", driver.library));
                let whole: PathBuf = path.canonicalize().unwrap_or(path);
                let mut to_look = OpenOptions::new();
                if let Ok(file) = to_look.read(true).custom_flags(libc::O_PATH).open(&whole) {
                    problems.extend(self.attach(&file, &whole));
                }
            }
        }
        problems
    }

    /// Puts probes into a file that a program has mapped under this path, if it is a driver's. `found` was
    /// opened with `O_PATH`: that very file is read and probed. Returns a problem, if there is one.
    pub fn attach(&self, found: &File, path: &Path) -> Option<String> {
        let metadata = found.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let state = State::of(&metadata);
        let driver = table::all().iter().find(|driver| driver.is_at(path))?;
        {
            let mut files = self.files();
            if files.contains_key(&state) || files.len() >= MOST_FILES {
                return None;
            }
            // Another thread does not do the same meanwhile; what failed is not tried again.
            files.insert(state, Vec::new());
        }
        match self.put(found, driver) {
            Ok(probes) => {
                self.files().insert(state, probes);
                None
            }
            Err(error) => Some(format!("waits for the GPU are not known: `{}` {error}", path.shown())),
        }
    }

    fn put(&self, found: &File, driver: &'static Driver) -> Result<Vec<OwnedFd>, DriverError> {
        let file = guarded::open_found(found)?;
        let mut places = HashMap::new();
        exported(&file, |name, offset| {
            if let Some(does) = driver.does(name).filter(|_| places.len() < MOST_FUNCTIONS) {
                places.insert(offset, does);
            }
        })?;
        if places.is_empty() {
            return Err(DriverError::NoFunction(&driver.name));
        }
        let path = format!("/proc/self/fd/{}", found.as_raw_fd());
        let mut probes = Vec::new();
        for (offset, does) in places {
            if !descriptors::are_free() {
                return Err(DriverError::Descriptors);
            }
            probes.extend(self.programs.attach(&path, offset, does).map_err(DriverError::Refused)?);
        }
        Ok(probes)
    }
}

impl Drop for Drivers {
    fn drop(&mut self) {
        let probes = std::mem::take(&mut *self.files()).into_values().flatten().collect();
        DriverProbes::take_out(probes);
    }
}

impl Driver {
    /// Whether a file of this path is its library, of any version.
    fn is_at(&self, path: &Path) -> bool {
        Named::of(&self.library, path) == Named::Yes
    }
}
