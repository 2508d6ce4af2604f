//! ResNet-50 v1.5 through tch: the stride of a bottleneck sits in its 3 x 3 convolution (`conv2` in
//! tch::vision::resnet, read there and checked by `tests` against torchvision's logits; v1 has it in `conv1`).
//! Tensor names are torchvision's, without any mapping. It only runs forward and never trains.

use std::path::Path;

use tch::{Kind, Tensor, nn, vision::resnet::resnet50};

use super::{
    RESNET50, RESNET50_PARAMETERS, libtorch,
    parameters::{Parameters, Source},
    seeded,
    sizing::Precision,
    weights::Shapes,
};
use crate::{digest::Digest, error::Error};

const CLASSES: i64 = 1000;

/// The model with its parameters, for inference.
pub struct ResNet50 {
    parameters: Parameters,
    network: Box<dyn nn::ModuleT>,
    precision: Precision,
}

impl ResNet50 {
    /// Parameters drawn from `seed`; the same on every machine, since no generator of libtorch takes part.
    pub fn seeded(seed: u64) -> Result<Self, Error> {
        Self::new(None, seed, Precision::Fp32)
    }

    /// Parameters from a safetensors file with torchvision's names.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        Self::new(Some(path), 0, Precision::Fp32)
    }

    /// Parameters from a file, else drawn from `seed`.
    pub fn new(weights: Option<&Path>, seed: u64, precision: Precision) -> Result<Self, Error> {
        let (network, mut parameters) =
            Parameters::build(RESNET50, RESNET50_PARAMETERS, |root| Box::new(resnet50(root, CLASSES)))?;
        // Batch normalisation's counters of training steps are no parameters.
        let is_spare = |name: &str| name.ends_with(".num_batches_tracked");
        let rule = seeded::convolutional;
        parameters.fill(&Source { weights, seed, rule, is_spare, precision })?;
        Ok(Self { parameters, network, precision })
    }

    /// Of everything that decides the parameters.
    pub fn digest(&self) -> Digest {
        self.parameters.digest
    }

    /// How many numbers training would change (so without the running statistics of batch normalisation).
    pub fn parameters(&self) -> i64 {
        self.parameters.count()
    }

    /// Name and shape of every tensor, the running statistics included.
    pub fn shapes(&self) -> Shapes {
        self.parameters.shapes()
    }

    /// Logits `[batch, 1000]` for pictures `[batch, 3, 224, 224]`, both in fp32.
    pub fn logits(&self, pictures: &Tensor) -> Result<Tensor, Error> {
        let pictures = libtorch::upload(pictures)?;
        let logits = libtorch::catch(|| {
            let _guard = tch::no_grad_guard();
            let logits = self.network.forward_t(&pictures.to_kind(self.precision.kind()), false);
            logits.to_kind(Kind::Float)
        })?;
        libtorch::download(logits)
    }
}
