//! Programs that untracked threads executed since the last look.

use aya::maps::RingBuf;
use guestscope_contract::{Counter, StartRecord};

use super::loaded::Loaded;

/// A program that another process executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Process ID, in the initial namespace.
    pub pid: u32,
    /// The file as it was given to execve: any bytes, the first 111.
    pub file: Vec<u8>,
}

impl Loaded {
    /// Those since the last call, and how many there was no room for so far. None of either without
    /// [`LoadOptions::starts`](super::LoadOptions::starts), or where the kernel's structure is unknown.
    pub fn starts(&mut self) -> (Vec<Started>, u64) {
        if self.starts.is_none() {
            let map = self.ebpf.take_map("STARTS");
            self.starts = map.and_then(|map| RingBuf::try_from(map).ok()).map(Box::new);
        }
        let mut starts = Vec::new();
        while let Some(item) = self.starts.as_mut().and_then(|ring| ring.next()) {
            starts.extend(decode(&item));
        }
        (starts, self.counters().map_or(0, |counts| counts.of(Counter::LostStart)))
    }
}

fn decode(bytes: &[u8]) -> Option<Started> {
    if bytes.len() != size_of::<StartRecord>() {
        return None;
    }
    // SAFETY: the length was checked, the record is of integers only without padding, and the read needs no
    // alignment.
    let record = unsafe { bytes.as_ptr().cast::<StartRecord>().read_unaligned() };
    let end = record.file.iter().position(|byte| *byte == 0).unwrap_or(record.file.len());
    Some(Started { pid: record.pid, file: record.file[..end].to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_and_what_is_none_is_left_out() {
        let mut bytes = vec![0; size_of::<StartRecord>()];
        bytes[8..12].copy_from_slice(&77_u32.to_ne_bytes());
        bytes[16..21].copy_from_slice(b"/bin\0");
        let started = Started { pid: 77, file: b"/bin".to_vec() };
        assert_eq!(decode(&bytes), Some(started));
        bytes[16..].fill(b'x');
        assert_eq!(decode(&bytes).map(|started| started.file.len()), Some(112));
        assert_eq!(decode(&bytes[1..]), None);
    }
}
