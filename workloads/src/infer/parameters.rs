//! The tensors of a model: made, counted, filled from a seed or a file, converted. Yields them filled, with a
//! hash of the origin of their values. It knows no model.

use std::path::Path;

use tch::{
    Tensor,
    nn::{self, VarStore},
};

use super::{
    libtorch,
    seeded::{self, Rule, WEIGHTS_VERSION},
    sizing::Precision,
    weights::{Shapes, Weights},
};
use crate::{digest::Digest, error::Error};

/// All tensors of one model, on the CPU.
#[derive(Debug)]
pub struct Parameters {
    store: VarStore,
    /// Hash of everything that decides the values.
    pub digest: Digest,
}

/// Source of the values, and what else a file may hold.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// A safetensors file; none: the seed.
    pub weights: Option<&'a Path>,
    pub seed: u64,
    pub rule: Rule,
    /// Names of tensors that such files hold and this model does not use.
    pub is_spare: fn(&str) -> bool,
    pub precision: Precision,
}

impl Parameters {
    /// The network that `build` makes, with arbitrary values, its number of parameters checked.
    pub fn build<N>(
        model: &'static str,
        expected: u64,
        build: impl FnOnce(&nn::Path<'_>) -> N,
    ) -> Result<(N, Self), Error> {
        let mut store = VarStore::new(libtorch::device());
        let network = libtorch::catch(|| build(&store.root()))?;
        store.freeze();
        let parameters = Self { store, digest: Digest::default() };
        let (found, expected) = (parameters.count(), expected.cast_signed());
        if found != expected {
            return Err(Error::Parameters { model, found, expected });
        }
        Ok((network, parameters))
    }

    /// Gives all tensors the values of `source`, then its precision.
    pub fn fill(&mut self, source: &Source<'_>) -> Result<(), Error> {
        match source.weights {
            None => {
                seeded::fill_by(&self.store, source.seed, source.rule)?;
                self.digest.text("seeded").u64(WEIGHTS_VERSION).u64(source.seed);
            }
            Some(path) => self.read(&Weights::open(path)?, source.is_spare)?,
        }
        match source.precision {
            Precision::Fp32 => Ok(()),
            Precision::Bf16 => libtorch::catch(|| self.store.bfloat16()),
        }
    }

    fn read(&mut self, weights: &Weights, is_spare: fn(&str) -> bool) -> Result<(), Error> {
        let shapes = self.shapes();
        weights.check(&shapes, is_spare)?;
        let variables = self.store.variables();
        self.digest.text("file");
        for name in shapes.keys() {
            let all = variables[name].f_detach()?.f_view(-1)?;
            let mut begin = 0;
            self.digest.text(name);
            weights.pieces(name, |bytes| {
                let length = bytes.len() as i64 / 4;
                let source = Tensor::f_from_data_size(bytes, &[length], tch::Kind::Float)?;
                all.f_narrow(0, begin, length)?.f_copy_(&source)?;
                begin += length;
                self.digest.bytes(bytes);
                Ok::<(), Error>(())
            })?;
        }
        Ok(())
    }

    /// Number of trainable values (without the running statistics of batch normalisation).
    pub fn count(&self) -> i64 {
        self.store.trainable_variables().iter().map(|tensor| tensor.numel() as i64).sum()
    }

    /// Name and shape of every tensor, running statistics included.
    pub fn shapes(&self) -> Shapes {
        let shape = |tensor: &Tensor| tensor.size().into_iter().map(|side| side as usize).collect();
        self.store.variables().iter().map(|(name, tensor)| (name.clone(), shape(tensor))).collect()
    }

    /// The tensor of this name, sharing its memory.
    pub fn tensor(&self, name: &str) -> Option<Tensor> {
        self.store.variables().remove(name)
    }
}

/// The file may hold nothing but the model.
pub fn nothing_spare(_: &str) -> bool {
    false
}
