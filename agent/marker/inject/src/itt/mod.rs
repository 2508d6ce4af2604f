//! ITT 3: each static part of it in a process (oneDNN's, PyTorch's, an OpenMP runtime's) passes its list of
//! functions at its first call to the library that INTEL_LIBITTNOTIFY64 names. Layouts and names are those of
//! `ittnotify_config.h` and `ittnotify_static.h` of https://github.com/intel/ittapi (version 3). Yields
//! phases of source itt. It deliberately ignores frames that are reported afterwards: an edge has the time of
//! its call.

mod events;
mod known;
mod ours;
mod overlapped;
mod tasks;

use core::{
    ffi::{CStr, c_char, c_int, c_ulong, c_void},
    sync::atomic::Ordering::Relaxed,
};

use self::ours::{Function, SHOWS_ALL};
use crate::{
    edges::{Source, tell},
    has_agent,
    text::Text,
    variable,
};

/// The beginning of `__itt_global`, up to the C library's mutex.
#[repr(C)]
struct Global {
    magic: [u8; 8],
    major: c_ulong,
    minor: c_ulong,
    build: c_ulong,
    /// Initialised, mutex initialised, counter.
    states: [c_ulong; 3],
    mutex: [u64; 5],
    library: *const c_void,
    error_handler: *const c_void,
    /// Never set.
    path: *const c_void,
    /// In glibc on aarch64 the mutex is a word longer, and this position holds the word that is never set.
    functions: *mut Info,
    functions_behind: *mut Info,
}

const MAGIC: [u8; 8] = [0xed, 0xab, 0xab, 0xec, 0x0d, 0xee, 0xda, 0x30];
const MAJOR: c_ulong = 3;
/// Oldest build supported: before, entries had no `null`.
const BUILD_LEAST: c_ulong = 20_111_111;
/// Most functions of a list; today's have 150.
const MOST_FUNCTIONS: usize = 1_000;

/// `__itt_api_info`.
#[repr(C)]
struct Info {
    name: *const c_char,
    place: *mut Function,
    initial: Function,
    /// The function in place without a tool.
    null: Function,
    group: c_int,
}

/// Called once by the static part. Without an agent everything is as without the library.
///
/// # Safety
/// `global` is null or the static part's.
#[unsafe(no_mangle)]
#[allow(unreachable_pub, reason = "the loader finds it by its name")]
pub unsafe extern "C" fn __itt_api_init(global: *const c_void, _: c_int) {
    // SAFETY: these fields are in any version.
    let Some(global) = (unsafe { global.cast::<Global>().as_ref() }) else { return };
    if global.magic != MAGIC || global.major != MAJOR || global.build < BUILD_LEAST {
        return tell(Source::Itt, b"!ITT: a version whose layout is not known");
    }
    let list = if cfg!(target_arch = "aarch64") && global.functions.is_null() {
        global.functions_behind
    } else {
        global.functions
    };
    if list.is_null() {
        return;
    }
    let has_agent = has_agent();
    if variable(c"GUESTSCOPE_ITT").is_some_and(|value| value == c"all") {
        SHOWS_ALL.store(true, Relaxed);
    }
    for at in 0..MOST_FUNCTIONS {
        // SAFETY: the last entry of the list has no name.
        let info = unsafe { &*list.add(at) };
        if info.name.is_null() {
            break;
        }
        // SAFETY: a C string.
        let name = unsafe { CStr::from_ptr(info.name) };
        let ours = if has_agent { function(name) } else { None };
        // SAFETY: the pointer that the program calls by, which others read whole.
        unsafe { info.place.as_mut().map(|place| *place = ours.unwrap_or(info.null)) };
    }
    if has_agent {
        let mut text = Text::new();
        text.add(b"+ITT 3.");
        text.add_number(global.minor);
        tell(Source::Itt, text.name().bytes);
    }
}

/// This library's version of a function.
fn function(name: &CStr) -> Option<Function> {
    let name = name.to_bytes().strip_prefix(b"__itt_")?;
    let all = [tasks::functions(), overlapped::functions(), events::functions(), known::functions()];
    let mut each = all.iter().copied().flatten();
    each.find(|(ours, _)| ours.as_bytes() == name).map(|(_, function)| function.0)
}
