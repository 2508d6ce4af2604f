//! Names that outlive the call that gives them: domains, registered strings, categories.
//! Yields handles for the program, which are addresses within one block of zeros: a page of it costs memory
//! only once it is used. Names that do not fit share one, which is reported. It deliberately frees nothing:
//! programs register names beforehand.

use core::{
    cell::UnsafeCell,
    mem::offset_of,
    ptr,
    sync::atomic::{
        AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use guestscope_marker::edge::NAME_BYTES_READ;

use crate::edges::{Name, Source, tell};

/// 20,000 names of 40 bytes.
const BYTES: usize = 1 << 20;
/// Bytes after the block, so that a head and the longest name can be read at any handle.
const SLACK: usize = 128;
/// Alignment of handles.
const GRAIN: usize = 8;

#[repr(C, align(8))]
struct Block(UnsafeCell<[u8; BYTES + SLACK]>);

// SAFETY: each byte is written once, by the thread that was given it, before its handle is handed out.
unsafe impl Sync for Block {}

static BLOCK: Block = Block(UnsafeCell::new([0; BYTES + SLACK]));
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Head at a handle, followed by the name.
#[repr(C)]
struct Head {
    /// Hash of its own address: distinguishes it from a number that was never a handle.
    check: u32,
    /// Length of the name: more than the bytes that follow if it was cut.
    length: u32,
}

fn block() -> *mut u8 {
    BLOCK.0.get().cast()
}

#[inline]
fn check(offset: usize) -> u32 {
    (offset as u32).wrapping_mul(0x9e37_79b1) ^ 0x6773_636f
}

/// Zeros of the block for one thread to fill, aligned to 8. None: it is full.
pub(crate) fn room(bytes: usize) -> Option<*mut u8> {
    let bytes = bytes.next_multiple_of(GRAIN);
    let offset = TAKEN.fetch_add(bytes, Relaxed);
    if offset >= BYTES || BYTES - offset < bytes {
        // It stays full: the counter goes back, so that it never wraps.
        TAKEN.fetch_sub(bytes, Relaxed);
        return None;
    }
    // SAFETY: within the block.
    Some(unsafe { block().add(offset) })
}

/// Keeps a name; returns its handle.
pub(crate) fn keep(source: Source, name: Name<'_>) -> *const u8 {
    let bytes = &name.bytes[..name.bytes.len().min(NAME_BYTES_READ)];
    let Some(at) = room(size_of::<Head>() + bytes.len()) else { return others(source) };
    let offset = at as usize - block() as usize;
    // SAFETY: these bytes were given to this thread alone.
    unsafe {
        at.cast::<Head>().write(Head { check: check(offset), length: name.length as u32 });
        ptr::copy_nonoverlapping(bytes.as_ptr(), at.add(size_of::<Head>()), bytes.len());
    }
    at
}

/// The handle shared by names that do not fit.
#[cold]
fn others(source: Source) -> *const u8 {
    say_full(source);
    OTHERS.as_ptr()
}

/// Reports once that the block is full.
pub(crate) fn say_full(source: Source) {
    static SAID: AtomicUsize = AtomicUsize::new(0);
    if SAID.fetch_or(1 << source as u32, AcqRel) & 1 << source as u32 == 0 {
        tell(source, b"!more names than 1 MiB: the rest is (other names)");
    }
}

static OTHERS: [u8; 1] = [0];

/// The name of a handle. None if it is no handle.
#[inline]
pub(crate) fn get(handle: *const u8) -> Option<Name<'static>> {
    if ptr::eq(handle, OTHERS.as_ptr()) {
        return Some(Name { bytes: b"(other names)", length: 13 });
    }
    let offset = (handle as usize).wrapping_sub(block() as usize);
    if !offset.is_multiple_of(GRAIN) || offset >= BYTES {
        return None;
    }
    // SAFETY: within the block, with room for a head and the longest name.
    unsafe {
        let check_is = handle.add(offset_of!(Head, check)).cast::<u32>().read();
        let length = handle.add(offset_of!(Head, length)).cast::<u32>().read() as usize;
        if check_is != check(offset) {
            return None;
        }
        let bytes = core::slice::from_raw_parts(handle.add(size_of::<Head>()), length.min(NAME_BYTES_READ));
        Some(Name { bytes, length })
    }
}

/// Names of categories, by domain and number.
static CATEGORIES: [Category; 256] = [const { Category::new() }; 256];

struct Category {
    /// Hash of its domain and number; 0 is free.
    key: AtomicUsize,
    name: AtomicUsize,
}

impl Category {
    const fn new() -> Self {
        Self { key: AtomicUsize::new(0), name: AtomicUsize::new(0) }
    }
}

fn category_key(domain: u64, number: u32) -> usize {
    let mixed = (domain ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(number);
    mixed as usize | 1
}

/// The places for a key, of eight.
fn places(key: usize) -> impl Iterator<Item = &'static Category> {
    (0..8).filter_map(move |step| CATEGORIES.get(((key >> 32) + step) & 255))
}

/// Names a category; the first name stays. Categories that do not fit have none.
pub(crate) fn name_category(domain: u64, number: u32, name: *const u8) {
    let key = category_key(domain, number);
    for place in places(key) {
        let is_ours = match place.key.compare_exchange(0, key, AcqRel, Acquire) {
            Ok(_) => true,
            Err(known) => known == key,
        };
        if is_ours {
            let _ = place.name.compare_exchange(0, name as usize, Release, Relaxed);
            return;
        }
    }
}

/// The name of a category, if it has one.
pub(crate) fn category(domain: u64, number: u32) -> Option<Name<'static>> {
    let key = category_key(domain, number);
    let place = places(key).find(|place| place.key.load(Acquire) == key)?;
    get(ptr::with_exposed_provenance(place.name.load(Acquire)))
}
