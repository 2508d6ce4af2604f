//! Domains and strings. Those that a program made before this library was loaded are the static part's; later
//! ones are made here, since from ITT 3.25 on the static part makes none once a tool is there.
//! Yields the same one for the same name, from any static part. Like the static part, it deliberately frees
//! none.

use core::{
    ffi::{c_char, c_int, c_void},
    mem::offset_of,
    ptr,
    sync::atomic::{
        AtomicPtr,
        Ordering::{AcqRel, Acquire, Release},
    },
};

use super::ours::Ours;
use crate::{
    edges::{Name, Source},
    gate::Kind,
    kept,
    text::{self, Text},
};

/// See `tasks`.
pub(super) fn functions() -> &'static [(&'static str, Ours)] {
    &[
        ("domain_create", Ours(create_domain as *const c_void)),
        ("string_handle_create", Ours(create_string as *const c_void)),
    ]
}

/// `__itt_domain`.
#[repr(C)]
pub(super) struct Domain {
    flags: c_int,
    name: *const c_char,
    wide: *const c_void,
    reserved: c_int,
    /// A word for the tool: our data on the domain.
    known: AtomicPtr<Known>,
    next: *const c_void,
}

/// `__itt_string_handle`.
#[repr(C)]
pub(super) struct StringHandle {
    name: *const c_char,
    wide: *const c_void,
    /// Two words for the tool's own use.
    pub(super) kind: Kind,
    next: *const c_void,
}

const _: () = assert!(size_of::<Domain>() == 48 && size_of::<StringHandle>() == 40);

/// A domain with a name, and how to treat its tasks.
#[repr(C)]
pub(super) struct Known {
    /// The structure that programs get from now on.
    domain: Domain,
    name: *const c_char,
    wide: *const c_void,
    /// Measurement of its frames, and of its tasks without a string.
    pub(super) kind: Kind,
    prefix: &'static [u8],
    /// Whether a library makes its tasks, which are often short: hidden until they prove long enough.
    pub(super) is_doubtful: bool,
}

/// Distance from the name to the kind, the same in both structures.
const BEFORE_KIND: usize = offset_of!(StringHandle, kind);
const _: () = assert!(offset_of!(Known, kind) - offset_of!(Known, name) == BEFORE_KIND);

/// # Safety
/// The kind is a string's or a domain's.
pub(super) unsafe fn name_of_kind<'a>(kind: *const Kind) -> Name<'a> {
    // SAFETY: promised by the caller; names are kept for good.
    unsafe { text::borrowed(kind.cast::<u8>().sub(BEFORE_KIND).cast::<*const c_char>().read()) }
}

/// The name of a string.
///
/// # Safety
/// `handle` is null or a string of ITT's.
pub(super) unsafe fn name_of<'a>(handle: *const StringHandle) -> Name<'a> {
    // SAFETY: promised by the caller; its name is kept for good.
    unsafe { handle.as_ref().map_or(Name::UNNAMED, |handle| text::borrowed(handle.name)) }
}

/// Our data on a domain.
///
/// # Safety
/// `domain` is null or a domain of ITT's.
#[inline]
pub(super) unsafe fn known(domain: *const Domain) -> Option<&'static Known> {
    // SAFETY: promised by the caller; domains are kept for good.
    let domain: &'static Domain = unsafe { domain.as_ref()? };
    let known = domain.known.load(Acquire);
    let known = if known.is_null() { meet(domain) } else { known };
    // SAFETY: null, or of this file's making.
    unsafe { known.as_ref() }
}

/// A domain that the static part has made.
#[cold]
fn meet(domain: &'static Domain) -> *mut Known {
    // SAFETY: a C string, or null.
    let known = if domain.name.is_null() { ptr::null_mut() } else { unsafe { intern_domain(domain.name) } };
    domain.known.store(known, Release);
    known
}

impl Known {
    pub(super) fn key(&self) -> u64 {
        &raw const *self as u64
    }

    /// The name of a task of this domain.
    pub(super) fn name(&self, name: Name<'_>) -> Text {
        let mut text = if self.prefix.is_empty() { Text::new() } else { Text::of_domain(self.prefix) };
        text.add_name(name);
        text
    }
}

/// Prefix of a domain's task names, and whether its tasks are doubtful.
fn manner(name: Name<'static>) -> (&'static [u8], bool) {
    match name.bytes {
        // Marks that people make by torch.profiler.itt keep their own names.
        b"PyTorch" => (b"", false),
        b"dnnl::primitive::execute" => (b"oneDNN", true),
        b"dnnl::primitive::create" => (b"oneDNN create", true),
        // OpenMP runtimes report a frame for each parallel region.
        bytes => (bytes, bytes.starts_with(b"dnnl") || bytes.windows(5).any(|part| part == b"$omp$")),
    }
}

/// Most bytes kept of a name.
const LONGEST: usize = 255;

/// Length and hash of the part of a C string that is kept.
///
/// # Safety
/// `name` is a C string.
unsafe fn measure(name: *const c_char) -> (usize, usize) {
    let (mut length, mut hash) = (0, 0xcbf2_9ce4_8422_2325_u64);
    while length < LONGEST {
        // SAFETY: none before was the last.
        let byte = unsafe { *name.cast::<u8>().add(length) };
        if byte == 0 {
            break;
        }
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        length += 1;
    }
    (length, (hash ^ hash >> 29) as usize)
}

