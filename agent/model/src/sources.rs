//! What the sources of phases yielded, for reports. The sources themselves are elsewhere.

use guestscope_base::untrusted::Untrusted;
pub use guestscope_contract::Source as Kind;

use crate::phase::Made;

/// A source, and its results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Kind of the source.
    pub kind: Kind,
    /// Why the source was off; none if it was on.
    pub off: Option<String>,
    /// Requests and phases of this source.
    pub made: Made,
    /// Messages on what it found.
    pub found: Vec<Untrusted>,
    /// Messages on what it could not do, and why.
    pub missed: Vec<Untrusted>,
}
