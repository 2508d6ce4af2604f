//! Statistics of requests, and the causes of the slow ones. Pure: no I/O, no clock, no async.
//!
//! [`Live`] judges each request as it comes, in constant memory; [`Summary`] reads a finished run twice and
//! is exact where `Live` guesses. Both leave out and count what would distort them: warm-ups, requests that
//! never ended or whose accounts do not add up. All times are nanoseconds; output formats are elsewhere.
//!
//! Definitions, the same everywhere:
//! - *Latency* of a request: its time in the queue plus the duration of its outermost phase. An open loop
//!   counts from the scheduled arrival, a closed loop has no queue.
//! - *Part*: the time of one phase and [`Cause`]. A phase's part is its time less that of its nested phases,
//!   so that the parts of a request add up to its latency to the nanosecond; what no phase covers is
//!   [`OUTSIDE`].
//! - *Typical request*: the mean over the middle half, the 25th to the 75th percentile of latency. A mean is
//!   additive over parts, which a median is not, and the middle half keeps slow requests out of it.
//! - *Excess*: latency less the typical latency. The excesses of the parts add up to it, to the nanosecond.
//! - *Quantiles* come from histograms of three significant digits: they lie within 0.1 % of the exact ones.
//!   Sums, means, minima and maxima are exact.

pub mod advice;
mod busy;
mod called;
mod cause;
pub mod compare;
mod event_loop;
mod evidence;
pub mod explain;
pub mod gpu_bound;
mod gpu_windows;
pub mod gpu_work;
mod headline;
mod helped;
mod hidden;
mod limited;
mod live;
pub mod moves;
mod needs;
mod pattern;
mod peers;
mod quantiles;
pub mod ranks;
mod rows;
pub mod spinners;
mod split;
mod starved;
mod summary;
mod tally;
mod threads;
mod tree;
mod typical;

#[cfg(any(test, feature = "samples"))]
pub mod samples;
mod slow;
#[cfg(test)]
mod tests;
mod verdict;

pub use cause::{CAUSES, Cause, Overlay};
pub use headline::{ENOUGH_REQUESTS, Headline};
pub use helped::Helped;
pub use hidden::{Hidden, Openly, Openness, Untracked};
pub use limited::{Limited, Span, behind_others, each_once, explaining, limited};
pub use live::{Live, LiveProgress, WARM_REQUESTS};
pub use needs::Needs;
pub use quantiles::{Band, Quantiles};
pub use rows::{Row, RowKind};
pub use split::{Parts, Split, Sums};
pub use starved::{Starved, Starver, starved};
pub use summary::{Group, Summary};
pub use tally::request_split;
pub use threads::{OTHER_THREADS, Role, ThreadGroup, ThreadGroups, is_active};
pub use tree::{COLLECTION, OTHER_PHASES, OTHER_REQUESTS, OUTSIDE};

pub use self::{
    called::{Called, MostCalled},
    peers::{Peers, TakenBy},
    slow::{Excess, LikeIt, Slow},
    tally::{LeftOut, ProcessRow, SLOWEST},
    verdict::TailVerdict,
};
