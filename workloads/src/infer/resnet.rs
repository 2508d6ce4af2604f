//! ResNet-50 v1.5: the stride of a bottleneck is in its 3 x 3 convolution, `conv2` (checked by `tests`
//! against torchvision's logits; v1 has it in `conv1`). Tensor names are torchvision's, without any mapping.
//! Yields the network, which training uses as well, and logits for pictures.
//!
//! `tch::vision::resnet` is the same network to the bit, but makes a new tensor for each sum and each ReLU,
//! where torchvision overwrites one that is no longer needed: by the shapes, 1.9 GB of new tensors in a step
//! of 32 images.

use std::path::Path;

use tch::{
    Kind, Tensor,
    nn::{self, Module as _, ModuleT},
};

use super::{
    RESNET50, RESNET50_PARAMETERS, libtorch,
    parameters::{Parameters, Source},
    seeded,
    sizing::Precision,
    weights::Shapes,
};
use crate::{digest::Digest, error::Error};

const CLASSES: i64 = 1000;
/// Bottlenecks of each of the four stages.
const BLOCKS: [i64; 4] = [3, 4, 6, 3];
/// Output channels of a bottleneck per channel of its middle convolution.
const EXPANSION: i64 = 4;

/// The model with its parameters, for inference.
pub struct ResNet50 {
    parameters: Parameters,
    network: Box<dyn ModuleT>,
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
            Parameters::build(RESNET50, RESNET50_PARAMETERS, |root| Box::new(network(root, CLASSES)))?;
        // Batch normalisation's counters of training steps are no parameters.
        let is_spare = |name: &str| name.ends_with(".num_batches_tracked");
        let rule = seeded::convolutional;
        parameters.fill(&Source { weights, seed, rule, is_spare, precision })?;
        Ok(Self { parameters, network, precision })
    }

    /// Hash of everything that decides the parameters.
    pub fn digest(&self) -> Digest {
        self.parameters.digest
    }

    /// Number of trainable values (without the running statistics of batch normalisation).
    pub fn parameters(&self) -> i64 {
        self.parameters.count()
    }

    /// Name and shape of every tensor, the running statistics included.
    pub fn shapes(&self) -> Shapes {
        self.parameters.shapes()
    }

    /// Logits `[batch, 1000]` for pictures `[batch, 3, 224, 224]`, both in fp32.
    pub fn logits(&self, pictures: &Tensor) -> Result<Tensor, Error> {
        let pictures = libtorch::upload(|| libtorch::send(pictures))?;
        let logits = libtorch::catch(|| {
            let _guard = tch::no_grad_guard();
            let logits = self.network.forward_t(&pictures.to_kind(self.precision.kind()), false);
            logits.to_kind(Kind::Float)
        })?;
        libtorch::download(logits)
    }
}

/// Takes pictures `[batch, 3, side, side]` and gives logits `[batch, classes]`.
pub fn network(root: &nn::Path, classes: i64) -> impl ModuleT + use<> {
    let stem = Convolution::new(root / "conv1", root / "bn1", (3, 64), 7, 2);
    let mut stages = nn::seq_t();
    let mut from = 64;
    for (stage, blocks) in (0_i64..).zip(BLOCKS) {
        let path = root / format!("layer{}", stage + 1);
        let width = 64 << stage;
        for block in 0..blocks {
            // The first block of each stage but the first halves the sides; the first stage comes after the
            // pooling.
            let stride = if block == 0 && stage > 0 { 2 } else { 1 };
            stages = stages.add(Bottleneck::new(&(&path / block), (from, width), stride));
            from = width * EXPANSION;
        }
    }
    let classify = nn::linear(root / "fc", from, classes, nn::LinearConfig::default());
    nn::func_t(move |pictures, is_training| {
        let seen = stem.forward(pictures, is_training).relu_();
        let seen = seen.max_pool2d([3, 3], [2, 2], [1, 1], [1, 1], false);
        let seen = stages.forward_t(&seen, is_training);
        classify.forward(&seen.adaptive_avg_pool2d([1, 1]).flat_view())
    })
}

/// A convolution without bias, followed by batch normalisation.
#[derive(Debug)]
struct Convolution {
    convolve: nn::Conv2D,
    normalise: nn::BatchNorm,
}

impl Convolution {
    /// A convolution of `size` x `size` pixels, padded so that a stride of 1 keeps the sides.
    fn new(path: nn::Path, normalised: nn::Path, (from, to): (i64, i64), size: i64, stride: i64) -> Self {
        let config = nn::ConvConfig { stride, padding: size / 2, bias: false, ..Default::default() };
        let convolve = nn::conv2d(path, from, to, size, config);
        Self { convolve, normalise: nn::batch_norm2d(normalised, to, nn::BatchNormConfig::default()) }
    }

    /// The caller may overwrite the output: nothing else refers to it, and no gradient needs it.
    fn forward(&self, seen: &Tensor, is_training: bool) -> Tensor {
        self.normalise.forward_t(&self.convolve.forward(seen), is_training)
    }
}

/// Three convolutions, of which the middle one is narrow, and a shortcut that adds the input.
#[derive(Debug)]
struct Bottleneck {
    convolutions: [Convolution; 3],
    /// Convolution of the shortcut, if channels or sides change.
    shortcut: Option<Convolution>,
}

impl Bottleneck {
    fn new(path: &nn::Path, (from, width): (i64, i64), stride: i64) -> Self {
        let to = width * EXPANSION;
        let convolution = |at: &str, channels, size, stride| {
            Convolution::new(path / format!("conv{at}"), path / format!("bn{at}"), channels, size, stride)
        };
        let convolutions = [
            convolution("1", (from, width), 1, 1),
            convolution("2", (width, width), 3, stride),
            convolution("3", (width, to), 1, 1),
        ];
        let changes = from != to || stride != 1;
        let shortcut = changes.then(|| {
            let path = path / "downsample";
            Convolution::new(&path / "0", &path / "1", (from, to), 1, stride)
        });
        Self { convolutions, shortcut }
    }
}

impl ModuleT for Bottleneck {
    fn forward_t(&self, given: &Tensor, is_training: bool) -> Tensor {
        let [narrow, middle, wide] = &self.convolutions;
        let seen = narrow.forward(given, is_training).relu_();
        let seen = middle.forward(&seen, is_training).relu_();
        let mut seen = wide.forward(&seen, is_training);
        let mut sum = match &self.shortcut {
            Some(shortcut) => seen.g_add_(&shortcut.forward(given, is_training)),
            None => seen.g_add_(given),
        };
        sum.relu_()
    }
}
