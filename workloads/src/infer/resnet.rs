//! ResNet-50 v1.5 through tch: the stride of a bottleneck sits in its 3 x 3 convolution (`conv2` in
//! tch::vision::resnet, read there and checked by `tests` against torchvision's logits; v1 has it in `conv1`).
//! Tensor names are torchvision's, without any mapping. It only runs forward and never trains.

use std::path::Path;

use tch::{Device, Kind, Tensor, nn, vision::resnet::resnet50};

use super::{
    RESNET50, RESNET50_PARAMETERS, libtorch,
    weights::{Shapes, Weights},
};
use crate::{data::random::Random, digest::Digest, error::Error};

/// Goes up when the same seed gives other weights than before.
const WEIGHTS_VERSION: u64 = 1;
const CLASSES: i64 = 1000;

/// The model with its parameters, for inference on the CPU in fp32.
pub struct ResNet50 {
    store: nn::VarStore,
    network: Box<dyn nn::ModuleT>,
    /// Of everything that decides the parameters.
    pub digest: Digest,
}

impl ResNet50 {
    /// Parameters drawn from `seed`; the same on every machine, since no generator of libtorch takes part.
    pub fn seeded(seed: u64) -> Result<Self, Error> {
        let mut model = Self::empty()?;
        for (name, mut tensor) in model.store.variables() {
            let values = seeded_values(&name, &tensor.size(), seed);
            let source = Tensor::f_from_slice(&values)?.f_view(tensor.size().as_slice())?;
            tch::no_grad(|| tensor.f_copy_(&source))?;
        }
        model.digest.text("seeded").u64(WEIGHTS_VERSION).u64(seed);
        Ok(model)
    }

    /// Parameters from a safetensors file with torchvision's names.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let mut model = Self::empty()?;
        let weights = Weights::read(path)?;
        let tensors = weights.tensors(&model.shapes())?;
        for (name, mut tensor) in model.store.variables() {
            let shape: Vec<i64> = tensor.size();
            let bytes = tensors[&name];
            let source = Tensor::f_from_data_size(bytes, &shape, Kind::Float)?;
            tch::no_grad(|| tensor.f_copy_(&source))?;
        }
        model.digest.text("file").bytes(weights.bytes());
        Ok(model)
    }

    /// The model with libtorch's own first values, its number of parameters checked.
    fn empty() -> Result<Self, Error> {
        let mut store = nn::VarStore::new(Device::Cpu);
        let network = Box::new(resnet50(&store.root(), CLASSES));
        store.freeze();
        let model = Self { store, network, digest: Digest::default() };
        let (found, expected) = (model.parameters(), RESNET50_PARAMETERS.cast_signed());
        if found != expected {
            return Err(Error::Parameters { model: RESNET50, found, expected });
        }
        Ok(model)
    }

    /// How many numbers training would change (so without the running statistics of batch normalisation).
    pub fn parameters(&self) -> i64 {
        self.store.trainable_variables().iter().map(|tensor| tensor.numel() as i64).sum()
    }

    /// Name and shape of every tensor, the running statistics included.
    pub fn shapes(&self) -> Shapes {
        let shape = |tensor: &Tensor| tensor.size().into_iter().map(|side| side as usize).collect();
        self.store.variables().iter().map(|(name, tensor)| (name.clone(), shape(tensor))).collect()
    }

    /// Logits `[batch, 1000]` for pictures `[batch, 3, 224, 224]`.
    pub fn logits(&self, pictures: &Tensor) -> Result<Tensor, Error> {
        libtorch::catch(|| {
            let _guard = tch::no_grad_guard();
            self.network.forward_t(pictures, false)
        })
    }
}

/// He's uniform initialisation for convolutions, so that activations keep their size through the depth; batch
/// normalisation as after no training. The last normalisation of a block starts at 0.25: 16 blocks then raise the
/// variance by (1 + 1/16)^16 = 2.6 instead of 2^16, and the softmax stays a distribution.
fn seeded_values(name: &str, shape: &[i64], seed: u64) -> Vec<f32> {
    let count = shape.iter().product::<i64>() as usize;
    let fan_in = shape.iter().skip(1).product::<i64>() as f64;
    let bound = match (name, shape.len()) {
        ("fc.weight", _) => (1.0 / fan_in).sqrt(),
        (_, 4) => (6.0 / fan_in).sqrt(),
        _ if name.ends_with("bn3.weight") => return vec![0.25; count],
        _ if name.ends_with(".running_var") || name.ends_with(".weight") => return vec![1.0; count],
        _ => return vec![0.0; count],
    } as f32;
    let mut stream = Digest::default();
    stream.text(name);
    let mut random = Random::new(seed, stream.value());
    (0..count).map(|_| random.uniform(-bound, bound)).collect()
}
