//! The clock page of a hypervisor (vmclock), for its marker of disruptions.
//!
//! Linux 6.13 and later offer it as a device that every process that may open it can map. The hypervisor
//! writes it while it is read: a sequence number is odd during a change and has another value after it.
//! Layout and meaning are those of `include/uapi/linux/vmclock-abi.h`, version 1; only the beginning is read.

use std::{
    fs::{File, OpenOptions},
    io,
    num::NonZeroUsize,
    os::{
        fd::AsFd as _,
        unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    },
    path::Path,
    ptr::NonNull,
    sync::atomic::{Ordering, fence},
};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// The device: a guest has one.
pub const PATH: &str = "/dev/vmclock0";
/// The bytes `VCLK`.
const MAGIC: u32 = u32::from_le_bytes(*b"VCLK");
const VERSION: u16 = 1;
/// Most reads during a change, which takes some stores; a longer one is given up until the next time.
const LOOKS: u32 = 100;

/// The beginning of the page, in little-endian byte order.
#[repr(C)]
#[derive(Clone, Copy)]
struct Page {
    magic: u32,
    size: u32,
    version: u16,
    counter: u8,
    time_type: u8,
    sequence: u32,
    marker: u64,
    flags: u64,
}

/// Bytes that have to be there.
const NEEDED: NonZeroUsize = NonZeroUsize::new(size_of::<Page>()).unwrap();

/// Why a page cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum VmClockError {
    /// It cannot be opened or mapped.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is no clock page.
    #[error("no clock page: {0}")]
    NotOne(&'static str),
}

/// The page, mapped for reading.
#[derive(Debug)]
pub struct VmClock {
    page: NonNull<Page>,
    /// The last marker that was read whole.
    known: Option<u64>,
}

// SAFETY: the mapping belongs to this value alone, and nothing in it depends on the thread.
unsafe impl Send for VmClock {}

impl VmClock {
    /// Maps the device. The present marker is the first known one.
    pub fn open(path: &Path) -> Result<Self, VmClockError> {
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        if !file.metadata()?.file_type().is_char_device() {
            // A file may become shorter while it is mapped, and a read would then kill this process.
            return Err(VmClockError::NotOne("not a device"));
        }
        Self::map(&file)
    }

    fn map(file: &File) -> Result<Self, VmClockError> {
        let metadata = file.metadata()?;
        if metadata.is_file() && metadata.len() < NEEDED.get() as u64 {
            return Err(VmClockError::NotOne("too short"));
        }
        // SAFETY: a new, separate mapping, only read.
        let page = unsafe { mmap(None, NEEDED, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, file.as_fd(), 0) };
        let mut clock = Self { page: page.map_err(io::Error::from)?.cast(), known: None };
        clock.check()?;
        clock.known = clock.marker();
        Ok(clock)
    }

    /// Checks the constant fields.
    fn check(&self) -> Result<(), VmClockError> {
        let Page { magic, size, version, .. } = self.read();
        if u32::from_le(magic) != MAGIC {
            return Err(VmClockError::NotOne("another magic number"));
        }
        if u16::from_le(version) != VERSION {
            return Err(VmClockError::NotOne("another version"));
        }
        if (u32::from_le(size) as usize) < NEEDED.get() {
            return Err(VmClockError::NotOne("too short"));
        }
        Ok(())
    }

    /// The page now, maybe amid a change.
    fn read(&self) -> Page {
        // SAFETY: the mapping is as long as this value and at least as large as the page; all its bytes are
        // numbers. The hypervisor may write to it at any time, so the read has to be volatile.
        unsafe { self.page.as_ptr().read_volatile() }
    }

    fn sequence(&self) -> u32 {
        // SAFETY: as above.
        u32::from_le(unsafe { (&raw const (*self.page.as_ptr()).sequence).read_volatile() })
    }

