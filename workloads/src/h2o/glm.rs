//! GLM: predicts which flights leave late, by logistic regression (binomial, logit) with iteratively
//! reweighted least squares, on one busy thread: the job of the study whose thread jumped from core to core.
//! A request per iteration, with the phases `gram` (sums over all flights of weighted products of
//! predictors), `solve` and `deviance` (how well it fits now). Yields coefficients.
//!
//! It minimises the deviance plus `l2` times flights times the squares of all coefficients but the intercept;
//! these bound the coefficients of airports with three flights, all late. A step that raises it is halved.

use super::{
    cholesky::{Dependent, solve},
    design::Design,
    error::{H2oError, go_on},
    reader::Bad,
    source::Data,
    table::Table,
};
use crate::{digest::Digest, memory, progress, steps::Steps};

/// Settings from the command line.
#[derive(Clone, Debug)]
pub struct Settings {
    pub data: Data,
    /// Number of fits, each from the start.
    pub fits: u64,
    pub max_iterations: u64,
    pub l2: f64,
    pub progress: bool,
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    pub steps: Steps,
    pub fit: Fit,
    pub rows: usize,
    pub left_out: u64,
    pub bad: Bad,
    pub work: Digest,
    /// Hash of the coefficients of all fits.
    pub outputs: Digest,
}

/// A finished fit.
#[derive(Clone, Debug, Default)]
pub struct Fit {
    /// Coefficients in the order of `names`.
    pub coefficients: Vec<f64>,
    pub names: Vec<String>,
    pub iterations: u64,
    pub is_converged: bool,
    /// Deviance with the intercept alone, and with all predictors.
    pub null_deviance: f64,
    pub deviance: f64,
}

pub const PHASES: &[&str] = &["gram", "solve", "deviance"];

/// A fit has converged when the last step changed the objective by less than this part of it.
const TOLERANCE: f64 = 1e-8;
/// Relative rise of the objective that rounding of sums can cause at the minimum.
const ROUNDING: f64 = 1e-10;
/// A step that does not help after so many halvings never will.
const HALVINGS: u32 = 20;

