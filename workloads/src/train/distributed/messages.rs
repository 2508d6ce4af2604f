//! Messages of `guestscope.train.v1.ParameterServer` between server and workers, written as prost derives
//! them, so that no build needs protoc. Rows of numbers travel as chunks of little-endian single precision.
//!
//! ```proto
//! service ParameterServer {
//!   rpc Attend(stream Word) returns (stream Presence);   // from joining to leaving; silence means death
//!   rpc Pull(Wanted) returns (stream Chunk);             // a version of the parameters, once it is there
//!   rpc Push(stream Chunk) returns (Taken);              // a gradient
//! }
//! ```

use prost::Message;
use tonic::codegen::Bytes;

use crate::memory::{self, NoRoom};

/// Protocol version; increases with every change that older peers misunderstand.
pub const PROTOCOL: u32 = 1;
/// gRPC path by which a worker takes part.
pub const ATTEND: &str = "/guestscope.train.v1.ParameterServer/Attend";
/// gRPC path by which a worker gets parameters.
pub const PULL: &str = "/guestscope.train.v1.ParameterServer/Pull";
/// gRPC path by which a worker sends a gradient.
pub const PUSH: &str = "/guestscope.train.v1.ParameterServer/Push";

/// Numbers in a chunk: 1 MiB, below gRPC's default limit of 4 MiB, and enough to hide the cost per message.
pub const CHUNK_NUMBERS: usize = 1 << 18;
/// Longest message accepted, bytes: a chunk and the other fields beside it.
pub const MOST_BYTES: usize = 4 * CHUNK_NUMBERS + 256;

/// A worker's word: it joins, is there, or leaves. Without content it says only that it is there.
#[derive(Clone, PartialEq, Message)]
pub struct Word {
    /// The first word.
    #[prost(message, optional, tag = "1")]
    pub join: Option<Join>,
    /// The last word.
    #[prost(message, optional, tag = "2")]
    pub leave: Option<Leave>,
}

/// A worker's request to take part.
#[derive(Clone, PartialEq, Message)]
pub struct Join {
    /// Protocol version, see [`PROTOCOL`].
    #[prost(uint32, tag = "1")]
    pub protocol: u32,
    /// Version of this program.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Model name on the command line.
    #[prost(string, tag = "3")]
    pub model: String,
    /// Seed of the first parameters.
    #[prost(uint64, tag = "4")]
    pub seed: u64,
    /// Rank of the worker, from 0.
    #[prost(uint32, tag = "5")]
    pub rank: u32,
    /// Number of all steps, warm-up included.
    #[prost(uint64, tag = "6")]
    pub steps: u64,
    /// Images per step.
    #[prost(uint64, tag = "7")]
    pub batch: u64,
}

/// The last word of a worker.
#[derive(Clone, PartialEq, Message)]
pub struct Leave {
    /// Reason to leave early; None when all its steps are done.
    #[prost(string, optional, tag = "1")]
    pub error: Option<String>,
}

/// The server's word: it is there; the first one describes the job.
#[derive(Clone, PartialEq, Message)]
pub struct Presence {
    /// Description of the job, in the first word only.
    #[prost(message, optional, tag = "1")]
    pub welcome: Option<Welcome>,
}

/// Description of the job for a worker that joins.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Welcome {
    /// Number of workers.
    #[prost(uint32, tag = "1")]
    pub workers: u32,
    /// Whether each gradient is applied as it comes.
    #[prost(bool, tag = "2")]
    pub asynchronous: bool,
    /// Learning rate of the server's optimizer.
    #[prost(double, tag = "3")]
    pub learning_rate: f64,
}

/// A worker's request for parameters.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Wanted {
    /// Rank of the worker that gets them.
    #[prost(uint32, tag = "1")]
    pub rank: u32,
    /// Oldest version accepted.
    #[prost(uint64, tag = "2")]
    pub version: u64,
}

/// A part of a row of numbers.
#[derive(Clone, PartialEq, Message)]
pub struct Chunk {
    /// Rank of the worker that sends the gradient or gets the parameters.
    #[prost(uint32, tag = "1")]
    pub rank: u32,
    /// Version of the parameters, or of those that the gradient was computed from.
    #[prost(uint64, tag = "2")]
    pub version: u64,
    /// Numbers in single precision, little-endian.
    #[prost(bytes = "bytes", tag = "3")]
    pub values: Bytes,
}

/// A gradient was taken.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Taken {
    /// Version of the parameters after this gradient.
    #[prost(uint64, tag = "1")]
    pub version: u64,
}

/// A row as bytes.
pub fn to_bytes(values: &[f32]) -> Result<Bytes, NoRoom> {
    let mut bytes = memory::room(4 * values.len())?;
    for value in values {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    Ok(bytes.into())
}

/// A row in chunks, without copying its bytes. An empty row is one chunk without content.
pub fn chunks(row: Bytes, rank: u32, version: u64) -> impl Iterator<Item = Chunk> + Send {
    let size = 4 * CHUNK_NUMBERS;
    let count = row.len().div_ceil(size).max(1);
    (0..count).map(move |number| {
        let values = row.slice(number * size..row.len().min((number + 1) * size));
        Chunk { rank, version, values }
    })
}

/// A row being assembled from chunks, never longer than it should be.
#[derive(Debug)]
pub struct Row {
    values: Vec<f32>,
    length: usize,
}

impl Row {
    /// An empty row that takes `length` numbers.
    pub fn new(length: usize) -> Result<Self, NoRoom> {
        Ok(Self { values: memory::room(length)?, length })
    }

    /// Adds a chunk. False if it ends inside a number, or the row would become too long.
    pub fn add(&mut self, values: &[u8]) -> bool {
        let (numbers, rest) = values.as_chunks::<4>();
        if !rest.is_empty() || self.values.len() + numbers.len() > self.length {
            return false;
        }
        self.values.extend(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        true
    }

    /// Length of the complete row, numbers.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Numbers so far.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no numbers yet.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The complete row; None if numbers are missing.
    pub fn whole(self) -> Option<Vec<f32>> {
        (self.values.len() == self.length).then_some(self.values)
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use rstest::rstest;

    use super::{CHUNK_NUMBERS, MOST_BYTES, Row, chunks, to_bytes};

    #[rstest]
    #[case(0, 1)]
    #[case(5, 1)]
    #[case(CHUNK_NUMBERS, 1)]
    #[case(2 * CHUNK_NUMBERS + 1, 3)]
    fn a_row_arrives_as_it_was(#[case] length: usize, #[case] count: usize) {
        let values: Vec<f32> = (0..length).map(|number| number as f32 / 3.0).collect();
        let all: Vec<_> = chunks(to_bytes(&values).unwrap(), u32::MAX, u64::MAX).collect();
        assert_eq!(all.len(), count);
        let mut row = Row::new(length).unwrap();
        for chunk in &all {
            assert!(chunk.encoded_len() <= MOST_BYTES, "{}", chunk.encoded_len());
            assert!(row.add(&chunk.values));
        }
        assert!(!row.add(&[0; 4]), "it is full");
        assert_eq!(row.whole(), Some(values));
    }

    #[test]
    fn half_a_number_and_half_a_row_are_none() {
        let mut row = Row::new(2).unwrap();
        assert!(!row.add(&[0; 3]) && row.add(&[0; 4]) && !row.add(&[0; 8]));
        assert_eq!((row.len(), row.whole()), (1, None));
    }
}
