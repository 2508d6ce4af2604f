//! Marks phases of a program for guestscope, which charges every nanosecond of each to what the kernel did
//! with it.
//!
//! ```
//! let request = guestscope_marker::request("classify", 7);
//! {
//!     let _phase = guestscope_marker::phase("preprocess");
//!     // decode, resize
//! }
//! request.end();
//! ```
//! Without an agent a call costs a few nanoseconds. The library yields edges at one probe point (`edge`) and
//! takes no time itself, but for an agent that may not look into the kernel (`ring`): it deliberately starts
//! no thread, and depends on nothing.

#![cfg_attr(not(feature = "std"), no_std, feature(thread_local))]

pub mod call;
pub mod edge;
#[cfg(feature = "std")]
mod future;
#[cfg(feature = "std")]
mod guard;
mod ids;
mod joined;
#[doc(hidden)]
pub mod load;
mod process;
mod reading;
mod rendezvous;
#[doc(hidden)]
pub mod ring;
mod syscall;
mod thread;
pub mod token;
#[cfg(feature = "tracing")]
pub mod tracing;

#[cfg(feature = "std")]
pub use future::{in_phase, in_request};
#[cfg(feature = "std")]
pub use guard::{Guard, context, mark, phase, request, request_scheduled, traceparent};
pub use ids::HEADER_BYTES;
