//! What is said of a request beside its spans.

use std::borrow::Cow;

/// Verdict on a request by the running quantiles of a live run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveVerdict {
    /// Value of `guestscope.cause`.
    pub cause: Option<Cow<'static, str>>,
    /// Value of `guestscope.tail`: `p50`, `p90`, `p99`, `p99.9`.
    pub tail: Option<Cow<'static, str>>,
}
