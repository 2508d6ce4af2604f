//! Memory of the rings' mappings.
//!
//! The kernel maps a ring's data twice, one copy behind the other, so that a record across the end is read in
//! one piece, and enters all pages into the page table at once: they count twice in the resident set. Of the
//! second copy nothing is read beyond the longest record.

use std::{fs, io};

use crate::own_mappings::{self, Mapping};

/// What stays of a second copy: more than the longest record, of us (640 B) and of aya's log (8 KiB).
const KEPT: usize = 16 << 10;
/// What the kernel names mappings of its maps.
const NAME: &str = "anon_inode:bpf-map";

/// Takes what is never read out of this process's page table. The rings themselves keep their pages.
///
/// # Errors
/// Mappings cannot be listed, or the kernel refuses: the pages count twice.
pub(super) fn trim() -> io::Result<()> {
    let maps = fs::read_to_string(own_mappings::PATH)?;
    for unread in own_mappings::parse(&maps).filter_map(|mapping| unread(&mapping)) {
        // SAFETY: no record reaches it: one begins in the first copy and is shorter than what stays of the
        // second.
        unsafe { own_mappings::release(&unread) }?;
    }
    Ok(())
}

/// The unread part of a mapping. A ring's data follow one page of positions, which the offset skips: it is
/// that of the second page, and as large as one.
fn unread(mapping: &Mapping<'_>) -> Option<std::ops::Range<usize>> {
    let page = usize::try_from(mapping.offset).ok()?;
    let is_ring = mapping.name == NAME && mapping.access == "r--s" && page > 0;
    let data = (mapping.end.checked_sub(mapping.start)?).checked_sub(page).filter(|_| is_ring)? / 2;
    let kept = KEPT.next_multiple_of(page);
    (data.is_power_of_two() && data > kept).then(|| mapping.start + page + data + kept..mapping.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_ring_the_second_copy_is_unread_but_for_a_record() {
        let of = |line| own_mappings::parse(line).next().and_then(|mapping| unread(&mapping));
        let (page, ring) = (0x1000, 0x10_0000);
        let range = of("10000000-10201000 r--s 00001000 00:0e 1054 anon_inode:bpf-map");
        assert_eq!(range, Some(0x1000_0000 + page + ring + KEPT..0x1020_1000));
        // Positions of the reader, an array, a small ring, and a file.
        assert_eq!(of("10000000-10001000 rw-s 00000000 00:0e 1054 anon_inode:bpf-map"), None);
        assert_eq!(of("10000000-10200000 r--s 00000000 00:0e 1054 anon_inode:bpf-map"), None);
        assert_eq!(of("10000000-10005000 r--s 00001000 00:0e 1054 anon_inode:bpf-map"), None);
        assert_eq!(of("10000000-10201000 r--s 00001000 00:0e 1054 /tmp/file"), None);
    }
}
