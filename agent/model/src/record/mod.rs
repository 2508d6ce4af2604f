//! Bytes from the rings to records: checked by kind and length, never transmuted.
//!
//! An unknown record is an error value, which the pump counts. It interprets nothing.

pub mod calls_32;

use guestscope_contract::{EdgeRecord, IoRecord, Kind, QueueRecord, TaskRecord, WaitRecord};

/// A record from the kernel side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A marker fired.
    Edge(EdgeRecord),
    /// A task was born, replaced its program, or ended.
    Task(Kind, TaskRecord),
    /// A task was off the CPU for long.
    Wait(WaitRecord),
    /// An I/O is done.
    Io(IoRecord),
    /// Who used the CPU during the wait that follows.
    Queue(QueueRecord),
}

impl Record {
    /// Time of the record, CLOCK_MONOTONIC, ns.
    pub fn time_ns(&self) -> u64 {
        match self {
            Record::Edge(edge) => edge.header.time_ns,
            Record::Task(_, task) => task.header.time_ns,
            Record::Wait(wait) => wait.header.time_ns,
            Record::Io(io) => io.header.time_ns,
            Record::Queue(queue) => queue.header.time_ns,
        }
    }
}

/// Why bytes are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The length does not fit the kind.
    #[error("record of {0} bytes")]
    Length(usize),
    /// Unknown kind of record.
    #[error("record of unknown kind: {0}")]
    Kind(u32),
}

/// Reads one record.
pub fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
    let kind = bytes.first_chunk::<4>().ok_or(DecodeError::Length(bytes.len()))?;
    let kind = u32::from_ne_bytes(*kind);
    match Kind::from_number(kind).ok_or(DecodeError::Kind(kind))? {
        Kind::Edge => Ok(Record::Edge(read(bytes)?)),
        Kind::Wait => Ok(Record::Wait(read(bytes)?)),
        Kind::Io => Ok(Record::Io(read(bytes)?)),
        Kind::Queue => Ok(Record::Queue(read(bytes)?)),
        kind @ (Kind::Fork | Kind::Exec | Kind::Exit | Kind::Rename) => Ok(Record::Task(kind, read(bytes)?)),
    }
}

/// Records are made of integers alone, so that any bytes of the right length are a value.
///
/// # Safety
/// The type must be `repr(C)`, without padding, and of integers only.
unsafe trait Plain: Copy {}
// SAFETY: integers only; the contract proves that there is no padding.
unsafe impl Plain for EdgeRecord {}
// SAFETY: as above.
unsafe impl Plain for TaskRecord {}
// SAFETY: as above.
unsafe impl Plain for WaitRecord {}
// SAFETY: as above.
unsafe impl Plain for IoRecord {}
// SAFETY: as above.
unsafe impl Plain for QueueRecord {}

fn read<T: Plain>(bytes: &[u8]) -> Result<T, DecodeError> {
    // The ring rounds up to 8 bytes, as the sizes of records do; a longer record is not ours.
    if bytes.len() != size_of::<T>() {
        return Err(DecodeError::Length(bytes.len()));
    }
    // SAFETY: the length was checked, any bytes are a value (`Plain`), and the read needs no alignment.
    Ok(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn a_record_needs_its_own_length(kind in 1_u32..9, bytes in 4_usize..600) {
            let mut record = vec![0_u8; bytes];
            record[..4].copy_from_slice(&kind.to_ne_bytes());
            let right = match kind {
                1 => size_of::<EdgeRecord>(),
                5 => size_of::<WaitRecord>(),
                6 => size_of::<IoRecord>(),
                7 => size_of::<QueueRecord>(),
                _ => size_of::<TaskRecord>(),
            };
            prop_assert_eq!(decode(&record).is_ok(), bytes == right);
        }
    }
}
