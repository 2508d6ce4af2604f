//! The networks, with torchvision's tensor names where torchvision has them. Yields modules that map images
//! to logits, their parameters counted. AlexNet of tch 0.26 has another second convolution than torchvision's
//! (stride 2 instead of 1), so both AlexNets are defined here.

use tch::{
    Tensor,
    nn::{self, ModuleT},
    vision::inception,
};

use super::Model;
use crate::{
    error::{Error, Smaller},
    infer::{resnet, seeded},
    libtorch,
};

/// A network that can be trained.
pub struct Network {
    /// Its tensors by name.
    pub store: nn::VarStore,
    module: Box<dyn ModuleT>,
}

impl Network {
    /// A network with parameters drawn from `seed`.
    pub fn seeded(model: &Model, seed: u64) -> Result<Self, Error> {
        // A gradient for each parameter; at the server, a worker's gradient.
        libtorch::room_for(model.what, 2 * model.parameters, Smaller::Nothing)?;
        let store = nn::VarStore::new(libtorch::device());
        let module = libtorch::catch(|| build(model, &store.root()))
            .map_err(|error| error.of_model(model.what, Smaller::Nothing))?;
        let network = Self { store, module };
        let (found, expected) = (network.parameters(), model.parameters.cast_signed());
        if found != expected {
            return Err(Error::Parameters { model: model.what, found, expected });
        }
        seeded::fill(&network.store, seed)?;
        Ok(network)
    }

    /// Number of trainable parameters.
    pub fn parameters(&self) -> i64 {
        self.store.trainable_variables().iter().map(|tensor| tensor.numel() as i64).sum()
    }

    /// Logits `[batch, classes]` of images `[batch, channels, side, side]` in evaluation mode.
    pub fn evaluate(&self, images: &Tensor) -> Result<Tensor, Error> {
        libtorch::catch(|| tch::no_grad(|| self.module.forward_t(images, false)))
    }

    /// Logits `[batch, classes]` of images `[batch, channels, side, side]` in training mode.
    pub fn train(&self, images: &Tensor) -> Result<Tensor, Error> {
        libtorch::catch(|| self.module.forward_t(images, true))
    }
}

fn build(model: &Model, root: &nn::Path) -> Box<dyn ModuleT> {
    let classes = i64::from(model.classes);
    match model.name {
        "inception3" => Box::new(inception::v3(root, classes)),
        "resnet50" => Box::new(resnet::network(root, classes)),
        "alexnet" => Box::new(alexnet(root, classes)),
        "alexnet-tf" => Box::new(alexnet_tf(root, classes)),
        _ => Box::new(mnist(root, classes)),
    }
}

fn convolution(path: nn::Path, (from, to): (i64, i64), size: i64, stride: i64, padding: i64) -> nn::Conv2D {
    nn::conv2d(path, from, to, size, nn::ConvConfig { stride, padding, ..Default::default() })
}

/// ReLU in place: no gradient needs the layer's output from before.
fn relu(values: &Tensor) -> Tensor {
    values.shallow_clone().relu_()
}

fn pooled(images: &Tensor) -> Tensor {
    relu(images).max_pool2d([3, 3], [2, 2], [0, 0], [1, 1], false)
}

/// Three linear layers; dropout of one half on the inputs of the first two.
fn classifier(path: &nn::Path, classes: i64) -> nn::SequentialT {
    nn::seq_t()
        .add_fn_t(|values, is_training| values.dropout(0.5, is_training))
        .add(nn::linear(path / "1", 256 * 6 * 6, 4096, nn::LinearConfig::default()))
        .add_fn(relu)
        .add_fn_t(|values, is_training| values.dropout(0.5, is_training))
        .add(nn::linear(path / "4", 4096, 4096, nn::LinearConfig::default()))
        .add_fn(relu)
        .add(nn::linear(path / "6", 4096, classes, nn::LinearConfig::default()))
}

/// Five convolutions of 64, 192, 384, `channels` and 256 channels, the first of them padded by `padding`.
fn features(path: &nn::Path, padding: i64, channels: i64) -> nn::SequentialT {
    nn::seq_t()
        .add(convolution(path / "0", (3, 64), 11, 4, padding))
        .add_fn(pooled)
        .add(convolution(path / "3", (64, 192), 5, 1, 2))
        .add_fn(pooled)
        .add(convolution(path / "6", (192, 384), 3, 1, 1))
        .add_fn(relu)
        .add(convolution(path / "8", (384, channels), 3, 1, 1))
        .add_fn(relu)
        .add(convolution(path / "10", (channels, 256), 3, 1, 1))
        .add_fn(pooled)
}

/// AlexNet as in torchvision.
fn alexnet(root: &nn::Path, classes: i64) -> nn::SequentialT {
    nn::seq_t()
        .add(features(&(root / "features"), 2, 256))
        .add_fn(|images| images.adaptive_avg_pool2d([6, 6]).flat_view())
        .add(classifier(&(root / "classifier"), classes))
}

/// AlexNet as in tf_cnn_benchmarks (alexnet_model.py): dropout of one half on the outputs of two of the last
/// layers, not on their inputs.
fn alexnet_tf(root: &nn::Path, classes: i64) -> nn::SequentialT {
    let path = root / "classifier";
    nn::seq_t()
        .add(features(&(root / "features"), 0, 384))
        .add_fn(Tensor::flat_view)
        .add(nn::linear(&path / "1", 256 * 6 * 6, 4096, nn::LinearConfig::default()))
        .add_fn_t(|values, is_training| relu(values).dropout(0.5, is_training))
        .add(nn::linear(&path / "4", 4096, 4096, nn::LinearConfig::default()))
        .add_fn_t(|values, is_training| relu(values).dropout(0.5, is_training))
        .add(nn::linear(&path / "6", 4096, classes, nn::LinearConfig::default()))
}

/// The network of PyTorch's MNIST example: two convolutions, 9,216 values, 128, ten digits.
fn mnist(root: &nn::Path, classes: i64) -> nn::SequentialT {
    nn::seq_t()
        .add(convolution(root / "conv1", (1, 32), 3, 1, 0))
        .add_fn(Tensor::relu)
        .add(convolution(root / "conv2", (32, 64), 3, 1, 0))
        .add_fn(|images| images.relu().max_pool2d([2, 2], [2, 2], [0, 0], [1, 1], false))
        .add_fn_t(|images, is_training| images.dropout(0.25, is_training).flat_view())
        .add(nn::linear(root / "fc1", 9216, 128, nn::LinearConfig::default()))
        .add_fn_t(|values, is_training| values.relu().dropout(0.5, is_training))
        .add(nn::linear(root / "fc2", 128, classes, nn::LinearConfig::default()))
}
