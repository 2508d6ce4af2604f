//! RNN-T as in MLPerf: an encoder of five LSTM layers that stacks two steps after the second one, a
//! prediction network over the symbols so far, and a joint that gives the next symbol or ends the step.
//! Tensor names are those of the reference. Forward pass only, with greedy decoding.

use tch::{
    Kind, Tensor,
    nn::{self, RNN as _},
};

use super::{
    RNNT, Settings, libtorch,
    log_mel::FEATURES,
    parameters::{Parameters, Source, nothing_spare},
    seeded,
    sizing::{Precision, Scale},
};
use crate::{digest::Digest, error::Error};

/// Symbols by their numbers; the last number is the blank.
pub const SYMBOLS: &[u8; 28] = b" abcdefghijklmnopqrstuvwxyz'";
const BLANK: i64 = SYMBOLS.len() as i64;
const CLASSES: i64 = BLANK + 1;
/// Steps stacked in the middle of the encoder.
pub const STACK: i64 = 2;
/// Most symbols taken from one step of the full model, as in MLPerf's reference.
const MOST_SYMBOLS: usize = 30;
/// The same in a scaled model, whose seeded weights find a symbol in nearly each step: 5,000 in 15 s at a
/// tenth of the size. A step is 60 ms, in which a quick speaker says one letter or two.
const MOST_SYMBOLS_SCALED: usize = 3;
/// Layers of the encoder before and after the stacking, and of the prediction network.
const LAYERS: [i64; 3] = [2, 3, 2];
/// Added to the blank's logit with seeded weights; without it nearly each step gives 30 symbols. With it 15 s
/// give some 280, in bursts; a reader says about 200.
const BLANK_BIAS: f64 = 1.0;
const ENCODED: i64 = 1024;
const PREDICTED: i64 = 320;
const JOINED: i64 = 512;
/// Layers are scaled to multiples of this, which suits vector instructions.
const UNIT: i64 = 8;

/// The sizes of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub encoded: i64,
    pub predicted: i64,
    pub joined: i64,
    /// Most symbols taken from one step.
    pub most_symbols: usize,
}

impl Sizes {
    pub fn new(scale: Scale) -> Self {
        let [encoded, predicted, joined] = [ENCODED, PREDICTED, JOINED].map(|size| scale.of(size, UNIT));
        let most_symbols = if scale.reduced().is_none() { MOST_SYMBOLS } else { MOST_SYMBOLS_SCALED };
        Self { encoded, predicted, joined, most_symbols }
    }

    /// Number of the model's parameters.
    pub fn parameters(self) -> u64 {
        let Self { encoded, predicted, joined, .. } = self;
        // Four gates, each with two matrices and two vectors.
        let layer = |from, to| 4 * to * (from + to + 2);
        let layers = |from, to, count| layer(from, to) + (count - 1) * layer(to, to);
        let [before, behind, prediction] = LAYERS;
        let encoder = layers(FEATURES, encoded, before) + layers(STACK * encoded, encoded, behind);
        let prediction = BLANK * predicted + layers(predicted, predicted, prediction);
        let joint = (encoded + predicted + 1) * joined + (joined + 1) * CLASSES;
        (encoder + prediction + joint).cast_unsigned()
    }
}

/// The model with its parameters.
pub struct Rnnt {
    pub parameters: Parameters,
    pub sizes: Sizes,
    network: Network,
    precision: Precision,
}

struct Network {
    before: nn::LSTM,
    behind: nn::LSTM,
    symbols: Tensor,
    prediction: nn::LSTM,
    joint: [nn::Linear; 2],
    most_symbols: usize,
}

impl Rnnt {
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let sizes = Sizes::new(settings.scale);
        let (network, mut parameters) =
            Parameters::build(RNNT, sizes.parameters(), |root| Network::new(root, sizes))?;
        parameters.fill(&Source {
            weights: settings.weights.as_deref(),
            seed: settings.seed,
            rule: seeded::transducer,
            is_spare: nothing_spare,
            precision: settings.precision,
        })?;
        if settings.weights.is_none()
            && let Some(bias) = parameters.tensor("joint_net.3.bias")
        {
            let _ = bias.f_detach()?.f_narrow(0, BLANK, 1)?.f_add_scalar_(BLANK_BIAS)?;
        }
        Ok(Self { parameters, sizes, network, precision: settings.precision })
    }

    pub fn digest(&self) -> Digest {
        self.parameters.digest
    }

    /// Encodes features `[steps, batch, FEATURES]` in fp32 to half as many steps, `[steps, batch, encoded]`.
    pub fn encode(&self, features: &Tensor) -> Result<Tensor, Error> {
        let features = libtorch::upload(|| libtorch::send(features))?;
        libtorch::catch(|| {
            let _guard = tch::no_grad_guard();
            self.network.encode(&features.to_kind(self.precision.kind()))
        })
    }

    /// The symbols of one recording, from the output `[steps, encoded]` of `encode`.
    pub fn symbols(&self, encoded: &Tensor) -> Result<Vec<usize>, Error> {
        libtorch::catch(|| {
            let _guard = tch::no_grad_guard();
            self.network.symbols(encoded)
        })
    }

    /// Logits `[CLASSES]` in fp32 of each symbol and, last, of the blank: after an encoded step `[encoded]`
    /// and these symbols.
    pub fn logits(&self, step: &Tensor, symbols: &[usize]) -> Result<Tensor, Error> {
        libtorch::catch(|| {
            let _guard = tch::no_grad_guard();
            let mut state = self.network.prediction.zero_state(1);
            let mut predicted = self.network.predict(None, &mut state);
            for symbol in symbols {
                predicted = self.network.predict(Some(*symbol), &mut state);
            }
            self.network.join(&step.unsqueeze(0), &predicted).to_kind(Kind::Float).squeeze_dim(0)
        })
    }
}

