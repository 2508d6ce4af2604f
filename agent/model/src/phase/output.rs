//! What pairing yields, in the order in which it yields it.

use super::{
    GpuWork, QueueUser, Wait,
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
    Wait(Box<Wait>),
    /// Work of a GPU, or a window in which it was recorded. It comes up to a second after its request.
    GpuWork(Box<GpuWork>),
}

impl Output {
    /// Memory that it takes, about.
    pub fn bytes(&self) -> usize {
        let beside = match self {
            Output::Request(request) => request.phases.len() * size_of::<Phase>(),
            Output::Wait(wait) => size_of::<Wait>() + wait.users.listed.len() * size_of::<QueueUser>(),
            Output::Thread(_) => size_of::<Thread>(),
            Output::GpuWork(_) => size_of::<GpuWork>(),
            Output::Mark(_) | Output::Pause(_) => 0,
        };
        size_of::<Self>() + beside
    }
}
