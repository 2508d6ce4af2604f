//! Loads the library that CUDA_INJECTION64_PATH names, as libcuda does when it is initialised.

use std::{
    env,
    ffi::{CString, c_int, c_void},
    mem,
    os::unix::ffi::OsStringExt as _,
    sync::Once,
};

static ONCE: Once = Once::new();

/// Loads it, and calls its `InitializeInjection`.
pub(crate) fn load() {
    ONCE.call_once(|| {
        let path = env::var_os("CUDA_INJECTION64_PATH").and_then(|path| CString::new(path.into_vec()).ok());
        let Some(path) = path else { return };
        // SAFETY: C strings; the function has this type in every such library.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            if library.is_null() {
                return;
            }
            let found = libc::dlsym(library, c"InitializeInjection".as_ptr());
            if !found.is_null() {
                let initialize: extern "C" fn() -> c_int = mem::transmute::<*mut c_void, _>(found);
                initialize();
            }
        }
    });
}
