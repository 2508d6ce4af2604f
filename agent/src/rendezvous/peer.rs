//! A program that has connected, and how many came and were not let in.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use guestscope_gpu::trace::GREETING;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use tokio::{io::AsyncWriteExt as _, net::UnixStream, sync::OwnedSemaphorePermit};

use super::welcome;

/// A program that has connected: it waits for its probe, or wants to tell what its GPU does.
pub struct Peer {
    pub(super) stream: UnixStream,
    pub(super) pid: i32,
    pub(super) greeting: Greeting,
    pub(super) counts: Arc<Counts>,
    pub(super) place: OwnedSemaphorePermit,
}

/// What has connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    /// The marker's library, which waits for an answer.
    Marker,
    /// The library that asks CUPTI, which stays connected.
    Cupti,
    /// Something else: it is not let in.
    Other,
}

impl Greeting {
    /// The greeting in the first bytes that a process sends.
    pub(super) fn of(line: &[u8]) -> Self {
        match line {
            _ if line.starts_with(b"marker ") => Self::Marker,
            _ if line == GREETING => Self::Cupti,
            _ => Self::Other,
        }
    }
}

/// Counters of connecting programs.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Programs that may meet the agent.
    pub(super) arrived: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) strangers: AtomicU64,
    /// Programs that may meet the agent and did not send their line.
    pub(super) silent: AtomicU64,
}

impl Counts {
    pub(super) fn add(&self, peer: welcome::Peer) {
        let count = match peer {
            // A process that has ended counts as one of them, as far as is known.
            welcome::Peer::Observed | welcome::Peer::Gone => &self.arrived,
            welcome::Peer::Stranger => &self.strangers,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Peer {
    /// Process ID, which the kernel guarantees.
    pub fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// Whether it wants to tell what its GPU does.
    pub fn traces_gpus(&self) -> bool {
        self.greeting == Greeting::Cupti
    }

    /// Its process ID, and its connection with the place that this takes.
    pub fn into_parts(self) -> (u32, UnixStream, OwnedSemaphorePermit) {
        self.counts.answered.fetch_add(1, Ordering::Relaxed);
        (self.pid(), self.stream, self.place)
    }

    /// Lets it go on.
    pub async fn let_go(mut self) {
        if self.stream.write_all(b"\n").await.is_ok() {
            self.counts.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Passes it the descriptor of a ring for its edges, then lets it go on.
    pub async fn hand_over(self, ring: BorrowedFd<'_>) -> io::Result<()> {
        let ring = [ring.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&ring)];
        let answer = [io::IoSlice::new(b"\n")];
        let send = || {
            let socket = self.stream.as_raw_fd();
            Ok(sendmsg::<()>(socket, &answer, &rights, MsgFlags::MSG_NOSIGNAL, None)?)
        };
        self.stream.async_io(tokio::io::Interest::WRITABLE, send).await?;
        self.counts.answered.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
