//! Everything that a report's page shows.

use std::sync::Arc;

use super::{axes, moments::Looked};
use crate::{
    analyze::compare::{Breakdown, Quantile},
    run::Manifest,
    terminal::{Compared, Sentences},
};

/// A run of a platform.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name of the run's folder.
    pub name: String,
    /// Its manifest, perhaps without fields that the page does not show.
    pub manifest: Arc<Manifest>,
}

/// One platform's breakdown and requests.
#[derive(Debug)]
pub struct View {
    /// A mean request by phase and cause.
    pub breakdown: Breakdown,
    /// Latencies.
    pub quantiles: Vec<Quantile>,
    /// Runs of the platform.
    pub members: Vec<Member>,
    /// Single requests of the platform.
    pub looked: Looked,
}

/// Everything that the page shows.
#[derive(Debug)]
pub struct Report {
    /// Platforms in the order of the comparison, the baseline first.
    pub views: Vec<View>,
    /// The comparison.
    pub compared: Compared,
    /// The comparison in sentences.
    pub sentences: Sentences,
    /// Base address of Jaeger's pages.
    pub jaeger: Option<String>,
}

impl Report {
    /// Indices of platforms, axis by axis: those of similar size share one.
    pub(super) fn axes(&self) -> Vec<Vec<usize>> {
        let sizes: Vec<f64> = self.views.iter().map(|view| view.breakdown.mean_ns.value).collect();
        axes::axes(&sizes)
    }

    /// Whether a run of the platform with this index was emulated.
    pub(super) fn is_emulated(&self, place: usize) -> bool {
        let comparison = &self.compared.comparison;
        let others = comparison.platforms.iter().map(|one| &one.side);
        std::iter::once(&comparison.baseline).chain(others).nth(place).is_some_and(|side| side.emulated > 0)
    }
}
