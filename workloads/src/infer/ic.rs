//! Image classification: a request reads, decodes and prepares `batch` JPEG files, runs ResNet-50 v1.5 on
//! them and takes the five likeliest classes of each. Yields the report of the run. It judges no accuracy:
//! with seeded weights and generated pictures the classes mean nothing.

use tch::{Kind, Tensor};

use super::{RESNET50, RESNET50_PARAMETERS, Settings, model::Model, resnet::ResNet50};
use crate::{
    data::{
        file_set::{self, FileSet},
        image::{Frame, PREPARATION_VERSION, Preparer},
        image_files,
    },
    digest::Digest,
    error::Error,
    libtorch,
    load::Workload,
    memory,
};

/// How many classes a request names per picture.
const TOP: usize = 5;

/// The state between requests.
pub struct ImageClassification {
    model: ResNet50,
    files: FileSet,
    frame: Frame,
    preparer: Preparer,
    batch: u64,
    /// Input batch; kept, so that a request allocates it only once, as a tensor.
    values: Vec<f32>,
    /// Per picture of the last request: class and probability, likeliest first.
    pub top: Vec<[(i64, f32); TOP]>,
}

impl Model for ImageClassification {
    const NAME: &'static str = "ic";
    const MODEL: &'static str = RESNET50;
    const PREPARATION_VERSION: u64 = PREPARATION_VERSION;
    /// The scale applies to the pictures.
    const IS_SCALED: bool = false;

    fn files(settings: &Settings) -> Result<FileSet, Error> {
        Ok(match &settings.data {
            Some(folder) => image_files::open_folder(folder)?,
            None => {
                image_files::open_generated(&file_set::cache_folder()?, settings.seed, settings.generated)?
            }
        })
    }

    fn new(settings: &Settings, files: FileSet) -> Result<Self, Error> {
        let frame = Frame::USUAL.scaled(settings.scale);
        // Copies per worker: here and as a tensor. The network itself takes more, which is libtorch's to
        // refuse.
        let copies = 2 * u64::from(settings.plan.workers);
        memory::check((frame.values() * size_of::<f32>()) as u64 * settings.batch * copies)?;
        let model = ResNet50::new(settings.weights.as_deref(), settings.seed, settings.precision)?;
        let values = memory::zeros(frame.values() * settings.batch as usize)?;
        Ok(Self {
            model,
            files,
            frame,
            preparer: Preparer::new(frame),
            batch: settings.batch,
            values,
            top: Vec::new(),
        })
    }

    fn parameters(_: &Settings) -> u64 {
        RESNET50_PARAMETERS
    }

    fn digest(&self) -> Digest {
        self.model.digest()
    }
}

impl Workload for ImageClassification {
    type Input = Tensor;
    type Output = Tensor;

    fn preprocess(&mut self, request: u64) -> Result<Tensor, Error> {
        let first = request.wrapping_mul(self.batch);
        for (offset, values) in (0..self.batch).zip(self.values.chunks_exact_mut(self.frame.values())) {
            self.files.read_at(first.wrapping_add(offset), |jpeg| {
                match self.preparer.prepare(jpeg, values) {
                    Ok(()) => Ok::<_, Error>(Ok(())),
                    Err(error) => Ok(Err(error.of_picture()?)),
                }
            })?;
        }
        let side = i64::from(self.frame.crop);
        libtorch::staged(Tensor::f_from_slice(&self.values)?.f_view([self.batch as i64, 3, side, side])?)
    }

    fn infer(&mut self, pictures: Tensor) -> Result<Tensor, Error> {
        self.model.logits(&pictures)
    }

    fn postprocess(&mut self, logits: Tensor, outputs: &mut Digest) -> Result<(), Error> {
        let (probabilities, classes) =
            logits.f_softmax(-1, Kind::Float)?.f_topk(TOP as i64, -1, true, true)?;
        let probabilities = Vec::<f32>::try_from(probabilities.f_flatten(0, -1)?)?;
        let classes = Vec::<i64>::try_from(classes.f_flatten(0, -1)?)?;
        let logits = Vec::<f32>::try_from(logits.f_flatten(0, -1)?)?;
        self.top.clear();
        for (classes, probabilities) in classes.chunks_exact(TOP).zip(probabilities.chunks_exact(TOP)) {
            self.top.push(std::array::from_fn(|rank| (classes[rank], probabilities[rank])));
        }
        for class in classes {
            outputs.u64(class as u64);
        }
        for logit in logits {
            outputs.f32(logit);
        }
        Ok(())
    }
}
