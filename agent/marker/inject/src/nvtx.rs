//! NVTX 3: every copy of it in a process (a header, so there may be many) passes its tables of functions at
//! its first call to the library that NVTX_INJECTION64_PATH names. Numbers and layouts are those of
//! `nvtxDetail/nvtxTypes.h` and `nvToolsExt.h` of https://github.com/NVIDIA/NVTX (version 3).
//! Yields phases of source nvtx. It deliberately ignores calls that are not about time: resources, threads'
//! and devices' names, synchronisation objects, extensions.

use core::{
    ffi::{c_char, c_int, c_uint, c_void},
    mem, ptr,
};

use crate::{
    edges::{self, Name, Source, tell},
    gate::Measured,
    has_agent, kept, ranges,
    ranges::Begin,
    text::{self, Text, Wide},
};

/// Result of a push or a pop without a tool: the program sees the same with this one.
const NO_TRACKING: c_int = -2;
/// The key of the domain without a handle, lower than any handle.
const DEFAULT: u64 = 1;

type Handle = *const u8;
type Function = *const c_void;
type GetExportTable = unsafe extern "C" fn(c_uint) -> *const ExportTable;

const CALLBACKS: c_uint = 1;

#[repr(C)]
struct ExportTable {
    bytes: usize,
    functions: Option<unsafe extern "C" fn(c_uint, *mut *mut *mut Function, *mut c_uint) -> c_int>,
}

/// `nvtxEventAttributes_t`.
#[repr(C)]
struct Attributes {
    version: u16,
    bytes: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_void,
}

const ASCII: i32 = 1;
const UNICODE: i32 = 2;
const REGISTERED: i32 = 3;

/// Module numbers; below, the functions used of each, by their numbers.
const CORE: c_uint = 1;
const CORE2: c_uint = 5;

#[rustfmt::skip]
fn core_functions() -> [(usize, Function); 13] {
    [
        (1, mark_ex as Function), (2, mark as Function), (3, mark_wide as Function),
        (4, start_ex as Function), (5, start as Function), (6, start_wide as Function), (7, end as Function),
        (8, push_ex as Function), (9, push as Function), (10, push_wide as Function), (11, pop as Function),
        (12, name_category as Function), (13, name_category_wide as Function),
    ]
}

#[rustfmt::skip]
fn domain_functions() -> [(usize, Function); 11] {
    [
        (1, domain_mark_ex as Function), (2, domain_start_ex as Function), (3, domain_end as Function),
        (4, domain_push_ex as Function), (5, domain_pop as Function),
        (8, domain_name_category as Function), (9, domain_name_category_wide as Function),
        (10, register as Function), (11, register_wide as Function),
        (12, create_domain as Function), (13, create_domain_wide as Function),
    ]
}

/// Called once by each copy of NVTX. Returns 0 if the copy must work without a tool.
///
/// # Safety
/// `get_export_table` is null or NVTX's.
#[unsafe(no_mangle)]
#[allow(unreachable_pub, private_interfaces, reason = "the loader finds it by its name")]
pub unsafe extern "C" fn InitializeInjectionNvtx2(get_export_table: Option<GetExportTable>) -> c_int {
    let (Some(get), true) = (get_export_table, has_agent()) else { return 0 };
    // SAFETY: NVTX's own function, with a valid number.
    let Some(table) = (unsafe { get(CALLBACKS).as_ref() }) else { return 0 };
    let (true, Some(functions)) = (table.bytes >= size_of::<ExportTable>(), table.functions) else {
        return 0;
    };
    let mut is_ours = false;
    for (module, ours) in [(CORE, &core_functions()[..]), (CORE2, &domain_functions()[..])] {
        let (mut places, mut count): (*mut *mut Function, c_uint) = (ptr::null_mut(), 0);
        // SAFETY: it writes to both locals.
        let is_known = unsafe { functions(module, &raw mut places, &raw mut count) } != 0;
        if !is_known || places.is_null() {
            continue;
        }
        for (number, function) in ours.iter().filter(|(number, _)| *number < count as usize) {
            // SAFETY: the table has this number of entries, each null or the address of a pointer to a
            // function.
            unsafe {
                let place = *places.add(*number);
                if !place.is_null() {
                    *place = *function;
                    is_ours = true;
                }
            }
        }
    }
    if is_ours {
        tell(Source::Nvtx, b"+NVTX 3");
    } else {
        tell(Source::Nvtx, b"!NVTX: a version without the functions that are known");
    }
    c_int::from(is_ours)
}

