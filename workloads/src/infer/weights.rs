//! Reads a model's parameters from a safetensors file and checks that they are this model's: every tensor
//! present, of the right shape, fp32, and none of another model. Yields the bytes of a tensor piece by piece,
//! so that memory holds them once. It converts no other precision or file format.

use std::{
    collections::BTreeMap,
    fmt::Display,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use safetensors::{Dtype, SafeTensorError, tensor::Metadata};

/// Names and shapes of tensors.
pub type Shapes = BTreeMap<String, Vec<usize>>;

#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    #[error("cannot read weights: {path} ({source})")]
    Read { path: PathBuf, source: io::Error },
    #[error("weights are not a safetensors file: {path} ({reason})")]
    Format { path: PathBuf, reason: String },
    #[error("{count} of {of} tensors are missing in weights: {path} (first: {first})")]
    Missing { path: PathBuf, count: usize, of: usize, first: String },
    #[error("weights hold {count} tensors that this model does not have: {path} (first: {first})")]
    Unknown { path: PathBuf, count: usize, first: String },
    #[error("wrong shape of `{name}` in weights: {path} ({found:?} instead of {expected:?})")]
    Shape { path: PathBuf, name: String, found: Vec<usize>, expected: Vec<usize> },
    #[error("wrong type of `{name}` in weights: {path} ({found} instead of F32)")]
    Type { path: PathBuf, name: String, found: String },
}

impl WeightsError {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } => {
                "name a safetensors file that can be read, or leave --weights out to draw them by --seed"
            }
            Self::Format { .. } => "in Python: safetensors.torch.save_file(model.state_dict(), FILE)",
            Self::Missing { .. } | Self::Unknown { .. } | Self::Shape { .. } => {
                "the file must hold this model's state_dict, at the same --scale; the command's --help says whose names"
            }
            Self::Type { .. } => "save the weights in single precision: model.float().state_dict()",
        }
    }
}

/// Longest header that the format allows, bytes.
const LONGEST_HEADER: u64 = 100_000_000;
/// Bytes read at a time: a table of 648 MB is never in memory twice.
const CHUNK_BYTES: usize = 4 << 20;

/// A file whose header was read.
#[derive(Debug)]
pub struct Weights {
    file: File,
    header: Metadata,
    /// Offset of the values, bytes.
    start: u64,
    path: PathBuf,
}

