//! The library of NVIDIA's driver and its functions, found when they are first asked for. Yields functions
//! under the names and types of CUDA's documentation, and the driver's own names of errors.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    mem, ptr,
};

use super::error::{Code, CudaError};

/// The library by the name under which every program on Linux loads it.
const LIBRARY: &str = "libcuda.so.1";
const LIBRARY_C: &CStr = c"libcuda.so.1";
/// `CU_CTX_SCHED_BLOCKING_SYNC`: a thread that synchronises sleeps.
const BLOCKING_SYNC: c_uint = 4;

/// A function of the driver whose arguments have these types; its result is 0 or an error.
macro_rules! functions {
    ($($field:ident $name:literal ($($argument:ty),*);)*) => {
        /// The functions, each with what it is called in the library.
        #[derive(Clone, Copy, Debug)]
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            /// Finds them in an open library.
            fn of(library: *mut c_void) -> Result<Self, CudaError> {
                let find = |name: &'static CStr| {
                    // SAFETY: the library stays open, and the name lives across the call.
                    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
                    if found.is_null() {
                        return Err(CudaError::Function { name: name.to_str().unwrap_or_default() });
                    }
                    Ok(found)
                };
                Ok(Self { $(
                    // SAFETY: functions of this name have this type, in every library that has them.
                    $field: unsafe {
                        mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> c_int>(find($name)?)
                    },
                )* })
            }
        }
    };
}

functions! {
    init c"cuInit" (c_uint);
    error_name c"cuGetErrorName" (c_int, *mut *const c_char);
    device c"cuDeviceGet" (*mut c_int, c_int);
    attribute c"cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    set_flags c"cuDevicePrimaryCtxSetFlags_v2" (c_int, c_uint);
    retain c"cuDevicePrimaryCtxRetain" (*mut *mut c_void, c_int);
    release c"cuDevicePrimaryCtxRelease_v2" (c_int);
    set_current c"cuCtxSetCurrent" (*mut c_void);
    create_stream c"cuStreamCreate" (*mut *mut c_void, c_uint);
    destroy_stream c"cuStreamDestroy_v2" (*mut c_void);
    synchronize c"cuStreamSynchronize" (*mut c_void);
    allocate c"cuMemAlloc_v2" (*mut u64, usize);
    free c"cuMemFree_v2" (u64);
    copy_in c"cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, *mut c_void);
    load_module c"cuModuleLoadData" (*mut *mut c_void, *const c_void);
    unload_module c"cuModuleUnload" (*mut c_void);
    function c"cuModuleGetFunction" (*mut *mut c_void, *mut c_void, *const c_char);
    launch c"cuLaunchKernel" (
        *mut c_void, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, *mut c_void, *mut *mut c_void,
        *mut *mut c_void
    );
}

/// The driver, initialised. Its library is never closed: threads of its own may run in it.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    pub(super) functions: Functions,
}

impl Driver {
    /// Loads and initialises it.
    ///
    /// # Errors
    ///
    /// There is no library, it is too old, or it finds no GPU.
    pub fn load() -> Result<Self, CudaError> {
        // SAFETY: a C string. What the library does when it is loaded is what it does in every CUDA program.
        let library = unsafe { libc::dlopen(LIBRARY_C.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err(CudaError::Library { library: LIBRARY, reason: refusal() });
        }
        let driver = Self { functions: Functions::of(library)? };
        // SAFETY: it takes a number.
        driver.check("cuInit", unsafe { (driver.functions.init)(0) })?;
        Ok(driver)
    }

    /// Lets threads of this process sleep, instead of spin, while they wait for the GPU of this number,
    /// counted as CUDA_VISIBLE_DEVICES leaves them. To be called before anything else makes the process's
    /// context.
    ///
    /// # Errors
    ///
    /// There is no such GPU, or its context exists already.
    pub fn sleep_in_waits(self, number: usize) -> Result<(), CudaError> {
        let device = self.device(number)?;
        // SAFETY: it takes numbers.
        let code = unsafe { (self.functions.set_flags)(device, BLOCKING_SYNC) };
        self.check("cuDevicePrimaryCtxSetFlags", code)
    }

    /// The driver's handle of the GPU of this number.
    pub(super) fn device(self, number: usize) -> Result<c_int, CudaError> {
        let mut device = 0;
        let number = c_int::try_from(number).unwrap_or(c_int::MAX);
        // SAFETY: a place for the result.
        self.check("cuDeviceGet", unsafe { (self.functions.device)(&raw mut device, number) })?;
        Ok(device)
    }

    /// The error of a call, if it has one.
    pub(super) fn check(self, call: &'static str, number: c_int) -> Result<(), CudaError> {
        if number == 0 {
            return Ok(());
        }
        Err(CudaError::Refused { call, code: Code { number, name: self.name(number) } })
    }

    fn name(self, number: c_int) -> Option<String> {
        let mut name = ptr::null();
        // SAFETY: a place for the result, which is null or a C string that is never freed.
        unsafe {
            let is_known = (self.functions.error_name)(number, &raw mut name) == 0 && !name.is_null();
            is_known.then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }
}

/// Why the last library was not loaded, without its name at the front.
fn refusal() -> String {
    // SAFETY: it takes nothing; the text lives until this thread's next call of such a function.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason was given".to_owned();
    }
    // SAFETY: as above.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    text.strip_prefix(LIBRARY).map_or(&*text, |rest| rest.trim_start_matches(": ")).to_owned()
}
