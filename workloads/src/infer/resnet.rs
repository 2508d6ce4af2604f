//! ResNet-50 v1.5 through tch: the stride of a bottleneck sits in its 3 x 3 convolution (`conv2` in
//! tch::vision::resnet, read there and checked by `tests` against torchvision's logits; v1 has it in `conv1`).
//! Tensor names are torchvision's, without any mapping. It only runs forward and never trains.

use std::path::Path;

use tch::{Device, Kind, Tensor, nn, vision::resnet::resnet50};

use super::{
    RESNET50, RESNET50_PARAMETERS, libtorch,
    seeded::{self, WEIGHTS_VERSION},
    weights::{Shapes, Weights},
};
use crate::{digest::Digest, error::Error};

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
        seeded::fill(&model.store, seed)?;
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
