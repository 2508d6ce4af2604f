//! Reads a model's parameters from a safetensors file and checks that they are this model's: every tensor there,
//! of the right shape, fp32, and none that belongs to another model. Yields the bytes per tensor name. Names are
//! torchvision's. It converts nothing: no other precision, no other file format.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use safetensors::{Dtype, SafeTensors};

/// Name of a tensor and its shape.
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
            Self::Format { .. } => {
                "in Python: safetensors.torch.save_file(torchvision.models.resnet50(weights=...).state_dict(), FILE)"
            }
            Self::Missing { .. } | Self::Unknown { .. } | Self::Shape { .. } => {
                "the file must hold this model's state_dict with torchvision's names, for example layer1.0.conv1.weight"
            }
            Self::Type { .. } => "save the weights in single precision: model.float().state_dict()",
        }
    }
}

/// The content of a file, checked against a model.
pub struct Weights {
    bytes: Vec<u8>,
    path: PathBuf,
}

impl Weights {
    pub fn read(path: &Path) -> Result<Self, WeightsError> {
        let bytes = fs::read(path).map_err(|source| WeightsError::Read { path: path.to_owned(), source })?;
        Ok(Self { bytes, path: path.to_owned() })
    }

    /// All bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The values of each tensor in `expected` as little-endian fp32.
    pub fn tensors(&self, expected: &Shapes) -> Result<BTreeMap<String, &[u8]>, WeightsError> {
        let path = || self.path.clone();
        let file = SafeTensors::deserialize(&self.bytes)
            .map_err(|error| WeightsError::Format { path: path(), reason: error.to_string() })?;
        let missing: Vec<&String> = expected.keys().filter(|name| file.tensor(name).is_err()).collect();
        if let Some(first) = missing.first() {
            let first = (*first).clone();
            return Err(WeightsError::Missing {
                path: path(),
                count: missing.len(),
                of: expected.len(),
                first,
            });
        }
        self.refuse_unknown(&file, expected)?;
        let mut tensors = BTreeMap::new();
        for (name, view) in file.tensors() {
            let Some(shape) = expected.get(&name) else { continue };
            if view.shape() != shape {
                let (found, expected) = (view.shape().to_vec(), shape.clone());
                return Err(WeightsError::Shape { path: path(), name, found, expected });
            }
            if view.dtype() != Dtype::F32 {
                return Err(WeightsError::Type { path: path(), name, found: view.dtype().to_string() });
            }
            tensors.insert(name, view.data());
        }
        Ok(tensors)
    }

    /// A larger model of the same family can hold every name and shape of this one: the names of ResNet-101 include
    /// those of ResNet-50. Batch normalisation's counters of training steps are no parameters, so they may be there.
    fn refuse_unknown(&self, file: &SafeTensors<'_>, expected: &Shapes) -> Result<(), WeightsError> {
        let mut unknown: Vec<&str> = file
            .names()
            .into_iter()
            .filter(|name| !expected.contains_key(*name) && !name.ends_with(".num_batches_tracked"))
            .collect();
        unknown.sort_unstable();
        match unknown.first() {
            None => Ok(()),
            Some(first) => {
                let (count, first) = (unknown.len(), (*first).to_owned());
                Err(WeightsError::Unknown { path: self.path.clone(), count, first })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use rstest::rstest;
    use safetensors::{Dtype, serialize, tensor::TensorView};

    use super::{Shapes, Weights};

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
        Weights { bytes: serialize(views, None).unwrap(), path: PathBuf::from("w.safetensors") }
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
        let tensors = file.tensors(&model()).unwrap();
        assert_eq!(tensors.keys().collect::<Vec<_>>(), ["fc.bias", "fc.weight"]);
        assert_eq!(tensors["fc.weight"], 1.5_f32.to_le_bytes().repeat(6));
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
        assert_eq!(file(tensors).tensors(&model()).unwrap_err().to_string(), expected);
    }

    #[rstest]
    #[case::empty(b"")]
    #[case::a_pickle(b"PK\x03\x04 archive/data.pkl and so on")]
    fn refuses_another_format(#[case] bytes: &[u8]) {
        let weights = Weights { bytes: bytes.to_vec(), path: PathBuf::from("resnet50.pth") };
        let error = weights.tensors(&model()).unwrap_err().to_string();
        assert!(error.starts_with("weights are not a safetensors file: resnet50.pth ("), "{error}");
    }
}
