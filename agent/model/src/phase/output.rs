//! What pairing yields, in the order in which it yields it.

use super::{
    Wait,
    pause::Pause,
    values::{Mark, Phase, Request, Thread},
};

/// What pairing yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A whole request, or a whole process.
    Request(Request),
    /// A thread that ended, or was last seen.
    Thread(Box<Thread>),
    /// A point in time.
    Mark(Mark),
    /// The guest was stopped. It comes before the requests that it lies in.
    Pause(Pause),
    /// A thread was off the CPU for long. It comes before the request that it lies in, never after it.
    Wait(Wait),
}

impl Output {
    /// Memory that it takes, about.
    pub fn bytes(&self) -> usize {
        let phases = if let Output::Request(request) = self { request.phases.len() } else { 0 };
        size_of::<Self>() + phases * size_of::<Phase>()
    }
}
