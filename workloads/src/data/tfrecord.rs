//! TFRecord files of labelled pictures, the format in which TensorFlow keeps ImageNet: each record has its
//! length, a checksum of that, a `tf.train.Example` and a checksum of it. Yields records as bytes, and
//! pictures with labels. It decodes no picture.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt as _,
};

use crc32c::crc32c;
use prost::{Message, Oneof, bytes::Bytes};

use crate::memory::{self, NoRoom};

/// Header of a record: its length in eight bytes, and the checksum of these.
pub const HEADER_BYTES: u64 = 12;
/// Footer of a record: the checksum of its content.
pub const FOOTER_BYTES: u64 = 4;
/// A longer record is a damaged one: ImageNet's longest picture has 15 MB.
pub const MOST_RECORD_BYTES: u64 = 256 << 20;

const ENCODED: &str = "image/encoded";
const LABEL: &str = "image/class/label";
const FORMAT: &str = "image/format";
const FILENAME: &str = "image/filename";

/// Damage of a record.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("ends inside a record")]
    Truncated,
    #[error("the checksum of a record's length is wrong")]
    Length,
    #[error("the checksum of its content is wrong")]
    Content,
    #[error("no tf.train.Example: {0}")]
    Example(String),
    #[error("no {0} in it")]
    Missing(&'static str),
    #[error("cannot be read: {}", io::Error::from_raw_os_error(*.0))]
    Read(i32),
    #[error(transparent)]
    Memory(#[from] NoRoom),
}

impl RecordError {
    /// An error of reading, by its errno; without one the file has become shorter.
    pub fn of_reading(error: &io::Error) -> Self {
        error.raw_os_error().map_or(Self::Truncated, Self::Read)
    }
}

/// TensorFlow's masked checksum: rotated and added to, so that checksums of data that contains checksums stay
/// good.
fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Writes one record.
pub fn write(to: &mut impl Write, content: &[u8]) -> io::Result<()> {
    let length = (content.len() as u64).to_le_bytes();
    to.write_all(&length)?;
    to.write_all(&masked(&length).to_le_bytes())?;
    to.write_all(content)?;
    to.write_all(&masked(content).to_le_bytes())
}

/// The length of the record that begins at `at`; none at the end of a file of `size` bytes.
pub fn length_at(file: &File, at: u64, size: u64) -> Result<Option<u64>, RecordError> {
    if at == size {
        return Ok(None);
    }
    let rest = size - at;
    if rest < HEADER_BYTES {
        return Err(RecordError::Truncated);
    }
    let mut header = [0; HEADER_BYTES as usize];
    file.read_exact_at(&mut header, at).map_err(|error| RecordError::of_reading(&error))?;
    let (length, sum) = header.split_at(8);
    let whole: [u8; 8] = length.try_into().map_err(|_| RecordError::Truncated)?;
    if sum != masked(length).to_le_bytes() || u64::from_le_bytes(whole) > MOST_RECORD_BYTES {
        return Err(RecordError::Length);
    }
    let length = u64::from_le_bytes(whole);
    if rest - HEADER_BYTES < length + FOOTER_BYTES {
        return Err(RecordError::Truncated);
    }
    Ok(Some(length))
}

/// The content of the record of `length` bytes that begins at `at`, its checksum verified.
pub fn content_at(file: &File, at: u64, length: u64) -> Result<Bytes, RecordError> {
    let mut bytes = bytes_at(file, at + HEADER_BYTES, length + FOOTER_BYTES)?;
    let sum = bytes.split_off(length as usize);
    if sum != masked(&bytes).to_le_bytes() {
        return Err(RecordError::Content);
    }
    Ok(bytes.into())
}

/// `length` bytes from `at` on.
pub fn bytes_at(file: &File, at: u64, length: u64) -> Result<Vec<u8>, RecordError> {
    let mut bytes = memory::zeros(length as usize)?;
    file.read_exact_at(&mut bytes, at).map_err(|error| RecordError::of_reading(&error))?;
    Ok(bytes)
}

/// A JPEG file and its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The file's content.
    pub jpeg: Bytes,
    /// Class number as in the record; ImageNet's own start at 1.
    pub label: i64,
}

impl Picture {
    /// The `tf.train.Example` of this picture; `name` is its file's.
    pub fn to_example(&self, name: &str) -> Vec<u8> {
        let bytes = |value: Bytes| Feature { kind: Some(Kind::Bytes(BytesList { value: vec![value] })) };
        let label = Feature { kind: Some(Kind::Int64(Int64List { value: vec![self.label] })) };
        let feature = [
            (ENCODED, bytes(self.jpeg.clone())),
            (LABEL, label),
            (FORMAT, bytes(Bytes::from_static(b"JPEG"))),
            (FILENAME, bytes(Bytes::copy_from_slice(name.as_bytes()))),
        ];
        let feature = feature.map(|(key, value)| (key.to_owned(), value)).into();
        Example { features: Some(Features { feature }) }.encode_to_vec()
    }

