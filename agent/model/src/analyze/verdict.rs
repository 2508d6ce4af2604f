//! Where a row's duration stands among those of the same name.

use super::{cause::Cause, quantiles::Band};

/// Position of a row's duration among those of the same name, for columns and attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TailVerdict {
    /// The largest part of its excess. Only above the 90th percentile, and for a request that takes twice as
    /// long as the typical one.
    pub cause: Option<Cause>,
    /// The highest of the bands that it exceeds.
    pub tail: Option<Band>,
}
