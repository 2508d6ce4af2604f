//! The file system that a guest starts with: a cpio archive (format `newc`) in memory.
//!
//! Yields bytes for QEMU's `-initrd`. All files belong to root and have time 0, so that the same files give
//! the same bytes.

use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;

/// An archive under construction.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    folders: BTreeSet<String>,
}

/// The device that an entry is.
#[derive(Clone, Copy)]
struct Device {
    major: u32,
    minor: u32,
}

impl Device {
    const NONE: Self = Self { major: 0, minor: 0 };
}

impl Archive {
    /// Adds a directory once, its parents first, since the kernel makes no parents by itself.
    pub(crate) fn directory(&mut self, name: &str) {
        if let Some((around, _)) = name.rsplit_once('/') {
            self.directory(around);
        }
        if self.folders.insert(name.to_owned()) {
            self.entry(name, DIRECTORY, &[], Device::NONE);
        }
    }

    pub(crate) fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, FILE, content, Device::NONE);
    }

    pub(crate) fn program(&mut self, name: &str, content: &[u8]) {
        self.entry(name, PROGRAM, content, Device::NONE);
    }

    /// `/dev/console`: without it the first program has no output until it has mounted `/dev`.
    pub(crate) fn console(&mut self) {
        self.entry("dev/console", CONSOLE, &[], Device { major: 5, minor: 1 });
    }

    /// The finished archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[], Device::NONE);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8], device: Device) {
        self.entries += 1;
        // Inode, mode, user, group, links, time, size, device that holds the file (2 numbers), device that
        // the file is (2 numbers), length of the name with its zero, checksum (unused in this format).
        let (size, length) = (content.len() as u32, name.len() as u32 + 1);
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, device.major, device.minor, length, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    /// Name, mode, device and content.
    type Entry = (String, u32, (u32, u32), Vec<u8>);

    /// The entries, read back as the kernel does.
    fn read(bytes: &[u8]) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |number: usize| {
                let digits = &bytes[at + 6 + number * 8..][..8];
                u32::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
            };
            let (mode, size, length) = (field(1), field(6) as usize, field(11) as usize);
            let name = &bytes[at + 110..][..length - 1];
            assert_eq!(bytes[at + 110 + length - 1], 0);
            let content = (at + 110 + length).next_multiple_of(4);
            let name = String::from_utf8(name.to_vec()).unwrap();
            entries.push((name, mode, (field(9), field(10)), bytes[content..content + size].to_vec()));
            at = (content + size).next_multiple_of(4);
        }
        entries
    }

    #[test]
    fn what_goes_in_comes_out() {
        let mut archive = Archive::default();
        archive.directory("dev");
        archive.console();
        archive.directory("lib/here");
        archive.directory("lib");
        archive.program("init", b"\x7fELF.");
        archive.file("job.json", b"");
        let entries = read(&archive.finish());
        let entry =
            |name: &str, mode, device, content: &[u8]| (name.to_owned(), mode, device, content.to_vec());
        assert_eq!(
            entries,
            [
                entry("dev", 0o040_755, (0, 0), b""),
                entry("dev/console", 0o020_600, (5, 1), b""),
                entry("lib", 0o040_755, (0, 0), b""),
                entry("lib/here", 0o040_755, (0, 0), b""),
                entry("init", 0o100_755, (0, 0), b"\x7fELF."),
                entry("job.json", 0o100_644, (0, 0), b""),
                entry("TRAILER!!!", 0, (0, 0), b""),
            ]
        );
    }
}
