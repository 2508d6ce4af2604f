//! The kernel's log, for its line about a new generation of the virtual machine.
//!
//! From 5.18 on the kernel then reseeds its random numbers, and logs it. In most kernels there is no other
//! sign: a device event came with 6.8 and went with 6.9. Any process that may write to the log may write such
//! a line, but not as the kernel: records of others have another facility.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::OpenOptionsExt as _,
    },
    path::Path,
};

use super::records::Records;

/// The log's device.
pub const PATH: &str = "/dev/kmsg";
/// Longest record with its prefix and fields: the kernel's own buffer has 8 KiB, and newer ones need no more
/// than 2.
const RECORD: usize = 8192;
/// The line's text, which begins with the subsystem's name.
const LINE: &[u8] = b"random: crng reseeded due to virtual machine fork";

/// The log, from its opening on.
#[derive(Debug)]
pub struct KernelLog {
    file: File,
}

impl KernelLog {
    /// Opens it behind its present content. Where `dmesg_restrict` is set that needs CAP_SYSLOG; reading does
    /// not.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file })
    }

    /// Whether the next record is the kernel's report of a new generation. `WouldBlock` where there is none.
    pub fn next_tells(&mut self) -> io::Result<bool> {
        let mut record = [0; RECORD];
        match self.file.read(&mut record) {
            Ok(length) => Ok(tells(&record[..length])),
            // EPIPE: records were overwritten before they were read; the next one is the oldest that is left.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl AsRawFd for KernelLog {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl Records for KernelLog {
    const NAME: &'static str = "the kernel's log";

    fn next_tells(&mut self) -> io::Result<bool> {
        self.next_tells()
    }
}

/// Whether a record is the kernel's own report: `PRIORITY,NUMBER,TIME,FLAGS;TEXT`, of which the priority
/// holds the facility in all but its lowest three bits, 0 for the kernel.
fn tells(record: &[u8]) -> bool {
    let Some(semicolon) = record.iter().position(|&byte| byte == b';') else { return false };
    let (prefix, text) = (&record[..semicolon], &record[semicolon + 1..]);
    let priority = prefix.split(|&byte| byte == b',').next().and_then(|word| std::str::from_utf8(word).ok());
    let facility = priority.and_then(|word| word.parse::<u64>().ok()).map(|priority| priority >> 3);
    facility == Some(0) && text.split(|&byte| byte == b'\n').next() == Some(LINE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::tells;

    /// The first is Linux 6.12's own, in a guest of QEMU that was restored with another generation.
    #[rstest]
    #[case::as_it_is("5,369,11840004,-;random: crng reseeded due to virtual machine fork\n", true)]
    #[case::with_a_caller("5,7,1,-,caller=T1;random: crng reseeded due to virtual machine fork\n", true)]
    #[case::with_fields("5,7,1,-;random: crng reseeded due to virtual machine fork\n DEVICE=x\n", true)]
    #[case::a_program_wrote_it("13,7,1,-;random: crng reseeded due to virtual machine fork\n", false)]
    #[case::in_a_field("5,7,1,-;usb\n X=random: crng reseeded due to virtual machine fork\n", false)]
    #[case::another_line("5,7,1,-;random: crng init done\n", false)]
    #[case::more_words("5,7,1,-;random: crng reseeded due to virtual machine forks\n", false)]
    #[case::behind_others("5,7,1,-;x random: crng reseeded due to virtual machine fork\n", false)]
    #[case::no_priority(",7,1,-;random: crng reseeded due to virtual machine fork\n", false)]
    #[case::negative("-5,7,1,-;random: crng reseeded due to virtual machine fork\n", false)]
    #[case::no_prefix("random: crng reseeded due to virtual machine fork\n", false)]
    #[case::empty("", false)]
    fn only_the_kernel_s_own_line_tells(#[case] record: &str, #[case] expected: bool) {
        assert_eq!(tells(record.as_bytes()), expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(record in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(!tells(&record));
        }
    }
}
