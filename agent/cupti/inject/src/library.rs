//! Finds libcupti.so: the one that the program uses itself, else the one that the loader or the usual folders
//! have.

use core::ffi::{CStr, c_int, c_void};

use super::system;

/// Variable with the path of another libcupti.so.
const VARIABLE: &CStr = c"GUESTSCOPE_CUPTI";
const RTLD_NOW: c_int = 2;
const RTLD_NOLOAD: c_int = 4;
/// Names and paths, those of newer versions first. PyTorch's wheels load theirs by the first three.
const NAMES: [&CStr; 7] = [
    c"libcupti.so.13",
    c"libcupti.so.12",
    c"libcupti.so.11.8",
    c"libcupti.so",
    c"/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
    c"/usr/local/cuda/lib64/libcupti.so",
    c"/opt/cuda/extras/CUPTI/lib64/libcupti.so",
];

/// A loaded libcupti.so.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    handle: *mut c_void,
    /// By which it was found.
    pub(crate) name: &'static CStr,
}

impl Library {
    /// Finds it, and loads it if need be.
    pub(crate) fn find() -> Option<Self> {
        if let Some(path) = system::variable(VARIABLE) {
            return Self::open(path, RTLD_NOW);
        }
        let loaded = NAMES.into_iter().find_map(|name| Self::open(name, RTLD_NOW | RTLD_NOLOAD));
        loaded.or_else(|| NAMES.into_iter().find_map(|name| Self::open(name, RTLD_NOW)))
    }

    fn open(name: &'static CStr, flags: c_int) -> Option<Self> {
        // SAFETY: a C string.
        let handle = unsafe { system::dlopen(name.as_ptr(), flags) };
        (!handle.is_null()).then_some(Self { handle, name })
    }

    /// A function of it; null if it has none of this name.
    pub(crate) fn function(&self, name: &CStr) -> *mut c_void {
        // SAFETY: a handle of `dlopen`, which is never closed, and a C string.
        unsafe { system::dlsym(self.handle, name.as_ptr()) }
    }
}
