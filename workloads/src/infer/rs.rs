//! Recommendation: a request reads `batch` samples of 100 to 700 pairs of a user and an item, computes their
//! features from text, runs DLRM on all of them and ranks the items of each sample. It judges no accuracy:
//! with seeded weights and made records the ranks mean nothing.

use std::cmp::Ordering;

use tch::Tensor;

use super::{
    DLRM, Settings,
    dlrm::{Dlrm, Sizes},
    model::{self, Model},
};
use crate::{
    data::{
        clicks::{self, COUNTS, Features},
        file_set::{FileSet, Kind},
    },
    digest::Digest,
    error::Error,
    libtorch,
    load::Workload,
};

/// How many items a request names per sample.
const TOP: usize = 10;

/// Input files of the requests.
pub const CLICKS: Kind =
    Kind { name: "clicks", what: "records", endings: &["tsv", "txt"], named: ".tsv or .txt" };

/// The state between requests.
pub struct Recommendation {
    model: Dlrm,
    files: FileSet,
    batch: u64,
    features: Features,
    /// Per sample of the last request: number of a pair within the sample and its probability, best first.
    pub top: Vec<Vec<(usize, f32)>>,
}

/// Inputs of the model.
pub struct Prepared {
    counts: Tensor,
    rows: Vec<Tensor>,
    /// Pairs of each sample.
    pairs: Vec<usize>,
}

/// Outputs of the model.
pub struct Judged {
    probabilities: Tensor,
    pairs: Vec<usize>,
}

impl Model for Recommendation {
    const NAME: &'static str = "rs";
    const MODEL: &'static str = DLRM;
    const PREPARATION_VERSION: u64 = clicks::PREPARATION_VERSION;

    fn files(settings: &Settings) -> Result<FileSet, Error> {
        let make = |place| clicks::file(settings.seed, place);
        Ok(model::files(&CLICKS, settings, clicks::GENERATOR_VERSION, make)?)
    }

    fn new(settings: &Settings, files: FileSet) -> Result<Self, Error> {
        let model = Dlrm::new(settings)?;
        Ok(Self { model, files, batch: settings.batch, features: Features::default(), top: Vec::new() })
    }

    fn parameters(settings: &Settings) -> u64 {
        Sizes::new(settings.scale).parameters()
    }

    fn digest(&self) -> Digest {
        self.model.digest()
    }
}

impl Workload for Recommendation {
    type Input = Prepared;
    type Output = Judged;

    fn preprocess(&mut self, request: u64) -> Result<Prepared, Error> {
        let first = request.wrapping_mul(self.batch);
        let mut pairs = Vec::new();
        self.features.clear();
        for offset in 0..self.batch {
            let tables = &self.model.sizes.tables;
            pairs.push(self.files.read_at(first.wrapping_add(offset), |content| {
                let text = match str::from_utf8(content) {
                    Ok(text) => text,
                    Err(error) => return Ok::<_, Error>(Err(error.to_string())),
                };
                self.features.reserve(text.lines().count())?;
                Ok(self.features.push_all(text, tables))
            })?);
        }
        let lines = pairs.iter().sum::<usize>() as i64;
        let counts = Tensor::f_from_slice(&self.features.counts)?.f_view([lines, COUNTS as i64])?;
        let counts = libtorch::staged(counts)?;
        let rows = self.features.rows.iter();
        let rows =
            rows.map(|rows| libtorch::staged(Tensor::f_from_slice(rows)?)).collect::<Result<_, Error>>()?;
        Ok(Prepared { counts, rows, pairs })
    }

    fn infer(&mut self, input: Prepared) -> Result<Judged, Error> {
        let probabilities = self.model.probabilities(&input.counts, &input.rows)?;
        Ok(Judged { probabilities, pairs: input.pairs })
    }

    fn postprocess(&mut self, output: Judged, outputs: &mut Digest) -> Result<(), Error> {
        let probabilities = Vec::<f32>::try_from(&output.probabilities)?;
        self.top.clear();
        let mut rest = probabilities.as_slice();
        for pairs in output.pairs {
            let (sample, others) = rest.split_at(pairs);
            rest = others;
            self.top.push(best(sample));
        }
        for (place, _) in self.top.iter().flatten() {
            outputs.u64(*place as u64);
        }
        for probability in probabilities {
            outputs.f32(probability);
        }
        Ok(())
    }
}

/// The likeliest pairs; of equal ones the first.
fn best(sample: &[f32]) -> Vec<(usize, f32)> {
    let mut ranked: Vec<(usize, f32)> = sample.iter().copied().enumerate().collect();
    ranked.sort_by(|one, other| other.1.partial_cmp(&one.1).unwrap_or(Ordering::Equal));
    ranked.truncate(TOP);
    ranked
}

#[cfg(test)]
mod tests {
    use super::best;

    #[test]
    fn the_best_come_first_and_equal_ones_in_order() {
        assert_eq!(best(&[0.1, 0.9, 0.5, 0.9]), [(1, 0.9), (3, 0.9), (2, 0.5), (0, 0.1)]);
        assert_eq!(
            best(&[0.5; 12]).iter().map(|(place, _)| *place).collect::<Vec<_>>(),
            (0..10).collect::<Vec<_>>()
        );
    }
}
