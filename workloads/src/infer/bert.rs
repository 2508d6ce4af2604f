//! BERT-Large with the head for SQuAD: 24 layers of attention and a pair of logits per token. Tensor names
//! are those of Hugging Face's BertForQuestionAnswering, without its unused pooler. Attention is PyTorch's
//! fused operator, the default there. Forward pass only.

use tch::{Kind, Tensor, nn};

use super::{
    BERT, Settings, libtorch,
    parameters::{Parameters, Source},
    seeded,
    sizing::{Precision, Scale},
};
use crate::{data::words::TOKENS, digest::Digest, error::Error};

const LAYERS: i64 = 24;
const HEADS: i64 = 16;
/// Width of a head; a scaled model has fewer heads.
const HEAD_WIDTH: i64 = 64;
const POSITIONS: i64 = 512;
const SEGMENTS: i64 = 2;
const EPSILON: f64 = 1e-12;
/// Added to the attention scores of masked tokens: nothing is left of them after the softmax.
const HIDDEN: f64 = -10_000.0;

/// The sizes of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub layers: i64,
    pub heads: i64,
}

impl Sizes {
    pub fn new(scale: Scale) -> Self {
        Self { layers: scale.of(LAYERS, 1), heads: scale.of(HEADS, 1) }
    }

    fn width(self) -> i64 {
        self.heads * HEAD_WIDTH
    }

    /// Width of the feed-forward layer.
    fn inner(self) -> i64 {
        4 * self.width()
    }

    /// Number of the model's parameters.
    pub fn parameters(self) -> u64 {
        let (width, inner) = (self.width(), self.inner());
        let linear = |from, to| from * to + to;
        let normalised = 2 * width;
        let embeddings = (TOKENS as i64 + POSITIONS + SEGMENTS) * width + normalised;
        let layer = 4 * linear(width, width) + linear(width, inner) + linear(inner, width) + 2 * normalised;
        (embeddings + self.layers * layer + linear(width, 2)).cast_unsigned()
    }
}

/// The model with its parameters.
pub struct Bert {
    pub parameters: Parameters,
    pub sizes: Sizes,
    network: Network,
    precision: Precision,
}

struct Network {
    tokens: Tensor,
    positions: Tensor,
    segments: Tensor,
    normalise: nn::LayerNorm,
    layers: Vec<Layer>,
    answers: nn::Linear,
}

struct Layer {
    heads: i64,
    query: nn::Linear,
    key: nn::Linear,
    value: nn::Linear,
    attended: nn::Linear,
    normalise_attended: nn::LayerNorm,
    inner: nn::Linear,
    outer: nn::Linear,
    normalise: nn::LayerNorm,
}

impl Bert {
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let sizes = Sizes::new(settings.scale);
        let (network, mut parameters) =
            Parameters::build(BERT, sizes.parameters(), |root| Network::new(root, sizes))?;
        // The pooler, and a list of positions in older versions: no answer depends on them.
        let is_spare = |name: &str| name.starts_with("bert.pooler.") || name.ends_with(".position_ids");
        parameters.fill(&Source {
            weights: settings.weights.as_deref(),
            seed: settings.seed,
            rule: seeded::dense,
            is_spare,
            precision: settings.precision,
        })?;
        Ok(Self { parameters, sizes, network, precision: settings.precision })
    }

    pub fn digest(&self) -> Digest {
        self.parameters.digest
    }

    /// Two logits for each token, `[windows, length, 2]` in fp32, from tokens, their segments and a mask,
    /// each `[windows, length]` of integers.
    pub fn logits(&self, tokens: &Tensor, segments: &Tensor, mask: &Tensor) -> Result<Tensor, Error> {
        let send = libtorch::send;
        let (tokens, segments, mask) =
            libtorch::upload(|| Ok((send(tokens)?, send(segments)?, send(mask)?)))?;
        let logits = libtorch::catch(|| {
            let _guard = tch::no_grad_guard();
            let mask = (mask.to_kind(Kind::Float) - 1.0) * -HIDDEN;
            let mask = mask.to_kind(self.precision.kind()).unsqueeze(1).unsqueeze(1);
            self.network.forward(&tokens, &segments, &mask).to_kind(Kind::Float)
        })?;
        libtorch::download(logits)
    }
}

