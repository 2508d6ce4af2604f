//! DLRM as in MLPerf's debug set, which is Criteo's Kaggle data: a small network for the counts, 26 tables
//! with a row per category, the products of each pair of those 27 vectors, and a second network that yields a
//! probability. Tensor names are those of the reference (dlrm_s_pytorch.py). Forward pass only.

use tch::{Kind, Tensor, nn};

use super::{
    DLRM, Settings, libtorch,
    parameters::{Parameters, Source, nothing_spare},
    seeded,
    sizing::{Precision, Scale},
};
use crate::{
    data::clicks::{CATEGORIES, COUNTS},
    digest::Digest,
    error::Error,
};

/// Different values of each category in the Kaggle data, hence rows of its table: 33,762,577 in all.
pub const TABLES: [i64; CATEGORIES] = [
    1460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5683, 8_351_593, 3194, 27, 14_992,
    5_461_306, 10, 5652, 2173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572,
];
/// Length of a row.
const WIDTH: i64 = 16;
/// Layers between the counts and a vector as long as a row.
const BOTTOM: [i64; 3] = [512, 256, 64];
/// Layers between the products and the probability.
const TOP: [i64; 2] = [512, 256];
/// Vectors to multiply: one of the counts, one of each category.
const VECTORS: i64 = CATEGORIES as i64 + 1;
/// Layers are scaled to multiples of this, which suits vector instructions.
const UNIT: i64 = 8;

/// The sizes of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub tables: [i64; CATEGORIES],
    /// Sizes from the first layer's inputs to the last layer's outputs.
    pub bottom: Vec<i64>,
    pub top: Vec<i64>,
}

impl Sizes {
    pub fn new(scale: Scale) -> Self {
        let scaled = |sizes: &[i64]| -> Vec<i64> { sizes.iter().map(|size| scale.of(*size, UNIT)).collect() };
        let pairs = VECTORS * (VECTORS - 1) / 2;
        Self {
            tables: TABLES.map(|rows| scale.of(rows, 1)),
            bottom: [vec![COUNTS as i64], scaled(&BOTTOM), vec![WIDTH]].concat(),
            top: [vec![WIDTH + pairs], scaled(&TOP), vec![1]].concat(),
        }
    }

    /// Number of the model's parameters.
    pub fn parameters(&self) -> u64 {
        let layers = |sizes: &[i64]| sizes.windows(2).map(|pair| pair[0] * pair[1] + pair[1]).sum::<i64>();
        let tables = self.tables.iter().sum::<i64>() * WIDTH;
        (tables + layers(&self.bottom) + layers(&self.top)).cast_unsigned()
    }
}

/// The model with its parameters.
pub struct Dlrm {
    pub parameters: Parameters,
    pub sizes: Sizes,
    network: Network,
    precision: Precision,
}

struct Network {
    tables: Vec<Tensor>,
    bottom: Vec<nn::Linear>,
    top: Vec<nn::Linear>,
    /// Index of each pair's product in the flattened matrix of all products.
    below_diagonal: Tensor,
}

impl Dlrm {
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let sizes = Sizes::new(settings.scale);
        let (network, mut parameters) =
            Parameters::build(DLRM, sizes.parameters(), |root| Network::new(root, &sizes))?;
        parameters.fill(&Source {
            weights: settings.weights.as_deref(),
            seed: settings.seed,
            rule: seeded::rectified,
            is_spare: nothing_spare,
            precision: settings.precision,
        })?;
        Ok(Self { parameters, sizes, network, precision: settings.precision })
    }

    pub fn digest(&self) -> Digest {
        self.parameters.digest
    }

    /// Probabilities `[lines]` in fp32 from counts `[lines, 13]` in fp32 and rows `[lines]` of each table.
    pub fn probabilities(&self, counts: &Tensor, rows: &[Tensor]) -> Result<Tensor, Error> {
        let send = libtorch::send;
        let (counts, rows) =
            libtorch::upload(|| Ok((send(counts)?, rows.iter().map(send).collect::<Result<Vec<_>, _>>()?)))?;
        let probabilities = libtorch::catch(|| {
            let _guard = tch::no_grad_guard();
            self.network.forward(&counts.to_kind(self.precision.kind()), &rows).to_kind(Kind::Float)
        })?;
        libtorch::download(probabilities)
    }
}

impl Network {
    fn new(root: &nn::Path<'_>, sizes: &Sizes) -> Self {
        let zero = nn::Init::Const(0.0);
        let tables = sizes.tables.iter().enumerate();
        let tables = tables
            .map(|(index, rows)| (root / "emb_l" / index).var("weight", &[*rows, WIDTH], zero))
            .collect();
        let layers = |name: &str, sizes: &[i64]| -> Vec<nn::Linear> {
            let config = nn::LinearConfig { ws_init: zero, bs_init: Some(zero), bias: true };
            // Activations between the layers have numbers too.
            let pairs = sizes.windows(2).enumerate();
            pairs
                .map(|(index, pair)| nn::linear(root / name / (2 * index), pair[0], pair[1], config))
                .collect()
        };
        let pairs: Vec<i64> =
            (0..VECTORS).flat_map(|one| (0..one).map(move |other| one * VECTORS + other)).collect();
        Self {
            tables,
            bottom: layers("bot_l", &sizes.bottom),
            top: layers("top_l", &sizes.top),
            below_diagonal: Tensor::from_slice(&pairs).to_device(libtorch::device()),
        }
    }

    fn forward(&self, counts: &Tensor, rows: &[Tensor]) -> Tensor {
        let lines = counts.size()[0];
        let dense =
            self.bottom.iter().fold(counts.shallow_clone(), |values, layer| values.apply(layer).relu());
        // One row for each line: bags of one.
        let bags = Tensor::arange(lines, (Kind::Int64, counts.device()));
        let sum = 0;
        let mut vectors = vec![dense.shallow_clone()];
        for (table, rows) in self.tables.iter().zip(rows) {
            let none: Option<Tensor> = None;
            vectors.push(Tensor::embedding_bag(table, rows, &bags, false, sum, false, none, false).0);
        }
        let vectors = Tensor::cat(&vectors, 1).view([lines, VECTORS, WIDTH]);
        let products = vectors.bmm(&vectors.transpose(1, 2)).view([lines, VECTORS * VECTORS]);
        let products = products.index_select(1, &self.below_diagonal);
        let values = Tensor::cat(&[dense, products], 1);
        let last = self.top.len() - 1;
        let values = self.top.iter().enumerate().fold(values, |values, (index, layer)| {
            let values = values.apply(layer);
            if index == last { values.sigmoid() } else { values.relu() }
        });
        values.flatten(0, -1)
    }
}
