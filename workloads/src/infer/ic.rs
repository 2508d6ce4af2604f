//! Image classification: a request reads, decodes and prepares `batch` JPEG files, runs ResNet-50 v1.5 on them and
//! takes the five likeliest classes of each. Yields the report of the run. It judges no accuracy: with seeded
//! weights and generated pictures the classes mean nothing.

use std::fs;

use tch::{Kind, Tensor};

use super::{RESNET50, RESNET50_PARAMETERS, Settings, libtorch, resnet::ResNet50};
use crate::{
    data::{
        image::{CROP, PREPARATION_VERSION, Preparer, VALUES},
        image_files::{self, ImageFiles},
    },
    digest::Digest,
    error::Error,
    load::{self, Plan, Workload, clock::Monotonic},
    report::{Identity, Report},
};

/// How many classes a request names per picture.
const TOP: usize = 5;

/// Runs it as `settings` say.
pub fn run(settings: &Settings) -> Result<Report, Error> {
    libtorch::set_threads(settings.threads);
    let mut workload = ImageClassification::new(settings)?;
    let another = || ImageClassification::new(settings);
    let measured = load::run(&settings.plan, &Monotonic, &mut workload, &another)?;
    let identity = Identity {
        name: "ic",
        model: RESNET50,
        parameters: RESNET50_PARAMETERS,
        batch: settings.batch,
        threads: settings.threads,
        seed: settings.seed,
        precision: "fp32",
        requests: measured.records.len() as u64,
        warmup: settings.plan.warmup,
        rounds: None,
        work_hash: workload.work_hash(&settings.plan),
        output_hash: measured.outputs(&settings.plan),
    };
    Ok(Report::new(identity, &settings.plan, measured))
}

/// The state between requests.
pub struct ImageClassification {
    model: ResNet50,
    files: ImageFiles,
    preparer: Preparer,
    batch: u64,
    /// The batch as the model takes it; kept, so that a request allocates it only once, as a tensor.
    values: Vec<f32>,
    /// Per picture of the last request: class and probability, likeliest first.
    pub top: Vec<[(i64, f32); TOP]>,
}

impl ImageClassification {
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let files = match &settings.data {
            Some(folder) => image_files::open_folder(folder)?,
            None => {
                image_files::open_generated(&image_files::cache_folder()?, settings.seed, settings.generated)?
            }
        };
        let model = match &settings.weights {
            Some(path) => ResNet50::from_file(path)?,
            None => ResNet50::seeded(settings.seed)?,
        };
        let values = vec![0.0; VALUES * settings.batch as usize];
        Ok(Self {
            model,
            files,
            preparer: Preparer::default(),
            batch: settings.batch,
            values,
            top: Vec::new(),
        })
    }

    /// Everything that decides what is computed. Not the threads: how many compute it is the platform's matter, and
    /// platforms of different size are to be compared; nor the warm-up, which no statistic contains.
    fn work_hash(&self, plan: &Plan) -> Digest {
        let mut hash = Digest::default();
        hash.text("ic").text(RESNET50).text("fp32").u64(self.batch).u64(PREPARATION_VERSION);
        plan.describe(&mut hash);
        hash.u64(self.model.digest.value()).u64(self.files.digest.value());
        hash
    }
}

impl Workload for ImageClassification {
    type Input = Tensor;
    type Output = Tensor;

    fn preprocess(&mut self, request: u64) -> Result<Tensor, Error> {
        let first = request.wrapping_mul(self.batch);
        for (offset, values) in (0..self.batch).zip(self.values.chunks_exact_mut(VALUES)) {
            let index = first.wrapping_add(offset) % self.files.paths.len() as u64;
            let path = &self.files.paths[index as usize];
            let jpeg = fs::read(path).map_err(|source| Error::ReadPicture { path: path.clone(), source })?;
            self.preparer
                .prepare(&jpeg, values)
                .map_err(|source| Error::Picture { path: path.clone(), source })?;
        }
        let side = i64::from(CROP);
        Ok(Tensor::f_from_slice(&self.values)?.f_view([self.batch as i64, 3, side, side])?)
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