fn lstm(path: nn::Path<'_>, from: i64, to: i64, num_layers: i64) -> nn::LSTM {
    let zero = nn::Init::Const(0.0);
    let config = nn::RNNConfig {
        num_layers,
        train: false,
        batch_first: false,
        w_ih_init: zero,
        w_hh_init: zero,
        ..Default::default()
    };
    nn::lstm(path, from, to, config)
}

impl Network {
    fn new(root: &nn::Path<'_>, sizes: Sizes) -> Self {
        let Sizes { encoded, predicted, joined, most_symbols } = sizes;
        let (encoder, prediction) = (root / "encoder", root / "prediction");
        let [before, behind, layers] = LAYERS;
        let zero = nn::Init::Const(0.0);
        let linear = |name: &str, from, to| {
            let config = nn::LinearConfig { ws_init: zero, bs_init: Some(zero), bias: true };
            nn::linear(root / "joint_net" / name, from, to, config)
        };
        Self {
            before: lstm(&encoder / "pre_rnn" / "lstm", FEATURES, encoded, before),
            behind: lstm(&encoder / "post_rnn" / "lstm", STACK * encoded, encoded, behind),
            symbols: (&prediction / "embed").var("weight", &[BLANK, predicted], zero),
            prediction: lstm(&prediction / "dec_rnn" / "lstm", predicted, predicted, layers),
            // Between them are a rectifier and a layer that only training uses.
            joint: [linear("0", encoded + predicted, joined), linear("3", joined, CLASSES)],
            most_symbols,
        }
    }

    fn encode(&self, features: &Tensor) -> Tensor {
        let run = |layers: &nn::LSTM, values: &Tensor| {
            layers.seq_init(values, &layers.zero_state(values.size()[1])).0
        };
        run(&self.behind, &stacked(&run(&self.before, features)))
    }

    fn symbols(&self, encoded: &Tensor) -> Vec<usize> {
        let mut symbols = Vec::new();
        let mut state = self.prediction.zero_state(1);
        // The prediction before a blank is computed again for the next step, as in the reference.
        for step in 0..encoded.size()[0] {
            let step = encoded.narrow(0, step, 1);
            for _ in 0..self.most_symbols {
                let mut next = nn::LSTMState((state.h(), state.c()));
                let predicted = self.predict(symbols.last().copied(), &mut next);
                let symbol = self.join(&step, &predicted).argmax(-1, false).int64_value(&[0]);
                if symbol == BLANK {
                    break;
                }
                symbols.push(symbol as usize);
                state = next;
            }
        }
        symbols
    }

    /// Prediction after a symbol, `[1, predicted]`, or at the start.
    fn predict(&self, symbol: Option<usize>, state: &mut nn::LSTMState) -> Tensor {
        let input = match symbol {
            Some(symbol) => self.symbols.narrow(0, symbol as i64, 1),
            None => self.symbols.narrow(0, 0, 1).zeros_like(),
        };
        let (output, next) = self.prediction.seq_init(&input.unsqueeze(0), state);
        *state = next;
        output.squeeze_dim(0)
    }

    fn join(&self, step: &Tensor, predicted: &Tensor) -> Tensor {
        let [first, second] = &self.joint;
        Tensor::cat(&[step, predicted], 1).apply(first).relu().apply(second)
    }
}

/// Stacks each two steps into one, with zeros after an odd last one.
fn stacked(values: &Tensor) -> Tensor {
    let (steps, batch, width) = values.size3().unwrap_or_default();
    let filled = values.transpose(0, 1).constant_pad_nd([0, 0, 0, steps % STACK]);
    filled.contiguous().view([batch, -1, STACK * width]).transpose(0, 1)
}

/// Steps of the encoder's output for that many of its input.
pub fn encoded_steps(steps: i64) -> i64 {
    steps.cast_unsigned().div_ceil(STACK.cast_unsigned()).cast_signed()
}