    /// The picture of a record; other features are skipped.
    pub fn of_example(content: Bytes) -> Result<Self, RecordError> {
        let example = Example::decode(content).map_err(|error| RecordError::Example(error.to_string()))?;
        let mut feature = example.features.unwrap_or_default().feature;
        let mut take = |key| feature.remove(key).and_then(|feature| feature.kind);
        let Some(Kind::Bytes(BytesList { value })) = take(ENCODED) else {
            return Err(RecordError::Missing(ENCODED));
        };
        let Some(Kind::Int64(Int64List { value: label })) = take(LABEL) else {
            return Err(RecordError::Missing(LABEL));
        };
        let jpeg = value.into_iter().next().ok_or(RecordError::Missing(ENCODED))?;
        Ok(Self { jpeg, label: *label.first().ok_or(RecordError::Missing(LABEL))? })
    }
}

/// `tf.train.Example` and what it is made of, as far as pictures need it.
#[derive(Clone, PartialEq, Message)]
struct Example {
    #[prost(message, optional, tag = "1")]
    features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
struct Features {
    #[prost(btree_map = "string, message", tag = "1")]
    feature: BTreeMap<String, Feature>,
}

#[derive(Clone, PartialEq, Message)]
struct Feature {
    #[prost(oneof = "Kind", tags = "1, 3")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Kind {
    #[prost(message, tag = "1")]
    Bytes(BytesList),
    #[prost(message, tag = "3")]
    Int64(Int64List),
}

#[derive(Clone, PartialEq, Message)]
struct BytesList {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    value: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct Int64List {
    #[prost(int64, repeated, tag = "1")]
    value: Vec<i64>,
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _};

    use proptest::prelude::*;

    use super::{Picture, RecordError, content_at, length_at, write};

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn records(bytes: &[u8]) -> Result<Vec<Vec<u8>>, RecordError> {
        let (file, mut at, mut found) = (file(bytes), 0, Vec::new());
        while let Some(length) = length_at(&file, at, bytes.len() as u64)? {
            found.push(content_at(&file, at, length)?.to_vec());
            at += 16 + length;
        }
        Ok(found)
    }

    /// From TensorFlow's documentation of the format: the checksums of a length of 3 and of the bytes `abc`,
    /// by a bitwise CRC-32C.
    #[test]
    fn a_record_is_framed_as_tensorflow_does() {
        let mut bytes = Vec::new();
        write(&mut bytes, b"abc").unwrap();
        let mask = |sum: u32| sum.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
        let length = [3, 0, 0, 0, 0, 0, 0, 0];
        // crc32c(length) and crc32c("abc").
        let expected = [&length[..], &mask(super::crc32c(&length)), b"abc", &mask(0x364b_3fb7)].concat();
        assert_eq!(bytes, expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_written_is_read(jpeg in proptest::collection::vec(any::<u8>(), 0..300), label in any::<i64>()) {
            let picture = Picture { jpeg: jpeg.into(), label };
            let mut bytes = Vec::new();
            write(&mut bytes, &picture.to_example("a.jpg")).unwrap();
            write(&mut bytes, &picture.to_example("b.jpg")).unwrap();
            let found = records(&bytes).unwrap();
            prop_assert_eq!(found.len(), 2);
            for content in found {
                prop_assert_eq!(&Picture::of_example(content.into()).unwrap(), &picture);
            }
        }

        /// Wherever a byte is changed or the file ends, no wrong record is taken for a good one.
        #[test]
        fn damage_is_noticed(place in 0_usize..100, bit in 0_u32..8, end in 1_usize..100) {
            let mut whole = Vec::new();
            write(&mut whole, &[7; 84]).unwrap();
            let mut changed = whole.clone();
            changed[place] ^= 1 << bit;
            prop_assert!(records(&changed).is_err());
            prop_assert_eq!(records(&whole[..end]), Err(RecordError::Truncated));
        }
    }

    #[test]
    fn what_is_no_picture_is_named() {
        let error = |content: &[u8]| Picture::of_example(content.to_vec().into()).unwrap_err().to_string();
        assert_eq!(error(b""), "no image/encoded in it");
        assert!(error(b"\xff\xff\xff").starts_with("no tf.train.Example: "));
    }
}
