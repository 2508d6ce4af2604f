//! MLP: which flights leave late, by a network on all cores. Two sizes, as the study had a fast mode bound by
//! memory and a slow one bound by the processor: `memory` goes through 279 MB of weights for each single
//! sample, more than a last-level cache holds; `cpu` through batches that stay in the caches. A request per
//! step, with the phases `data` (flights to predictors), `forward`, `backward` and `optimizer`. Yields
//! samples per second and losses.

use clap::ValueEnum;

use super::{
    design::Design,
    error::{H2oError, go_on},
    net::{self, Net},
    reader::Bad,
    source::Data,
    table::Table,
};
use crate::{beside::WARMUP, digest::Digest, memory, progress, steps::Steps};

/// The sizes of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Size {
    /// 2 hidden rows of 200 units, batches of 512: bound by the processor
    Cpu,
    /// 2 hidden rows of 8,192 units, batches of 1: bound by memory
    Memory,
}

impl Size {
    pub fn hidden(self) -> Vec<usize> {
        match self {
            Self::Cpu => vec![200, 200],
            Self::Memory => vec![8_192, 8_192],
        }
    }

    pub fn batch(self) -> usize {
        match self {
            Self::Cpu => 512,
            Self::Memory => 1,
        }
    }
}

/// Settings from the command line.
#[derive(Clone, Debug)]
pub struct Settings {
    pub data: Data,
    /// Units of each hidden row.
    pub hidden: Vec<usize>,
    pub batch: usize,
    pub steps: u64,
    pub warmup: u64,
    pub threads: u32,
    pub progress: bool,
}

/// Results.
#[derive(Debug)]
pub struct Outcome {
    pub steps: Steps,
    /// Units of each layer, from the predictors to the output.
    pub units: Vec<usize>,
    pub rows: usize,
    pub left_out: u64,
    pub bad: Bad,
    /// Losses of the first and the last measured step.
    pub first_loss: f32,
    pub last_loss: f32,
    pub work: Digest,
    /// Hash of the losses of all steps, warm-up included.
    pub outputs: Digest,
}

pub const PHASES: &[&str] = &["data", "forward", "backward", "optimizer"];

/// Goes up when another network comes of the same settings.
const VERSION: u64 = 1;

/// Learning rate.
const RATE: f32 = 0.005;

/// Runs it as `settings` say.
pub fn run(settings: &Settings) -> Result<Outcome, H2oError> {
    let Settings { batch, steps: count, warmup, threads, .. } = *settings;
    let units = |predictors: usize| [&[predictors], &settings.hidden[..], &[1]].concat();
    // The number of predictors follows from the flights; that the rest has room is checked before they are
    // read.
    let least_bytes = net::needed_bytes(&units(1), batch);
    memory::check(least_bytes)?;
    let table = Table::load(&settings.data, least_bytes, settings.progress)?;
    let design = Design::of(&table);
    // The intercept is the biases' work.
    let units = units(design.width() - 1);
    memory::check(net::needed_bytes(&units, batch))?;
    let mut net = Net::new(&units, batch, settings.data.seed, threads)?;
    let bar = settings.progress.then(|| progress::bar(warmup + count, "steps"));
    let mut outputs = Digest::default();
    let mut discarded = Steps::new(PHASES);
    let mut steps = Steps::new(PHASES);
    let mut losses = Vec::new();
    for number in 0..warmup + count {
        let (all, name, own) = match number.checked_sub(warmup) {
            None => (&mut discarded, WARMUP, number),
            Some(own) => (&mut steps, "step", own),
        };
        go_on(all.count())?;
        let loss = all.step(name, own, |phases| {
            phases.run("data", || fill(&mut net, &table, &design, number, batch));
            let loss = phases.run("forward", || net.forward());
            phases.run("backward", || net.backward());
            phases.run("optimizer", || net.update(RATE));
            loss
        });
        outputs.f32(loss);
        if number >= warmup {
            losses.push(loss);
        }
        if let Some(bar) = &bar {
            bar.inc(1);
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let mut work = Digest::default();
    work.text("h2o mlp").u64(VERSION).u64(table.digest().value()).u64(settings.data.seed);
    // A step of the warm-up learns as well.
    work.u64(batch as u64).u64(warmup).u64(count);
    for count in &units {
        work.u64(*count as u64);
    }
    let (first_loss, last_loss) =
        (losses.first().copied().unwrap_or(0.0), losses.last().copied().unwrap_or(0.0));
    let (rows, left_out, bad) = (table.rows(), table.left_out, table.bad);
    Ok(Outcome { steps, units, rows, left_out, bad, first_loss, last_loss, work, outputs })
}

/// The predictors and outcomes of the step's flights: those behind the last step's, from the start again at
/// the end.
fn fill(net: &mut Net, table: &Table, design: &Design, step: u64, batch: usize) {
    net.inputs.fill(0.0);
    for sample in 0..batch {
        let flight = ((step * batch as u64 + sample as u64) % table.rows() as u64) as usize;
        for (column, value) in &design.row(table, flight).entries()[1..] {
            net.inputs[(*column as usize - 1) * batch + sample] = *value as f32;
        }
        net.expected[sample] = f32::from(table.late[flight]);
    }
}

#[cfg(test)]
mod tests {
    use super::Size;
    use crate::{catalog, h2o::net};

    #[test]
    fn the_memory_size_is_larger_than_a_cache_and_the_cpu_size_fits() {
        // As many predictors as 2,000 flights have; it depends on which airports occur.
        let parameters = |size: Size| net::parameters(&[&[307], &size.hidden()[..], &[1]].concat());
        assert_eq!(parameters(Size::Memory) * 4, 278_593_540);
        assert_eq!(parameters(Size::Cpu) * 4, 408_004);
        for (name, size) in [("h2o mlp", Size::Cpu), ("h2o mlp --size memory", Size::Memory)] {
            let entry = catalog::H2O.iter().find(|entry| entry.name == name).unwrap();
            let expected = format!(", batch {}", size.batch());
            assert!(entry.size.ends_with(&expected), "{expected}");
            assert_eq!(entry.parameters, parameters(size));
        }
    }
}
