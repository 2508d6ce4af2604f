//! Question answering: a request reads `batch` questions with their passages, cuts them into tokens and
//! windows, runs BERT-Large on all windows and names the likeliest answers. It judges no accuracy: with
//! seeded weights and made-up words the answers mean nothing.

use std::ops::Range;

use tch::Tensor;

use super::{
    BERT, Settings,
    bert::{Bert, Sizes},
    model::{self, Model},
    spans,
    tokenizer::Tokenizer,
    windows::{LENGTH, Tokens, Window},
};
use crate::{
    data::{
        file_set::{FileSet, Kind},
        vocabulary,
        words::{GENERATOR_VERSION, Vocabulary},
    },
    digest::Digest,
    error::Error,
    libtorch,
    load::Workload,
};

/// Input files of the requests.
pub const TEXTS: Kind = Kind { name: "texts", what: "texts", endings: &["txt"], named: ".txt" };

/// An answer as a person reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub text: String,
    pub probability: f32,
}

/// The state between requests.
pub struct Answering {
    model: Bert,
    tokenizer: Tokenizer,
    /// Hash of the tokens if the texts are the user's; made texts come from the same seed as their tokens.
    vocabulary: Option<Digest>,
    files: FileSet,
    batch: u64,
    tokens: Tokens,
    /// Per question of the last request: the likeliest answers, best first.
    pub answers: Vec<Vec<Answer>>,
}

/// A passage, the places of its tokens, and the windows that show it.
pub struct Shown {
    passage: String,
    places: Vec<Range<usize>>,
    windows: Vec<Window>,
}

/// Inputs of the model: one row for each window.
pub struct Prepared {
    ids: Tensor,
    segments: Tensor,
    mask: Tensor,
    shown: Vec<Shown>,
}

/// Outputs of the model.
pub struct Judged {
    logits: Tensor,
    shown: Vec<Shown>,
}

impl Model for Answering {
    const NAME: &'static str = "nlp";
    const MODEL: &'static str = BERT;
    const PREPARATION_VERSION: u64 = 1;

    fn files(settings: &Settings) -> Result<FileSet, Error> {
        let vocabulary = Vocabulary::new(settings.seed);
        let make = |place| vocabulary.file(settings.seed, place);
        Ok(model::files(&TEXTS, settings, GENERATOR_VERSION, make)?)
    }

    fn new(settings: &Settings, files: FileSet) -> Result<Self, Error> {
        let vocabulary = match &settings.vocabulary {
            Some(path) => vocabulary::read(path)?,
            None => Vocabulary::new(settings.seed).tokens,
        };
        let tokenizer =
            Tokenizer::new(&vocabulary).map_err(|error| Error::Tokenizer { reason: error.to_string() })?;
        let vocabulary = settings.data.is_some().then(|| digest_of(&vocabulary));
        let model = Bert::new(settings)?;
        let tokens = Tokens::default();
        Ok(Self { model, tokenizer, vocabulary, files, batch: settings.batch, tokens, answers: Vec::new() })
    }

    fn parameters(settings: &Settings) -> u64 {
        Sizes::new(settings.scale).parameters()
    }

    fn digest(&self) -> Digest {
        let mut digest = self.model.digest();
        if let Some(vocabulary) = self.vocabulary {
            digest.text("vocabulary").u64(vocabulary.value());
        }
        digest
    }
}

fn digest_of(tokens: &[String]) -> Digest {
    let mut digest = Digest::default();
    for token in tokens {
        digest.text(token);
    }
    digest
}

impl Answering {
    /// Adds the windows of file number `place`.
    fn read(&mut self, place: u64) -> Result<Shown, Error> {
        self.files.read_at(place, |content| Ok(show(content, &self.tokenizer, &mut self.tokens)))
    }
}

/// Adds the windows of a file to `tokens`, or says why it cannot be used.
fn show(content: &[u8], tokenizer: &Tokenizer, tokens: &mut Tokens) -> Result<Shown, String> {
    let text = str::from_utf8(content).map_err(|error| error.to_string())?;
    let expected = || Err("a question in the first line and a passage behind it are expected".to_owned());
    let Some((question, passage)) = text.split_once('\n') else { return expected() };
    let pieces = |text| tokenizer.pieces(text).map_err(|error| error.to_string());
    let (question, pieces) = (pieces(question)?, pieces(passage)?);
    // Blanks alone are no text.
    if question.ids.is_empty() || pieces.ids.is_empty() {
        return expected();
    }
    let windows = tokens.push(&question.ids, &pieces.ids);
    Ok(Shown { passage: passage.to_owned(), places: pieces.places, windows })
}

impl Workload for Answering {
    type Input = Prepared;
    type Output = Judged;

    fn preprocess(&mut self, request: u64) -> Result<Prepared, Error> {
        let first = request.wrapping_mul(self.batch);
        self.tokens.clear();
        let shown = (0..self.batch)
            .map(|offset| self.read(first.wrapping_add(offset)))
            .collect::<Result<Vec<_>, _>>()?;
        let rows =
            |values: &[i64]| libtorch::staged(Tensor::f_from_slice(values)?.f_view([-1, LENGTH as i64])?);
        let Tokens { ids, segments, mask } = &self.tokens;
        Ok(Prepared { ids: rows(ids)?, segments: rows(segments)?, mask: rows(mask)?, shown })
    }

    fn infer(&mut self, input: Prepared) -> Result<Judged, Error> {
        let logits = self.model.logits(&input.ids, &input.segments, &input.mask)?;
        Ok(Judged { logits, shown: input.shown })
    }

    fn postprocess(&mut self, output: Judged, outputs: &mut Digest) -> Result<(), Error> {
        let numbers = |place| Vec::<f32>::try_from(output.logits.f_select(2, place)?.f_flatten(0, -1)?);
        let (starts, ends) = (numbers(0)?, numbers(1)?);
        self.answers.clear();
        let mut from = 0;
        for Shown { passage, places, windows } in &output.shown {
            let rows = from..from + windows.len() * LENGTH;
            from = rows.end;
            let spans = spans::best(windows, &starts[rows.clone()], &ends[rows]);
            let mut answers = Vec::with_capacity(spans.len());
            for span in spans {
                outputs.u64(span.first as u64).u64(span.last as u64);
                let text = passage.get(places[span.first].start..places[span.last].end);
                let text = text.unwrap_or_default().to_owned();
                answers.push(Answer { text, probability: span.probability });
            }
            self.answers.push(answers);
        }
        for logit in starts.into_iter().chain(ends) {
            outputs.f32(logit);
        }
        Ok(())
    }
}