fn key(domain: Handle) -> u64 {
    if domain.is_null() { DEFAULT } else { domain as u64 }
}

/// Calls `then` with an event's name and number.
///
/// # Safety
/// `attributes` is null or NVTX's structure.
#[inline]
unsafe fn with_attributes<R>(
    domain: Handle,
    attributes: *const Attributes,
    then: impl FnOnce(Name<'_>, u64) -> R,
) -> R {
    // SAFETY: the first two fields are in any version.
    let is_whole =
        !attributes.is_null() && unsafe { (*attributes).bytes as usize } >= size_of::<Attributes>();
    if !is_whole {
        return with_domain(domain, Name::UNNAMED, |name| then(name, 0));
    }
    // SAFETY: valid as long as the caller guarantees.
    let attributes = unsafe { &*attributes };
    let number = number(attributes);
    match attributes.message_type {
        // SAFETY: a C string, or null.
        ASCII => with_domain(domain, unsafe { text::borrowed(attributes.message.cast()) }, |name| {
            then(name, number)
        }),
        UNICODE => {
            // SAFETY: a wide string, or null.
            let text = unsafe { wide(domain, attributes.message.cast()) };
            then(text.name(), number)
        }
        REGISTERED if let Some(name) = kept::get(attributes.message.cast()) => then(name, number),
        _ => {
            let category = kept::category(key(domain), attributes.category);
            with_domain(domain, category.unwrap_or(Name::UNNAMED), |name| then(name, number))
        }
    }
}

/// The payload, if it is a nonnegative integer.
#[inline]
fn number(attributes: &Attributes) -> u64 {
    let payload = attributes.payload;
    match attributes.payload_type {
        1 => payload,
        2 => u64::try_from(payload.cast_signed()).unwrap_or(0),
        4 => payload & 0xffff_ffff,
        5 => u64::try_from((payload as u32).cast_signed()).unwrap_or(0),
        _ => 0,
    }
}

/// A name after its domain's.
#[inline]
fn with_domain<R>(domain: Handle, name: Name<'_>, then: impl FnOnce(Name<'_>) -> R) -> R {
    if domain.is_null() {
        return then(name);
    }
    let mut text = prefix(domain);
    text.add_name(name);
    then(text.name())
}

fn prefix(domain: Handle) -> Text {
    if domain.is_null() {
        return Text::new();
    }
    let name = kept::get(domain).unwrap_or(Name { bytes: b"?", length: 1 });
    Text::of_domain(name.bytes)
}

/// # Safety
/// `message` is null or a wide string.
unsafe fn wide(domain: Handle, message: *const Wide) -> Text {
    let mut text = prefix(domain);
    // SAFETY: promised by the caller.
    unsafe { text.add_wide(message) };
    text
}

