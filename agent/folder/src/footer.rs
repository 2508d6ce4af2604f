//! The footer of a closed file, checked before the library reads it.
//!
//! Yields its metadata. The library reserves memory for claimed list lengths, 0.7 KB for a byte, and reads
//! columns within columns by recursion.

use std::{fs::File, os::unix::fs::FileExt as _};

use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::{
    limits::{CHUNKS, COLUMNS, FOOTER_BYTES, FOOTER_ENTRIES, Fault, Limit, ROW_GROUPS},
    thrift::{self, Listener},
};

/// Last bytes of a file, after the length of its footer.
const MAGIC: &[u8; 4] = b"PAR1";
/// Length and magic number.
const TAIL_BYTES: u64 = 8;

/// Reads it.
pub(super) fn read(file: &File, file_bytes: u64) -> Result<ParquetMetaData, Fault> {
    let no_table = || Fault::from("not a Parquet file");
    let before_tail = file_bytes.checked_sub(TAIL_BYTES).ok_or_else(no_table)?;
    let mut tail = [0; TAIL_BYTES as usize];
    file.read_exact_at(&mut tail, before_tail).map_err(|error| error.to_string())?;
    let [a, b, c, d, magic @ ..] = tail;
    if magic != *MAGIC {
        return Err(no_table());
    }
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    FOOTER_BYTES.check(length)?;
    let begin = before_tail.checked_sub(length).ok_or("the footer is longer than the file")?;
    let mut footer = vec![0; length as usize];
    file.read_exact_at(&mut footer, begin).map_err(|error| error.to_string())?;
    thrift::walk(&footer, &mut Counted::default())?;
    ParquetMetaDataReader::decode_metadata(&footer).map_err(|error| error.to_string().into())
}

/// Entries of its lists.
#[derive(Default)]
struct Counted {
    schema: u64,
    groups: u64,
    chunks: u64,
    others: u64,
}

impl Listener for Counted {
    type Error = Fault;

    fn list(&mut self, path: &[i16], length: u64) -> Result<(), Fault> {
        let (sum, limit): (&mut u64, Limit) = match path {
            [2] => (&mut self.schema, COLUMNS),
            [4] => (&mut self.groups, ROW_GROUPS),
            [4, 1] => (&mut self.chunks, CHUNKS),
            _ => (&mut self.others, FOOTER_ENTRIES),
        };
        *sum += length;
        limit.check(*sum)
    }

    fn number(&mut self, _: &[i16], _: i64) {}
}