/// Runs the fits as `settings` say.
pub fn run(settings: &Settings) -> Result<Outcome, H2oError> {
    let table = Table::load(&settings.data, 0, settings.progress)?;
    let bar = settings.progress.then(|| progress::bar(settings.fits, "fits"));
    let mut steps = Steps::new(PHASES);
    let mut outputs = Digest::default();
    let mut fit = Fit::default();
    for _ in 0..settings.fits {
        fit = fit_once(&table, settings, &mut steps)?;
        for coefficient in &fit.coefficients {
            outputs.u64(coefficient.to_bits());
        }
        if let Some(bar) = &bar {
            bar.inc(1);
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let mut work = Digest::default();
    work.text("h2o glm").u64(table.digest().value()).u64(settings.fits).u64(settings.max_iterations);
    work.u64(settings.l2.to_bits());
    let (rows, left_out, bad) = (table.rows(), table.left_out, table.bad);
    Ok(Outcome { steps, fit, rows, left_out, bad, work, outputs })
}

fn fit_once(table: &Table, settings: &Settings, steps: &mut Steps) -> Result<Fit, H2oError> {
    let design = Design::of(table);
    check_memory(&design, memory::available_bytes())?;
    let mut irls = Irls::new(table, design, settings.l2);
    let mut fit = Fit { null_deviance: null_deviance(table), ..Fit::default() };
    // If no part of a step helps, the next step would be the same.
    let mut has_moved = true;
    while fit.iterations < settings.max_iterations && !fit.is_converged && has_moved {
        go_on(steps.count())?;
        let before = irls.objective;
        let number = steps.count();
        steps.step("iteration", number, |phases| -> Result<(), H2oError> {
            phases.run("gram", || irls.add_up());
            let next = phases.run("solve", || irls.solve())?;
            has_moved = phases.run("deviance", || irls.accept(next));
            Ok(())
        })?;
        fit.iterations += 1;
        let change = (before - irls.objective).abs();
        fit.is_converged = has_moved && change <= TOLERANCE * (irls.objective.abs() + 0.1);
    }
    let Irls { coefficients, deviance, design, .. } = irls;
    Ok(Fit { coefficients, deviance, names: design.names, ..fit })
}

/// Checks the memory for the products of all predictors, the largest part; errors name the widest one.
fn check_memory(design: &Design, available_bytes: Option<u64>) -> Result<(), H2oError> {
    let needed_bytes = 8 * (design.width() as u64).pow(2);
    let Some(available_bytes) = available_bytes.filter(|available| *available < needed_bytes) else {
        return Ok(());
    };
    let (predictor, values) = design.widest();
    Err(H2oError::Wide { predictor, values, needed_bytes, available_bytes })
}

/// Deviance of the intercept alone, which then is the share of late flights.
fn null_deviance(table: &Table) -> f64 {
    let count = table.rows() as f64;
    let late = table.late.iter().map(|late| u64::from(*late)).sum::<u64>() as f64;
    -2.0 * (late * (late / count).ln() + (count - late) * ((count - late) / count).ln())
}

/// The state between iterations.
struct Irls<'a> {
    table: &'a Table,
    design: Design,
    /// Penalty per square of a coefficient.
    penalty: f64,
    coefficients: Vec<f64>,
    deviance: f64,
    /// Deviance plus penalty.
    objective: f64,
    /// Weighted products, on the diagonal and left of it.
    gram: Vec<f64>,
    right: Vec<f64>,
}

impl<'a> Irls<'a> {
    fn new(table: &'a Table, design: Design, l2: f64) -> Self {
        let width = design.width();
        let coefficients = vec![0.0; width];
        let (gram, right) = (vec![0.0; width * width], vec![0.0; width]);
        // With all coefficients zero each flight is late with probability one half.
        let deviance = 2.0 * std::f64::consts::LN_2 * table.rows() as f64;
        let penalty = l2 * table.rows() as f64;
        Self { table, design, penalty, coefficients, deviance, objective: deviance, gram, right }
    }

    /// Computes the weighted products of predictors with each other, and with the working response.
    fn add_up(&mut self) {
        self.gram.fill(0.0);
        self.right.fill(0.0);
        let width = self.right.len();
        for (flight, late) in self.table.late.iter().enumerate() {
            let row = self.design.row(self.table, flight);
            let eta = row.times(&self.coefficients);
            let mean = 1.0 / (1.0 + (-eta).exp());
            let weight = mean * (1.0 - mean);
            let response = weight * eta + (f64::from(*late) - mean);
            for (i, (column, value)) in row.entries().iter().enumerate() {
                self.right[*column as usize] += value * response;
                let line = &mut self.gram[*column as usize * width..][..width];
                for (other, factor) in &row.entries()[..=i] {
                    line[*other as usize] += weight * value * factor;
                }
            }
        }
    }

    /// Solves the equations for the next coefficients.
    fn solve(&mut self) -> Result<Vec<f64>, H2oError> {
        let width = self.right.len();
        for column in 1..width {
            self.gram[column * width + column] += self.penalty;
        }
        let mut next = self.right.clone();
        solve(&mut self.gram, &mut next).map_err(|Dependent(column)| H2oError::Dependent {
            predictor: self.design.names[column].clone(),
        })?;
        Ok(next)
    }

    /// Moves to `next`, or by half or a quarter of the way: as far as it helps. Returns whether it moved.
    fn accept(&mut self, mut next: Vec<f64>) -> bool {
        for _ in 0..HALVINGS {
            let deviance = self.deviance_of(&next);
            let squares: f64 = next[1..].iter().map(|one| one * one).sum();
            let objective = deviance + self.penalty * squares;
            if objective <= self.objective * (1.0 + ROUNDING) {
                self.coefficients = next;
                self.deviance = deviance;
                self.objective = objective;
                return true;
            }
            for (next, own) in next.iter_mut().zip(&self.coefficients) {
                *next = f64::midpoint(*next, *own);
            }
        }
        false
    }

    /// Deviance by a logarithm of one plus an exponential that cannot overflow.
    fn deviance_of(&self, coefficients: &[f64]) -> f64 {
        let of_flight = |(flight, late): (usize, &u8)| {
            let eta = self.design.row(self.table, flight).times(coefficients);
            let toward = if *late == 1 { -eta } else { eta };
            2.0 * (toward.max(0.0) + (-toward.abs()).exp().ln_1p())
        };
        self.table.late.iter().enumerate().map(of_flight).sum()
    }
}

#[cfg(test)]
#[path = "glm_tests.rs"]
mod tests;
