//! Names as programs give them: C strings and wide strings of any length, made whole or cut. Yields at most
//! 64 bytes, since an agent reads no more, and reads no more of a string than that. It deliberately does not
//! repair invalid UTF-8: the agent does.

use core::{ffi::c_char, slice};

use guestscope_marker::edge::NAME_BYTES_READ;

use crate::edges::Name;

/// A wide character on Linux: UTF-32.
pub(crate) type Wide = i32;
/// Most bytes of a domain in a name: the range itself must be readable after it.
const DOMAIN_BYTES: usize = 31;

/// A C string, not copied.
///
/// # Safety
/// `text` is null or a C string that does not change while the name is used.
#[inline]
pub(crate) unsafe fn borrowed<'a>(text: *const c_char) -> Name<'a> {
    if text.is_null() {
        return Name::UNNAMED;
    }
    let text = text.cast::<u8>();
    let mut length = 0;
    // SAFETY: all bytes before this one were not the last.
    while length <= NAME_BYTES_READ && unsafe { *text.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: as far as was just read.
    let bytes = unsafe { slice::from_raw_parts(text, length.min(NAME_BYTES_READ)) };
    Name { bytes, length }
}

/// A name put together from parts.
pub(crate) struct Text {
    bytes: [u8; NAME_BYTES_READ],
    filled: usize,
    is_cut: bool,
}

impl Text {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; NAME_BYTES_READ], filled: 0, is_cut: false }
    }

    /// A domain's name before a range's.
    #[inline]
    pub(crate) fn of_domain(domain: &[u8]) -> Self {
        let mut text = Self::new();
        text.add(&domain[..domain.len().min(DOMAIN_BYTES)]);
        text.push(b'/');
        text
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        match self.bytes.get_mut(self.filled) {
            Some(place) => {
                *place = byte;
                self.filled += 1;
            }
            None => self.is_cut = true,
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.push(*byte);
        }
    }

    /// Adds a name; keeps in mind that it was cut.
    #[inline]
    pub(crate) fn add_name(&mut self, name: Name<'_>) {
        self.add(name.bytes);
        self.is_cut |= name.length > name.bytes.len();
    }

    /// Adds a wide string, as UTF-8. Invalid characters become U+FFFD.
    ///
    /// # Safety
    /// `text` is null or points to wide characters, the last one 0.
    pub(crate) unsafe fn add_wide(&mut self, text: *const Wide) {
        if text.is_null() {
            return self.add(Name::UNNAMED.bytes);
        }
        for at in 0..=NAME_BYTES_READ {
            // SAFETY: all before this one were not the last.
            let wide = unsafe { text.add(at).read_unaligned() };
            if wide == 0 || self.is_cut {
                return;
            }
            let character = char::from_u32(wide.cast_unsigned()).unwrap_or(char::REPLACEMENT_CHARACTER);
            let mut room = [0; 4];
            let encoded = character.encode_utf8(&mut room).as_bytes();
            if self.filled + encoded.len() > NAME_BYTES_READ {
                self.is_cut = true;
            } else {
                self.add(encoded);
            }
        }
        self.is_cut = true;
    }

    pub(crate) fn add_number(&mut self, number: u64) {
        let mut place = 1;
        while number / place >= 10 {
            place *= 10;
        }
        while place > 0 {
            self.push(b'0' + (number / place % 10) as u8);
            place /= 10;
        }
    }

    #[inline]
    pub(crate) fn name(&self) -> Name<'_> {
        let filled = self.filled.min(NAME_BYTES_READ);
        Name { bytes: &self.bytes[..filled], length: filled + usize::from(self.is_cut) }
    }
}

/// A hash of a name, as far as names are read.
pub(crate) fn hash(name: Name<'_>) -> u64 {
    let fold = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    name.bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold).max(1)
}