fn begin(name: Name<'_>, number: u64) -> Begin<'_> {
    Begin { source: Source::Nvtx, name, number, measured: Measured::NOT, is_detail: false }
}

extern "C" fn push(message: *const c_char) -> c_int {
    // SAFETY: the program gives NVTX a C string, here and below.
    ranges::push(DEFAULT, &begin(unsafe { text::borrowed(message) }, 0));
    NO_TRACKING
}

extern "C" fn push_wide(message: *const Wide) -> c_int {
    // SAFETY: a wide string, here and below.
    let text = unsafe { wide(ptr::null(), message) };
    ranges::push(DEFAULT, &begin(text.name(), 0));
    NO_TRACKING
}

extern "C" fn push_ex(attributes: *const Attributes) -> c_int {
    domain_push_ex(ptr::null(), attributes)
}

extern "C" fn domain_push_ex(domain: Handle, attributes: *const Attributes) -> c_int {
    // SAFETY: NVTX's structure, here and below.
    unsafe {
        with_attributes(domain, attributes, |name, number| ranges::push(key(domain), &begin(name, number)));
    };
    NO_TRACKING
}

extern "C" fn pop() -> c_int {
    domain_pop(ptr::null())
}

extern "C" fn domain_pop(domain: Handle) -> c_int {
    let _ = ranges::pop(key(domain));
    NO_TRACKING
}

extern "C" fn start(message: *const c_char) -> u64 {
    // SAFETY: as above.
    ranges::start(&begin(unsafe { text::borrowed(message) }, 0))
}

extern "C" fn start_wide(message: *const Wide) -> u64 {
    // SAFETY: as above.
    let text = unsafe { wide(ptr::null(), message) };
    ranges::start(&begin(text.name(), 0))
}

extern "C" fn start_ex(attributes: *const Attributes) -> u64 {
    domain_start_ex(ptr::null(), attributes)
}

extern "C" fn domain_start_ex(domain: Handle, attributes: *const Attributes) -> u64 {
    // SAFETY: as above.
    unsafe { with_attributes(domain, attributes, |name, number| ranges::start(&begin(name, number))) }
}

extern "C" fn end(range: u64) {
    ranges::stop(range);
}

extern "C" fn domain_end(_: Handle, range: u64) {
    ranges::stop(range);
}

extern "C" fn mark(message: *const c_char) {
    // SAFETY: as above.
    edges::mark(unsafe { text::borrowed(message) });
}

extern "C" fn mark_wide(message: *const Wide) {
    // SAFETY: as above.
    edges::mark(unsafe { wide(ptr::null(), message) }.name());
}

extern "C" fn mark_ex(attributes: *const Attributes) {
    domain_mark_ex(ptr::null(), attributes);
}

extern "C" fn domain_mark_ex(domain: Handle, attributes: *const Attributes) {
    // SAFETY: as above.
    unsafe { with_attributes(domain, attributes, |name, _| edges::mark(name)) };
}

/// A registered string has its domain's name in front from the start.
extern "C" fn register(domain: Handle, string: *const c_char) -> Handle {
    // SAFETY: as above.
    with_domain(domain, unsafe { text::borrowed(string) }, |name| kept::keep(Source::Nvtx, name))
}

extern "C" fn register_wide(domain: Handle, string: *const Wide) -> Handle {
    // SAFETY: as above.
    kept::keep(Source::Nvtx, unsafe { wide(domain, string) }.name())
}

extern "C" fn create_domain(name: *const c_char) -> Handle {
    // SAFETY: as above.
    kept::keep(Source::Nvtx, unsafe { text::borrowed(name) })
}

extern "C" fn create_domain_wide(name: *const Wide) -> Handle {
    // SAFETY: as above.
    kept::keep(Source::Nvtx, unsafe { wide(ptr::null(), name) }.name())
}

extern "C" fn name_category(category: u32, name: *const c_char) {
    domain_name_category(ptr::null(), category, name);
}

extern "C" fn name_category_wide(category: u32, name: *const Wide) {
    domain_name_category_wide(ptr::null(), category, name);
}

extern "C" fn domain_name_category(domain: Handle, category: u32, name: *const c_char) {
    // SAFETY: as above.
    let name = kept::keep(Source::Nvtx, unsafe { text::borrowed(name) });
    kept::name_category(key(domain), category, name);
}

extern "C" fn domain_name_category_wide(domain: Handle, category: u32, name: *const Wide) {
    let name = create_domain_wide(name);
    kept::name_category(key(domain), category, name);
}

const _: () = assert!(mem::offset_of!(Attributes, message) == 40 && size_of::<Attributes>() == 48);
