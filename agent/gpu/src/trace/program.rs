//! A program with the agent's CUPTI library in it: orders go, messages come. Nothing that it sends is
//! trusted.

use std::{
    collections::HashMap,
    io::{self, Read as _},
    os::fd::{AsFd as _, AsRawFd as _},
};

use guestscope_cupti::{Failed, Hello, Kind, MOST_BYTES, Message, Order, Window, Work, decode};
use guestscope_model::phase::{GpuWork, GpuWorkKind};
use nix::sys::socket::{MsgFlags, send};
use tokio::{net::UnixStream, sync::OwnedSemaphorePermit};

use super::{names, words};
use crate::untrusted::Untrusted;

/// Bytes that are read at once.
const ROOM: usize = 64 << 10;
/// Most names of kernels that are kept of a program; models have some hundreds.
const NAMES: usize = 4_096;
/// Most failures that are told of a program.
const TROUBLES: usize = 8;

/// Most reads when it has ended: the kernel keeps less of a socket.
const LAST_READS: usize = 64;

/// What a program told.
#[derive(Debug, PartialEq, Eq)]
pub enum Traced {
    /// CUPTI was found in it: version, and the name of the library.
    Known(u32, Untrusted),
    /// Work, or a window.
    Work(GpuWork),
    /// A failure, for people.
    Trouble(String),
}

/// A connected program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) pid: u32,
    stream: UnixStream,
    read: Vec<u8>,
    names: HashMap<u64, Untrusted>,
    troubles: usize,
    is_known: bool,
    /// Whether its connection is over.
    pub(super) is_over: bool,
    /// Its place among all connections to the agent.
    _place: OwnedSemaphorePermit,
}

impl Program {
    pub(super) fn new(pid: u32, stream: UnixStream, place: OwnedSemaphorePermit) -> Self {
        let (read, names) = (Vec::new(), HashMap::new());
        Self { pid, stream, read, names, troubles: 0, is_known: false, is_over: false, _place: place }
    }

    /// Sends an order. A program that takes none misses its window.
    pub(super) fn order(&self, order: Order) {
        // Not by the runtime, which may not know yet that there is room.
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let _ = send(self.stream.as_raw_fd(), &order.bytes(), flags);
    }

    /// Whether there is something to read.
    pub(super) fn poll(&self, context: &mut std::task::Context<'_>) -> bool {
        self.stream.poll_read_ready(context).is_ready()
    }

    /// Takes what is there, at most one read.
    pub(super) fn take(&mut self, traced: &mut Vec<Traced>) {
        self.read.reserve(ROOM);
        match self.stream.try_read_buf(&mut self.read) {
            Ok(0) => self.is_over = true,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => self.is_over = true,
            Ok(_) => self.decode(traced),
            Err(_) => {}
        }
    }

    /// Takes what is left when the program has ended: the runtime may not know yet that something is there.
    pub(super) fn last(mut self, traced: &mut Vec<Traced>) {
        let Ok(mut stream) = dup(&self.stream) else { return };
        for _ in 0..LAST_READS {
            let before = self.read.len();
            self.read.resize(before + ROOM, 0);
            let read = stream.read(&mut self.read[before..]).unwrap_or(0);
            self.read.truncate(before + read);
            if read == 0 || self.is_over {
                return;
            }
            self.decode(traced);
        }
    }

    fn decode(&mut self, traced: &mut Vec<Traced>) {
        let bytes = std::mem::take(&mut self.read);
        let mut at = 0;
        loop {
            match decode(&bytes[at..]) {
                Ok(Some((message, length))) => {
                    at += length;
                    traced.extend(self.message(&message));
                }
                Ok(None) => break,
                Err(_) => {
                    traced.push(Traced::Trouble(format!("process {} sent what makes no sense", self.pid)));
                    self.is_over = true;
                    return;
                }
            }
        }
        self.read = bytes;
        self.read.drain(..at);
        debug_assert!(self.read.len() < MOST_BYTES, "a whole message is decoded");
    }

    fn message(&mut self, message: &Message<'_>) -> Option<Traced> {
        match *message {
            Message::Hello(Hello { version, library }) => {
                let is_first = !std::mem::replace(&mut self.is_known, true);
                is_first.then(|| Traced::Known(version, Untrusted::of_bytes(library)))
            }
            Message::Name(name) => {
                if self.names.len() < NAMES && !self.names.contains_key(&name.id) {
                    self.names.insert(name.id, names::readable(name.name));
                }
                None
            }
            Message::Work(work) => Some(Traced::Work(self.work(&work))),
            Message::Window(window) => Some(Traced::Work(self.window(window))),
            Message::Failed(Failed { step, result }) => {
                self.troubles += 1;
                let is_told = self.troubles <= TROUBLES;
                is_told.then(|| {
                    Traced::Trouble(format!("process {}: {}", self.pid, words::failure(step, result)))
                })
            }
        }
    }

    fn work(&self, work: &Work) -> GpuWork {
        let name = match work.kind {
            Kind::Kernel => self.names.get(&work.name).cloned().unwrap_or_default(),
            Kind::Copy => words::way(work.copy).into(),
            Kind::Set | Kind::Graph => Untrusted::default(),
        };
        GpuWork {
            kind: match work.kind {
                Kind::Kernel => GpuWorkKind::Kernel,
                Kind::Copy => GpuWorkKind::Copy,
                Kind::Set => GpuWorkKind::Set,
                Kind::Graph => GpuWorkKind::Graph,
            },
            name,
            process: self.pid,
            thread: work.thread,
            device: work.device,
            context: work.context,
            stream: work.stream,
            start_ns: work.start_ns,
            end_ns: work.end_ns.max(work.start_ns),
            called_ns: work.called_ns,
            returned_ns: work.returned_ns.max(work.called_ns),
            bytes: work.bytes,
            ..GpuWork::default()
        }
    }

    fn window(&self, window: Window) -> GpuWork {
        let losses = [window.dropped, window.unsent, window.cut];
        GpuWork {
            kind: GpuWorkKind::Window,
            process: self.pid,
            start_ns: window.begin_ns,
            end_ns: window.end_ns.max(window.begin_ns),
            lost: losses.into_iter().fold(0, u64::saturating_add),
            cost_ns: window.cpu_ns,
            ..GpuWork::default()
        }
    }
}

/// The same socket without the runtime; it does not block either.
fn dup(stream: &UnixStream) -> io::Result<std::os::unix::net::UnixStream> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}