/// # Safety
/// Both are C strings; `kept` is one of this file's.
unsafe fn is_same(kept: *const c_char, name: *const c_char, length: usize) -> bool {
    // SAFETY: the bytes before are the same, and not the last.
    let same = |at: usize| unsafe { *kept.add(at) == *name.add(at) };
    // SAFETY: as above.
    (0..length).all(same) && unsafe { *kept.add(length) } == 0
}

/// Copies a name into the room after a structure.
///
/// # Safety
/// `to` is room for the name and a 0.
unsafe fn copy(to: *mut u8, name: *const c_char, length: usize) -> *const c_char {
    // SAFETY: promised by the caller. What follows the name is 0 already.
    unsafe { ptr::copy_nonoverlapping(name.cast::<u8>(), to, length) };
    to.cast()
}

/// Most places searched for a name.
const REACH: usize = 16;

/// Finds the entry with a name in a table, or makes it. Null: there is no room.
///
/// # Safety
/// `name` is a C string. `make` yields null, or what `name_at` finds the name of.
unsafe fn intern<T>(
    table: &[AtomicPtr<T>],
    name: *const c_char,
    name_at: impl Fn(*mut T) -> *const c_char,
    make: impl Fn(usize) -> *mut T,
) -> *mut T {
    // SAFETY: promised by the caller.
    let (length, hash) = unsafe { measure(name) };
    let mut made: *mut T = ptr::null_mut();
    for place in (0..REACH).filter_map(|step| table.get(hash.wrapping_add(step) % table.len().max(1))) {
        let mut there = place.load(Acquire);
        if there.is_null() {
            if made.is_null() {
                made = make(length);
            }
            if made.is_null() {
                return made;
            }
            match place.compare_exchange(ptr::null_mut(), made, AcqRel, Acquire) {
                Ok(_) => return made,
                Err(others) => there = others,
            }
        }
        // SAFETY: what stands in a table is whole, and has a name.
        if unsafe { is_same(name_at(there), name, length) } {
            return there;
        }
    }
    ptr::null_mut()
}

static DOMAINS: [AtomicPtr<Known>; 1 << 9] = [const { AtomicPtr::new(ptr::null_mut()) }; 1 << 9];
static STRINGS: [AtomicPtr<StringHandle>; 1 << 14] = [const { AtomicPtr::new(ptr::null_mut()) }; 1 << 14];

/// # Safety
/// `name` is a C string.
unsafe fn intern_domain(name: *const c_char) -> *mut Known {
    let make = |length: usize| {
        let Some(at) = kept::room(size_of::<Known>() + length + 1) else { return ptr::null_mut() };
        // SAFETY: the room was made for both.
        let own = unsafe { copy(at.add(size_of::<Known>()), name, length) };
        // SAFETY: what was just copied, and stays.
        let (prefix, is_doubtful) = manner(unsafe { text::borrowed(own) });
        let known: *mut Known = at.cast();
        let (wide, next, reserved) = (ptr::null(), ptr::null(), 0);
        let domain = Domain { flags: 1, name: own, wide, reserved, known: AtomicPtr::new(known), next };
        let kind = Kind::new();
        // SAFETY: on a multiple of 8, and this thread's.
        unsafe { known.write(Known { domain, name: own, wide, kind, prefix, is_doubtful }) };
        known
    };
    // SAFETY: `make` yields a structure with a name.
    unsafe { intern(&DOMAINS, name, |known| (*known).name, make) }
}

extern "C" fn create_domain(name: *const c_char) -> *const Domain {
    if name.is_null() {
        return ptr::null();
    }
    // SAFETY: the program's C string.
    let known = unsafe { intern_domain(name) };
    if known.is_null() {
        // None of its tasks is a phase.
        kept::say_full(Source::Itt);
        return ptr::null();
    }
    known.cast()
}

extern "C" fn create_string(name: *const c_char) -> *const StringHandle {
    if name.is_null() {
        return ptr::null();
    }
    let make = |length: usize| {
        let Some(at) = kept::room(size_of::<StringHandle>() + length + 1) else { return ptr::null_mut() };
        // SAFETY: the room was made for both.
        let own = unsafe { copy(at.add(size_of::<StringHandle>()), name, length) };
        let handle: *mut StringHandle = at.cast();
        let (wide, next) = (ptr::null(), ptr::null());
        // SAFETY: on a multiple of 8, and this thread's.
        unsafe { handle.write(StringHandle { name: own, wide, kind: Kind::new(), next }) };
        handle
    };
    // SAFETY: the program's C string; `make` yields a structure with a name.
    let handle = unsafe { intern(&STRINGS, name, |handle| (*handle).name, make) };
    if handle.is_null() { others() } else { handle }
}

/// The entry shared by strings without room.
#[cold]
fn others() -> *const StringHandle {
    struct Others(StringHandle);
    // SAFETY: the kind is made of atomics, and the rest never changes.
    unsafe impl Sync for Others {}
    static OTHERS: Others = Others(StringHandle {
        name: c"(other names)".as_ptr(),
        wide: ptr::null(),
        kind: Kind::new(),
        next: ptr::null(),
    });
    kept::say_full(Source::Itt);
    &raw const OTHERS.0
}
