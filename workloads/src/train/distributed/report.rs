//! Report of a parameter server: text for people, one line of JSON for machines and the manifest.

use std::fmt::Write as _;

use serde::Serialize;

use crate::{digest::Digest, report::to_json};
#[cfg(feature = "torch")]
use crate::{
    infer::seeded::WEIGHTS_VERSION,
    train::{Settings, distributed::Server, report::PRECISION},
};

/// A job from the server's side.
#[derive(Clone, Debug, Serialize)]
pub struct Served {
    /// Name on the command line.
    pub name: String,
    /// Model name for people.
    pub model: &'static str,
    /// Number of trainable parameters.
    pub parameters: u64,
    /// Images per step of each worker.
    pub batch: u64,
    /// Steps of each worker, warm-up included: the server cannot tell them apart.
    pub steps: u64,
    /// Number of workers.
    pub workers: u32,
    /// Whether each gradient was applied as it came.
    pub asynchronous: bool,
    /// Seed of the first parameters.
    pub seed: u64,
    /// Learning rate of stochastic gradient descent.
    pub learning_rate: f64,
    /// Number of updates of the parameters.
    pub updates: u64,
    /// Number of gradients received.
    pub gradients: u64,
    /// Sum over all gradients of the versions that they were behind.
    pub staleness_sum: u64,
    /// Versions that the stalest gradient was behind.
    pub staleness_most: u64,
    /// Bytes of gradients received.
    pub received_bytes: u64,
    /// Bytes of parameters sent.
    pub sent_bytes: u64,
    /// Elapsed time of the whole job, ns.
    pub elapsed_ns: u64,
    /// Hash of the exact bits of all final parameters.
    pub parameters_hash: Digest,
    /// Work hash: equal for servers asked to do the same, on any machine. The workers' own cover the images.
    pub work_hash: Digest,
    /// Hash of the final parameters. None for asynchronous jobs, where it depends on the order of arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_hash: Option<Digest>,
}

/// Hash of a server's work: each worker made `steps` gradients of `batch` images.
#[cfg(feature = "torch")]
pub(super) fn work_hash(settings: &Settings, server: &Server, steps: u64, batch: u64) -> Digest {
    let Settings { model, learning_rate, seed, .. } = *settings;
    let mut hash = Digest::default();
    hash.text("train").text(model.name).text(PRECISION).u64(batch).u64(steps);
    hash.u64(learning_rate.to_bits()).u64(seed).u64(WEIGHTS_VERSION);
    hash.text("ps").u64(u64::from(server.workers)).u64(u64::from(server.asynchronous));
    hash
}

impl Served {
    /// Report for people: one fact per line.
    pub fn text(&self) -> String {
        let Self { name, model, workers, batch, steps, seed, updates, gradients, .. } = self;
        let kind = if self.asynchronous { "asynchronous" } else { "synchronous" };
        let mut text =
            format!("{name}: {model}, {kind}, {workers} workers, batch {batch} each, seed {seed}\n");
        let mut line = |what: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {what:<12} {value}");
        };
        let Self { parameters, learning_rate, .. } = self;
        line("parameters", format!("{parameters}, sgd with a learning rate of {learning_rate}"));
        line("steps", format!("{steps} of each worker, those for warm-up too"));
        line("updates", format!("{updates} by {gradients} gradients"));
        if self.asynchronous {
            let mean = self.staleness_sum as f64 / (*gradients).max(1) as f64;
            line("staleness", format!("{mean:.2} versions in the mean, {} at most", self.staleness_most));
        }
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let (received, sent) = (mb(self.received_bytes), mb(self.sent_bytes));
        line("traffic", format!("{received:.1} MB of gradients, {sent:.1} MB of parameters"));
        line("elapsed", format!("{:.3} s for the whole job", self.elapsed_ns as f64 / 1e9));
        line("parameters", format!("{} (hash of all)", self.parameters_hash));
        if let Some(hash) = self.output_hash {
            line("output hash", hash.to_string());
        }
        line("work hash", self.work_hash.to_string());
        text
    }

    /// Report for machines: one line of JSON.
    pub fn json(&self) -> String {
        to_json(self)
    }
}

#[cfg(test)]
mod tests {
    use super::Served;
    use crate::digest::Digest;

    #[test]
    fn people_read_one_fact_per_line() {
        let served = Served {
            name: "train mnist --role ps".to_owned(),
            model: "MNIST CNN",
            parameters: 1_199_882,
            batch: 64,
            steps: 10,
            workers: 2,
            asynchronous: true,
            seed: 3,
            learning_rate: 0.01,
            updates: 20,
            gradients: 20,
            staleness_sum: 19,
            staleness_most: 3,
            received_bytes: 95_990_560,
            sent_bytes: 105_589_616,
            elapsed_ns: 2_500_000_000,
            parameters_hash: Digest::default(),
            work_hash: Digest::default(),
            output_hash: None,
        };
        insta::assert_snapshot!(served.text());
        let synchronous = Served { asynchronous: false, output_hash: Some(Digest::default()), ..served };
        let text = synchronous.text();
        assert!(
            text.contains("\n  output hash  cbf29ce484222325\n") && !text.contains("staleness"),
            "{text}"
        );
    }
}