impl Weights {
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let unreadable = |source| WeightsError::Read { path: path.to_owned(), source };
        let wrong =
            |error: &dyn Display| WeightsError::Format { path: path.to_owned(), reason: error.to_string() };
        let file = File::open(path).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.len();
        let mut length = [0; 8];
        if bytes < length.len() as u64 {
            return Err(wrong(&SafeTensorError::HeaderTooSmall));
        }
        file.read_exact_at(&mut length, 0).map_err(unreadable)?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST_HEADER {
            return Err(wrong(&SafeTensorError::HeaderTooLarge));
        }
        let start = length + 8;
        if start > bytes {
            return Err(wrong(&SafeTensorError::InvalidHeaderLength));
        }
        let mut header = vec![0; length as usize];
        file.read_exact_at(&mut header, 8).map_err(unreadable)?;
        let header: Metadata = serde_json::from_slice(&header).map_err(|error| wrong(&error))?;
        if start.checked_add(header.data_len() as u64) != Some(bytes) {
            return Err(wrong(&SafeTensorError::MetadataIncompleteBuffer));
        }
        Ok(Self { file, header, start, path: path.to_owned() })
    }

    /// Whether the file holds each tensor of `expected` with its shape and in fp32, and no others but those
    /// of `is_spare`.
    pub fn check(&self, expected: &Shapes, is_spare: fn(&str) -> bool) -> Result<(), WeightsError> {
        let path = || self.path.clone();
        let missing: Vec<&String> = expected.keys().filter(|name| self.header.info(name).is_none()).collect();
        if let Some(first) = missing.first() {
            let (count, of, first) = (missing.len(), expected.len(), (*first).clone());
            return Err(WeightsError::Missing { path: path(), count, of, first });
        }
        self.refuse_unknown(expected, is_spare)?;
        for (name, shape) in expected {
            let Some(info) = self.header.info(name) else { continue };
            let name = name.clone();
            if &info.shape != shape {
                let (found, expected) = (info.shape.clone(), shape.clone());
                return Err(WeightsError::Shape { path: path(), name, found, expected });
            }
            if info.dtype != Dtype::F32 {
                return Err(WeightsError::Type { path: path(), name, found: info.dtype.to_string() });
            }
        }
        Ok(())
    }

    /// A larger model of the same family can hold every name and shape of this one: the names of ResNet-101
    /// include those of ResNet-50.
    fn refuse_unknown(&self, expected: &Shapes, is_spare: fn(&str) -> bool) -> Result<(), WeightsError> {
        let mut unknown: Vec<String> = self
            .header
            .tensors()
            .into_keys()
            .filter(|name| !expected.contains_key(name) && !is_spare(name))
            .collect();
        unknown.sort_unstable();
        let count = unknown.len();
        match unknown.into_iter().next() {
            None => Ok(()),
            Some(first) => Err(WeightsError::Unknown { path: self.path.clone(), count, first }),
        }
    }

    /// Passes the little-endian bytes of a tensor to `take`, in order, in pieces of whole fp32 numbers.
    pub fn pieces<E: From<WeightsError>>(
        &self,
        name: &str,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(info) = self.header.info(name) else { return Ok(()) };
        let (from, to) = info.data_offsets;
        let mut chunk = vec![0; CHUNK_BYTES.min(to - from)];
        let mut at = from;
        while at < to {
            let piece = &mut chunk[..CHUNK_BYTES.min(to - at)];
            self.file
                .read_exact_at(piece, self.start + at as u64)
                .map_err(|source| WeightsError::Read { path: self.path.clone(), source })?;
            take(piece)?;
            at += piece.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use rstest::rstest;
    use safetensors::{Dtype, serialize, tensor::TensorView};

    use super::{Shapes, Weights, WeightsError};

    /// Opens a file of these bytes. Its name is the same in every message.
    fn open(bytes: &[u8]) -> Result<Weights, WeightsError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        std::fs::write(&path, bytes).unwrap();
        let named = |path: &mut PathBuf| *path = PathBuf::from("w.safetensors");
        match Weights::open(&path) {
            Ok(mut weights) => {
                named(&mut weights.path);
                Ok(weights)
            }
            Err(WeightsError::Format { mut path, reason }) => {
                named(&mut path);
                Err(WeightsError::Format { path, reason })
            }
            Err(error) => Err(error),
        }
    }

    /// A file of these tensors, all values 1.5.
    fn file(tensors: &[(&str, Vec<usize>, Dtype)]) -> Weights {
        let bytes: Vec<u8> = 1.5_f32.to_le_bytes().repeat(64);
        let views: BTreeMap<&str, TensorView<'_>> = tensors
            .iter()
            .map(|(name, shape, kind)| {
                let size = shape.iter().product::<usize>() * kind.bitsize() / 8;
                (*name, TensorView::new(*kind, shape.clone(), &bytes[..size]).unwrap())
            })
            .collect();
        open(&serialize(views, None).unwrap()).unwrap()
    }

    fn model() -> Shapes {
        Shapes::from([("fc.weight".to_owned(), vec![2, 3]), ("fc.bias".to_owned(), vec![2])])
    }

    #[test]
    fn takes_what_fits_and_leaves_step_counters() {
        let file = file(&[
            ("fc.weight", vec![2, 3], Dtype::F32),
            ("fc.bias", vec![2], Dtype::F32),
            ("bn1.num_batches_tracked", vec![], Dtype::I64),
        ]);
        file.check(&model(), |name| name.ends_with(".num_batches_tracked")).unwrap();
        let mut values = Vec::new();
        file.pieces("fc.weight", |piece| {
            values.extend_from_slice(piece);
            Ok::<(), WeightsError>(())
        })
        .unwrap();
        assert_eq!(values, 1.5_f32.to_le_bytes().repeat(6));
    }

    #[rstest]
    #[case::missing(
        &[("fc.weight", vec![2, 3], Dtype::F32)],
        "1 of 2 tensors are missing in weights: w.safetensors (first: fc.bias)"
    )]
    #[case::of_another_model(
        &[("fc.weight", vec![2, 3], Dtype::F32), ("fc.bias", vec![2], Dtype::F32), ("layer3.6.conv1.weight", vec![1], Dtype::F32)],
        "weights hold 1 tensors that this model does not have: w.safetensors (first: layer3.6.conv1.weight)"
    )]
    #[case::transposed(
        &[("fc.weight", vec![3, 2], Dtype::F32), ("fc.bias", vec![2], Dtype::F32)],
        "wrong shape of `fc.weight` in weights: w.safetensors ([3, 2] instead of [2, 3])"
    )]
    #[case::half_precision(
        &[("fc.weight", vec![2, 3], Dtype::F16), ("fc.bias", vec![2], Dtype::F32)],
        "wrong type of `fc.weight` in weights: w.safetensors (F16 instead of F32)"
    )]
    fn refuses_what_does_not_fit(#[case] tensors: &[(&str, Vec<usize>, Dtype)], #[case] expected: &str) {
        let error = file(tensors).check(&model(), |_| false).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    /// The last one declares three numbers and has two.
    #[rstest]
    #[case::empty(b"")]
    #[case::a_pickle(b"PK\x03\x04 archive/data.pkl and so on")]
    #[case::no_json(b"\x04\0\0\0\0\0\0\0{\"a\"")]
    #[case::header_cut_off(b"\x04\0\0\0\0\0\0\0{\"")]
    #[case::values_cut_off(
        b"\x3a\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}   12345678"
    )]
    fn refuses_another_format(#[case] bytes: &[u8]) {
        let error = open(bytes).unwrap_err().to_string();
        assert!(error.starts_with("weights are not a safetensors file: w.safetensors ("), "{error}");
    }
}
