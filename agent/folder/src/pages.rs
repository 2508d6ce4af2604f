//! Checks all pages of a closed table before the library unpacks one: the library reserves the memory that
//! their headers claim.
//!
//! Yields what is wrong, if anything. Dictionary words are checked one by one, since rows repeat them.

use std::{fs::File, os::unix::fs::FileExt as _};

use parquet::{
    basic::{Compression, Type},
    file::metadata::{ColumnChunkMetaData, ParquetMetaData},
};

use super::{
    limits::{DICTIONARY_VALUES, Deadline, Fault, PAGE_BYTES, PAGES_BYTES, VALUE_BYTES},
    thrift::{self, Listener, SHORT},
};

/// Bytes read for a header at first; ours take some 30 bytes, and up to 100 with statistics.
const HEADER_BYTES: u64 = 256;
/// And at most: statistics may have words of a table.
const LONGEST_HEADER_BYTES: u64 = 64 << 10;
/// Pages that a part of a column may have beside one for each 16 rows.
const FREE_PAGES: u64 = 1_024;

/// Numbers of encodings: those that this program writes, and those of others that reserve nothing.
const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const RLE: i64 = 3;
const DELTA_BINARY_PACKED: i64 = 5;
const RLE_DICTIONARY: i64 = 8;

/// Looks at the pages of these columns, in all groups.
pub(super) fn check(
    file: &File,
    metadata: &ParquetMetaData,
    columns: &[usize],
    deadline: &Deadline,
) -> Result<(), Fault> {
    for group in metadata.row_groups() {
        let mut largest = 0;
        for column in columns {
            let chunk = group.columns().get(*column).ok_or("a column is missing in a group")?;
            let rows = u64::try_from(group.num_rows()).unwrap_or(u64::MAX);
            if u64::try_from(chunk.num_values()) != Ok(rows) {
                return Err("a column has not as many values as its group has rows".into());
            }
            largest += Chunk::new(file, chunk, rows).check(deadline)?;
        }
        PAGES_BYTES.check(largest)?;
    }
    Ok(())
}

/// The part of a column that lies in one group.
struct Chunk<'a> {
    file: &'a File,
    kind: Type,
    compression: Compression,
    at: u64,
    end: u64,
    rows: u64,
}

impl<'a> Chunk<'a> {
    /// Its position has been checked by the caller.
    fn new(file: &'a File, chunk: &ColumnChunkMetaData, rows: u64) -> Self {
        let (at, length) = chunk.byte_range();
        let (kind, compression) = (chunk.column_type(), chunk.compression());
        Self { file, kind, compression, at, end: at.saturating_add(length), rows }
    }

    /// Memory that its pages take at once: the largest one, and the dictionary.
    fn check(mut self, deadline: &Deadline) -> Result<u64, Fault> {
        let (mut values, mut largest, mut dictionary, mut pages) = (0, 0, 0, 0);
        while values < self.rows {
            let header = self.header()?;
            pages += 1;
            if pages > FREE_PAGES + self.rows / 16 {
                return Err("a column of too many pages".into());
            }
            deadline.check()?;
            PAGE_BYTES.check(header.unpacked)?;
            if header.packed > self.end - self.at {
                return Err("a page lies outside its column".into());
            }
            match header.kind {
                Kind::Data => {
                    values += header.values;
                    largest = largest.max(header.unpacked);
                    self.check_data(&header)?;
                }
                Kind::Dictionary if pages == 1 => {
                    dictionary = header.unpacked;
                    self.check_dictionary(&header)?;
                }
                Kind::Dictionary => return Err("a dictionary in the midst of a column".into()),
            }
            self.at += header.packed;
        }
        if values > self.rows {
            return Err("pages with more values than their column".into());
        }
        Ok(largest + dictionary)
    }

    fn header(&mut self) -> Result<Header, Fault> {
        for most in [HEADER_BYTES, LONGEST_HEADER_BYTES] {
            let mut bytes = vec![0; (self.end - self.at).min(most) as usize];
            self.file.read_exact_at(&mut bytes, self.at).map_err(|error| error.to_string())?;
            let mut raw = Raw::default();
            match thrift::walk(&bytes, &mut raw) {
                Ok(length) => {
                    self.at += length as u64;
                    return raw.header();
                }
                Err(Why(SHORT)) if (bytes.len() as u64) == most => {}
                Err(Why(what)) => return Err(format!("the header of a page: {what}").into()),
            }
        }
        Err("a page with a header of more than 64 KiB".into())
    }