fn linear(path: nn::Path<'_>, from: i64, to: i64) -> nn::Linear {
    let zero = nn::Init::Const(0.0);
    nn::linear(path, from, to, nn::LinearConfig { ws_init: zero, bs_init: Some(zero), bias: true })
}

fn normalisation(path: nn::Path<'_>, width: i64) -> nn::LayerNorm {
    nn::layer_norm(path, vec![width], nn::LayerNormConfig { eps: EPSILON, ..Default::default() })
}

impl Network {
    fn new(root: &nn::Path<'_>, sizes: Sizes) -> Self {
        let (bert, width) = (root / "bert", sizes.width());
        let embeddings = &bert / "embeddings";
        let table =
            |name: &str, rows| (&embeddings / name).var("weight", &[rows, width], nn::Init::Const(0.0));
        let layers = &bert / "encoder" / "layer";
        Self {
            tokens: table("word_embeddings", TOKENS as i64),
            positions: table("position_embeddings", POSITIONS),
            segments: table("token_type_embeddings", SEGMENTS),
            normalise: normalisation(&embeddings / "LayerNorm", width),
            layers: (0..sizes.layers).map(|index| Layer::new(&(&layers / index), sizes)).collect(),
            answers: linear(root / "qa_outputs", width, 2),
        }
    }

    fn forward(&self, tokens: &Tensor, segments: &Tensor, mask: &Tensor) -> Tensor {
        let length = tokens.size()[1];
        let look_up = |table: &Tensor, rows: &Tensor| Tensor::embedding(table, rows, -1, false, false);
        let embedded = look_up(&self.tokens, tokens) + look_up(&self.segments, segments);
        let embedded = (embedded + self.positions.narrow(0, 0, length)).apply(&self.normalise);
        let last = self.layers.iter().fold(embedded, |values, layer| layer.forward(&values, mask));
        last.apply(&self.answers)
    }
}

impl Layer {
    fn new(path: &nn::Path<'_>, sizes: Sizes) -> Self {
        let (width, inner) = (sizes.width(), sizes.inner());
        let attention = path / "attention";
        let (own, output) = (&attention / "self", &attention / "output");
        Self {
            heads: sizes.heads,
            query: linear(&own / "query", width, width),
            key: linear(&own / "key", width, width),
            value: linear(&own / "value", width, width),
            attended: linear(&output / "dense", width, width),
            normalise_attended: normalisation(&output / "LayerNorm", width),
            inner: linear(path / "intermediate" / "dense", width, inner),
            outer: linear(path / "output" / "dense", inner, width),
            normalise: normalisation(path / "output" / "LayerNorm", width),
        }
    }

    fn forward(&self, values: &Tensor, mask: &Tensor) -> Tensor {
        let attended = self.attention(values, mask).apply(&self.attended);
        let attended = (attended + values).apply(&self.normalise_attended);
        let inner = attended.apply(&self.inner).gelu("none").apply(&self.outer);
        (inner + attended).apply(&self.normalise)
    }

    fn attention(&self, values: &Tensor, mask: &Tensor) -> Tensor {
        let (windows, length, width) = values.size3().unwrap_or_default();
        let split = |layer: &nn::Linear| {
            values.apply(layer).view([windows, length, self.heads, HEAD_WIDTH]).transpose(1, 2)
        };
        let (query, key, value) = (split(&self.query), split(&self.key), split(&self.value));
        let context = Tensor::scaled_dot_product_attention(
            &query,
            &key,
            &value,
            Some(mask),
            0.0,
            false,
            None::<f64>,
            false,
        );
        context.transpose(1, 2).contiguous().view([windows, length, width])
    }
}
