//! Speech recognition: a request reads `batch` recordings, computes their log-mel features, runs RNN-T and
//! writes the symbols as text. It judges no accuracy: with seeded weights and made recordings the text means
//! nothing.

use std::fs;

use tch::Tensor;

use super::{
    RNNT, Settings,
    log_mel::{self, FEATURES, LogMel, SHORTEST},
    model::{self, Model},
    rnnt::{Rnnt, SYMBOLS, Sizes, encoded_steps},
};
use crate::{
    data::{
        file_set::{FileSet, Kind},
        speech::{self, GENERATOR_VERSION},
        wav,
    },
    digest::Digest,
    error::Error,
    libtorch,
    load::Workload,
    memory,
};

/// Input files of the requests.
pub const RECORDINGS: Kind = Kind { name: "speech", what: "recordings", endings: &["wav"], named: ".wav" };

/// The state between requests.
pub struct Recognition {
    model: Rnnt,
    hearing: LogMel,
    files: FileSet,
    batch: u64,
    /// Text of each recording of the last request.
    pub texts: Vec<String>,
}

/// Input of the model: `[steps, batch, FEATURES]`, zeros after the end of shorter recordings.
pub struct Prepared {
    features: Tensor,
    steps: Vec<i64>,
}

impl Model for Recognition {
    const NAME: &'static str = "sr";
    const MODEL: &'static str = RNNT;
    const PREPARATION_VERSION: u64 = log_mel::VERSION;

    fn files(settings: &Settings) -> Result<FileSet, Error> {
        let make = |place| speech::file(settings.seed, place);
        Ok(model::files(&RECORDINGS, settings, GENERATOR_VERSION, make)?)
    }

    fn new(settings: &Settings, files: FileSet) -> Result<Self, Error> {
        // Copies of the features per worker: as computed, padded to the longest, and as one tensor. Memory of
        // the network itself is libtorch's to refuse.
        let copies = 3 * u64::from(settings.plan.workers);
        memory::check(heard_bytes(&files).saturating_mul(settings.batch * copies))?;
        let (model, hearing) = (Rnnt::new(settings)?, LogMel::new()?);
        Ok(Self { model, hearing, files, batch: settings.batch, texts: Vec::new() })
    }

    fn parameters(settings: &Settings) -> u64 {
        Sizes::new(settings.scale).parameters()
    }

    fn digest(&self) -> Digest {
        self.model.digest()
    }

    fn most_symbols(&self) -> Option<u64> {
        Some(self.model.sizes.most_symbols as u64)
    }
}

/// Mean bytes of a recording's features: a step takes 960 bytes, as do the 480 samples that it covers.
fn heard_bytes(files: &FileSet) -> u64 {
    let bytes = |path| fs::metadata(path).map_or(0, |file| file.len());
    files.paths.iter().map(bytes).sum::<u64>() / files.paths.len().max(1) as u64
}

impl Recognition {
    /// Features `[steps, FEATURES]` of file number `place`.
    fn hear(&self, place: u64) -> Result<Tensor, Error> {
        self.files.read_at(place, |file| match samples(file) {
            Ok(samples) => self.hearing.features(&samples).map(Ok),
            Err(reason) => Ok(Err(reason)),
        })
    }
}

/// The samples of a recording, or why it cannot be used.
fn samples(file: &[u8]) -> Result<Vec<f32>, String> {
    let samples = wav::read(file).map_err(|error| error.to_string())?;
    match samples.len() {
        short if short < SHORTEST => Err(format!("{short} samples, at least {SHORTEST} are needed")),
        _ => Ok(samples),
    }
}

impl Workload for Recognition {
    type Input = Prepared;
    /// Symbol numbers of each recording.
    type Output = Vec<Vec<usize>>;

    fn preprocess(&mut self, request: u64) -> Result<Prepared, Error> {
        let first = request.wrapping_mul(self.batch);
        let heard = (0..self.batch)
            .map(|offset| self.hear(first.wrapping_add(offset)))
            .collect::<Result<Vec<_>, _>>()?;
        let steps: Vec<i64> = heard.iter().map(|features| features.size()[0]).collect();
        let most = steps.iter().copied().max().unwrap_or(0);
        let filled = heard
            .iter()
            .zip(&steps)
            .map(|(features, steps)| features.f_constant_pad_nd([0, 0, 0, most - steps]))
            .collect::<Result<Vec<_>, _>>()?;
        let features = libtorch::staged(Tensor::f_stack(&filled, 1)?)?;
        debug_assert_eq!(features.size(), [most, self.batch.cast_signed(), FEATURES]);
        Ok(Prepared { features, steps })
    }

    fn infer(&mut self, input: Prepared) -> Result<Vec<Vec<usize>>, Error> {
        let encoded = self.model.encode(&input.features)?;
        let recordings = input.steps.iter().zip(0..);
        recordings
            .map(|(steps, place)| {
                let own = encoded.f_select(1, place)?.f_narrow(0, 0, encoded_steps(*steps))?;
                self.model.symbols(&own)
            })
            .collect()
    }

    fn postprocess(&mut self, output: Vec<Vec<usize>>, outputs: &mut Digest) -> Result<(), Error> {
        self.texts.clear();
        for symbols in output {
            let letters = symbols.iter().map(|symbol| char::from(SYMBOLS[*symbol]));
            let text = letters.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ");
            outputs.u64(symbols.len() as u64);
            for symbol in symbols {
                outputs.u64(symbol as u64);
            }
            outputs.text(&text);
            self.texts.push(text);
        }
        Ok(())
    }
}
