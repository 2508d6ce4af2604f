//! What this process has mapped.

use std::{fs, io};

/// The list, as the kernel gives it.
pub(crate) const PATH: &str = "/proc/self/maps";

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping<'a> {
    /// First address.
    pub(crate) start: usize,
    /// The address behind its last.
    pub(crate) end: usize,
    /// What may be done, such as `r-xp`.
    pub(crate) access: &'a str,
    /// Its begin in the file, in bytes.
    pub(crate) offset: u64,
    /// The file; empty for memory without one.
    pub(crate) name: &'a str,
}

/// The mappings of such a list; lines of another form are left out.
pub(crate) fn parse(maps: &str) -> impl Iterator<Item = Mapping<'_>> {
    maps.lines().filter_map(|line| {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let (access, offset) = (fields.next()?, u64::from_str_radix(fields.next()?, 16).ok()?);
        let address = |text: &str| usize::from_str_radix(text, 16).ok();
        let name = fields.nth(2).unwrap_or_default().trim_start();
        Some(Mapping { start: address(start)?, end: address(end)?, access, offset, name })
    })
}

/// Takes pages out of this process's page table.
///
/// # Safety
/// The range must be of whole pages of mappings whose pages the kernel finds again, or that nobody reads.
///
/// # Errors
/// The kernel refuses: the pages stay.
pub(crate) unsafe fn release(range: &std::ops::Range<usize>) -> io::Result<()> {
    // SAFETY: as the caller promises.
    let outcome = unsafe { libc::madvise(range.start as *mut _, range.len(), libc::MADV_DONTNEED) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes this program's code out of the page table, once it has started: the kernel enters again what still
/// runs, from the page cache, and 3 MB that only loading and attaching need stay out of the resident set.
///
/// # Errors
/// Mappings cannot be listed, or the kernel refuses.
pub fn release_code() -> io::Result<()> {
    let maps = fs::read_to_string(PATH)?;
    let program = fs::read_link("/proc/self/exe")?;
    let is_code = |mapping: &Mapping<'_>| mapping.access == "r-xp" && program.as_os_str() == mapping.name;
    for Mapping { start, end, .. } in parse(&maps).filter(is_code) {
        // SAFETY: nothing writes to code, so the file has all of it.
        unsafe { release(&(start..end)) }?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_mapping() {
        let lines = "560000000000-560000001000 r-xp 00002000 fe:00 77                         /opt/an agent\n\
                     7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \nno mapping\n";
        let all: Vec<Mapping<'_>> = parse(lines).collect();
        let file = Mapping {
            start: 0x5600_0000_0000,
            end: 0x5600_0000_1000,
            access: "r-xp",
            offset: 0x2000,
            name: "/opt/an agent",
        };
        assert_eq!((all.len(), all[0], all[1].name), (2, file, ""));
    }
}
