//! Converts pages of the kernel's trace buffer, as `trace_pipe_raw` gives them, to events with their times.
//!
//! The format is the kernel's (Documentation/trace/ring-buffer-design, `events/header_event`,
//! `events/header_page`). It knows no event's fields.

/// Bytes of the page header: time and size; the events follow.
const HEADER: usize = 16;
/// In the size: events were lost before this page.
const MISSED: u64 = 1 << 31;
/// Bits of the size itself.
const SIZE: u64 = 0x000f_ffff;
const DELTA_BITS: u32 = 27;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Calls `found` with the time (ns of the trace clock) and the bytes of each event of a page. Returns whether
/// events were lost before the page.
pub(super) fn events<'a>(page: &'a [u8], mut found: impl FnMut(u64, &'a [u8])) -> bool {
    let (mut time_ns, commit) = (long(page, 0), long(page, 8));
    let end = HEADER + (commit & SIZE) as usize;
    let mut at = HEADER;
    while at + 4 <= end {
        let header = word(page, at);
        let (kind, delta) = (header & 31, u64::from(header >> 5));
        match kind {
            PADDING if delta == 0 => break,
            PADDING => at += 4 + word(page, at + 4) as usize,
            TIME_EXTEND => {
                time_ns += (u64::from(word(page, at + 4)) << DELTA_BITS) + delta;
                at += 8;
            }
            TIME_STAMP => {
                // The highest five bits are those of the page's time.
                let low = (u64::from(word(page, at + 4)) << DELTA_BITS) + delta;
                time_ns = time_ns & (0x1f << 59) | low;
                at += 8;
            }
            _ => {
                time_ns += delta;
                let (begin, bytes) = match kind {
                    0 => (at + 8, word(page, at + 4) as usize - 4),
                    words => (at + 4, words as usize * 4),
                };
                found(time_ns, &page[begin..begin + bytes]);
                at = begin + bytes;
            }
        }
    }
    commit & MISSED != 0
}

fn word(page: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(page[at..at + 4].try_into().expect("four bytes"))
}

fn long(page: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(page[at..at + 8].try_into().expect("eight bytes"))
}