    /// The marker, if it can be read between two changes.
    fn marker(&self) -> Option<u64> {
        for _ in 0..LOOKS {
            let before = self.sequence();
            fence(Ordering::Acquire);
            let page = self.read();
            fence(Ordering::Acquire);
            if before & 1 == 0 && self.sequence() == before {
                return Some(u64::from_le(page.marker));
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Whether the marker has changed since the last time. A page that changes all the time is looked at
    /// again the next time.
    pub fn has_changed(&mut self) -> bool {
        let Some(marker) = self.marker() else { return false };
        self.known.replace(marker).is_some_and(|known| known != marker)
    }
}

impl Drop for VmClock {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and not used elsewhere.
        let _ = unsafe { munmap(self.page.cast(), NEEDED.get()) };
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::FileExt as _, sync::atomic::AtomicBool, thread};

    use rstest::rstest;

    use super::*;

    /// A page as the header describes it, with the 112 bytes of its first version.
    fn page(sequence: u32, marker: u64) -> Vec<u8> {
        let mut page = Vec::new();
        page.extend(b"VCLK");
        page.extend(4096_u32.to_le_bytes());
        page.extend(1_u16.to_le_bytes());
        // Counter of x86, and UTC.
        page.extend([1, 0]);
        page.extend(sequence.to_le_bytes());
        page.extend(marker.to_le_bytes());
        page.resize(112, 0);
        page
    }

    fn file(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    fn write_sequence(file: &File, sequence: u32) {
        file.write_all_at(&sequence.to_le_bytes(), 12).unwrap();
    }

    fn write_marker(file: &File, marker: u64) {
        file.write_all_at(&marker.to_le_bytes(), 16).unwrap();
    }

    #[test]
    fn another_marker_is_told_once() {
        let file = file(&page(2, 7));
        let mut clock = VmClock::map(&file).unwrap();
        assert!(!clock.has_changed());
        write_sequence(&file, 3);
        write_marker(&file, 8);
        // Amid a change, however often it is read.
        assert!(!clock.has_changed() && !clock.has_changed());
        write_sequence(&file, 4);
        assert!(clock.has_changed());
        assert!(!clock.has_changed());
        // The clock was corrected, and nothing was disrupted.
        write_sequence(&file, 6);
        assert!(!clock.has_changed());
        // The marker may be any other number.
        write_marker(&file, 0);
        assert!(clock.has_changed());
    }

    #[test]
    fn a_page_that_is_amid_a_change_when_it_is_opened_has_no_marker_before_it() {
        let file = file(&page(1, 7));
        let mut clock = VmClock::map(&file).unwrap();
        write_marker(&file, 9);
        write_sequence(&file, 2);
        assert!(!clock.has_changed());
        write_marker(&file, 10);
        assert!(clock.has_changed());
    }

    /// One thread changes both halves of the marker one after the other, as the protocol requires: a reader
    /// never sees a mixture.
    #[test]
    fn no_torn_marker_is_read() {
        let file = file(&page(0, 0));
        let clock = VmClock::map(&file).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1.. {
                    write_sequence(&file, 2 * round - 1);
                    file.write_all_at(&round.to_le_bytes(), 16).unwrap();
                    file.write_all_at(&round.to_le_bytes(), 20).unwrap();
                    write_sequence(&file, 2 * round);
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
            let mut read = 0;
            while read < 10_000 {
                if let Some(marker) = clock.marker() {
                    assert_eq!(marker as u32, (marker >> 32) as u32);
                    read += 1;
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    #[rstest]
    #[case::empty(|bytes: &mut Vec<u8>| bytes.clear(), "too short")]
    #[case::cut(|bytes: &mut Vec<u8>| bytes.truncate(31), "too short")]
    #[case::says_so(|bytes: &mut Vec<u8>| bytes[4..8].copy_from_slice(&31_u32.to_le_bytes()), "too short")]
    #[case::magic(|bytes: &mut Vec<u8>| bytes[0] = b'X', "another magic number")]
    #[case::version(|bytes: &mut Vec<u8>| bytes[8] = 2, "another version")]
    fn what_is_no_page_is_refused(#[case] spoil: fn(&mut Vec<u8>), #[case] why: &str) {
        let mut bytes = page(2, 7);
        spoil(&mut bytes);
        let error = VmClock::map(&file(&bytes)).unwrap_err();
        assert_eq!(error.to_string(), format!("no clock page: {why}"));
    }

    #[test]
    fn only_a_device_is_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmclock0");
        std::fs::write(&path, page(2, 7)).unwrap();
        assert!(matches!(VmClock::open(&path), Err(VmClockError::NotOne("not a device"))));
        assert!(matches!(VmClock::open(&folder.path().join("none")), Err(VmClockError::Io(_))));
        // It can be mapped, but is another device.
        let error = VmClock::open(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.to_string(), "no clock page: another magic number");
    }
}