    fn check_data(&self, header: &Header) -> Result<(), Fault> {
        let is_known = match self.kind {
            Type::INT32 | Type::INT64 => {
                matches!(header.encoding, PLAIN | DELTA_BINARY_PACKED | PLAIN_DICTIONARY | RLE_DICTIONARY)
            }
            Type::BOOLEAN => matches!(header.encoding, PLAIN | RLE),
            Type::BYTE_ARRAY => matches!(header.encoding, PLAIN | PLAIN_DICTIONARY | RLE_DICTIONARY),
            Type::INT96 | Type::FLOAT | Type::DOUBLE | Type::FIXED_LEN_BYTE_ARRAY => false,
        };
        if !is_known {
            return Err(format!(
                "a {} in encoding {}, which no table of ours has",
                self.kind, header.encoding
            )
            .into());
        }
        // A batch takes from many pages: a page's most bytes per value are a batch's most bytes per row.
        if self.kind == Type::BYTE_ARRAY && header.encoding == PLAIN {
            let most = header.values.saturating_add(1).saturating_mul(VALUE_BYTES.most);
            if header.unpacked > most {
                return VALUE_BYTES.check(header.unpacked / header.values.max(1));
            }
        }
        Ok(())
    }

    fn check_dictionary(&self, header: &Header) -> Result<(), Fault> {
        DICTIONARY_VALUES.check(header.values)?;
        let least = match self.kind {
            Type::INT64 => 8,
            Type::INT32 | Type::BYTE_ARRAY => 4,
            Type::BOOLEAN | Type::INT96 | Type::FLOAT | Type::DOUBLE | Type::FIXED_LEN_BYTE_ARRAY => {
                return Err(format!("a dictionary of {}, which no table of ours has", self.kind).into());
            }
        };
        if header.values.saturating_mul(least) > header.unpacked {
            return Err("a dictionary of fewer bytes than words".into());
        }
        if self.kind == Type::BYTE_ARRAY && header.unpacked > VALUE_BYTES.most {
            check_words(&self.unpack(header)?)?;
        }
        Ok(())
    }

    fn unpack(&self, header: &Header) -> Result<Vec<u8>, Fault> {
        let mut packed = vec![0; header.packed as usize];
        self.file.read_exact_at(&mut packed, self.at).map_err(|error| error.to_string())?;
        match self.compression {
            Compression::UNCOMPRESSED => Ok(packed),
            Compression::ZSTD(_) => zstd::bulk::decompress(&packed, header.unpacked as usize)
                .map_err(|error| error.to_string().into()),
            Compression::SNAPPY
            | Compression::GZIP(_)
            | Compression::LZO
            | Compression::BROTLI(_)
            | Compression::LZ4
            | Compression::LZ4_RAW => Err("packed in a way that no table of ours is".into()),
        }
    }
}

/// Each stands behind its length.
fn check_words(mut page: &[u8]) -> Result<(), Fault> {
    while let Some((length, rest)) = page.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length);
        VALUE_BYTES.check(length.into())?;
        page = rest.get(length as usize..).ok_or("a word lies outside its dictionary")?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data,
    Dictionary,
}

/// The needed fields of a page's header.
#[derive(Clone, Copy, Debug)]
struct Header {
    kind: Kind,
    packed: u64,
    unpacked: u64,
    values: u64,
    encoding: i64,
}

/// Numbers of its fields as they come.
#[derive(Default)]
struct Raw {
    kind: Option<i64>,
    unpacked: i64,
    packed: i64,
    /// Fields of a page of either version of the format, and of a dictionary.
    parts: [Option<(i64, i64)>; 3],
}

/// Why a header is invalid.
struct Why(&'static str);

impl From<&'static str> for Why {
    fn from(what: &'static str) -> Self {
        Self(what)
    }
}

impl Listener for Raw {
    type Error = Why;

    fn list(&mut self, _: &[i16], _: u64) -> Result<(), Why> {
        Err(Why("a list in it"))
    }

    fn number(&mut self, path: &[i16], value: i64) {
        match path {
            [1] => self.kind = Some(value),
            [2] => self.unpacked = value,
            [3] => self.packed = value,
            [5, 1] => self.parts[0].get_or_insert_default().0 = value,
            [5, 2] => self.parts[0].get_or_insert_default().1 = value,
            [8, 1] => self.parts[1].get_or_insert_default().0 = value,
            [8, 4] => self.parts[1].get_or_insert_default().1 = value,
            [7, 1] => self.parts[2].get_or_insert_default().0 = value,
            [7, 2] => self.parts[2].get_or_insert_default().1 = value,
            _ => {}
        }
    }
}

impl Raw {
    fn header(&self) -> Result<Header, Fault> {
        let (kind, part) = match self.kind {
            Some(0) => (Kind::Data, self.parts[0]),
            Some(3) => (Kind::Data, self.parts[1]),
            Some(2) => (Kind::Dictionary, self.parts[2]),
            _ => return Err("a page of an unknown kind".into()),
        };
        let (values, encoding) = part.ok_or("a page without a number of values")?;
        let count = |value: i64| u64::try_from(i32::try_from(value).unwrap_or(-1));
        match (count(self.packed), count(self.unpacked), count(values)) {
            (Ok(packed), Ok(unpacked), Ok(values)) => Ok(Header { kind, packed, unpacked, values, encoding }),
            _ => Err("a page of less than nothing".into()),
        }
    }
}
