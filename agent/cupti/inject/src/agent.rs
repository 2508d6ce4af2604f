//! The connection to the agent: orders come, messages go. What the agent does not take in time ends the
//! connection: the program keeps no backlog for it.

use core::{
    ffi::{CStr, c_int, c_uint},
    sync::atomic::{AtomicI32, Ordering::Relaxed},
};

use guestscope_cupti::{Encoded, Failed, GREETING, Message, ORDER_BYTES, Order, Step};

use super::system;

const VARIABLE: &CStr = c"GUESTSCOPE_NOTIFY";
const AF_UNIX: c_int = 1;
/// SOCK_STREAM | SOCK_CLOEXEC.
const STREAM: c_int = 1 | 0o2_000_000;
const SOL_SOCKET: c_int = 1;
const SO_SNDTIMEO: c_int = 21;
const SHUT_RD: c_int = 0;
const SHUT_RDWR: c_int = 2;
const MSG_NOSIGNAL: c_int = 0x4000;
const MSG_DONTWAIT: c_int = 0x40;
/// Longest time that a message waits for room in the kernel's buffer: an agent reads every 50 ms.
static PATIENCE: [i64; 2] = [2, 0];

/// Bytes that are sent at once.
const LETTER_BYTES: usize = 8192;

/// The socket; below 0 without a connection.
static SOCKET: AtomicI32 = AtomicI32::new(-1);
/// The process that opened it: a forked child has its number, and not the thread.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// `struct sockaddr_un`.
#[repr(C)]
struct Address {
    family: u16,
    path: [u8; 108],
}

/// The agent's socket.
pub(crate) struct Agent(c_int);

impl Agent {
    /// Connects to the agent that the environment names, and greets it.
    pub(crate) fn meet() -> Option<Self> {
        let path = system::variable(VARIABLE)?.to_bytes();
        let mut address = Address { family: AF_UNIX as u16, path: [0; 108] };
        if path.is_empty() || path.len() >= address.path.len() {
            return None;
        }
        for (to, from) in address.path.iter_mut().zip(path) {
            *to = *from;
        }
        // SAFETY: three integers.
        let socket = unsafe { system::socket(AF_UNIX, STREAM, 0) };
        if socket < 0 {
            return None;
        }
        let agent = Self(socket);
        // SAFETY: both structures are as large as told, and live across the calls.
        let is_there = unsafe {
            system::setsockopt(
                socket,
                SOL_SOCKET,
                SO_SNDTIMEO,
                (&raw const PATIENCE).cast(),
                size_of_val(&PATIENCE) as c_uint,
            ) == 0
                && system::connect(socket, (&raw const address).cast(), size_of::<Address>() as c_uint) == 0
        };
        if !is_there || !agent.send(GREETING) {
            agent.close();
            return None;
        }
        OWNER.store(system::own_pid(), Relaxed);
        SOCKET.store(socket, Relaxed);
        Some(agent)
    }

    /// The agent that was met before.
    pub(crate) fn met() -> Option<Self> {
        let socket = SOCKET.load(Relaxed);
        (socket >= 0 && Self::is_own()).then_some(Self(socket))
    }

    /// No order comes any more: a thread that waits for one is told that the agent is gone.
    pub(crate) fn hear_no_more(&self) {
        // SAFETY: two integers.
        unsafe { system::shutdown(self.0, SHUT_RD) };
    }

    /// Nothing is sent any more either.
    pub(crate) fn say_no_more(&self) {
        // SAFETY: two integers.
        unsafe { system::shutdown(self.0, SHUT_RDWR) };
    }

    /// Whether this process met the agent itself: a forked child did not.
    pub(crate) fn is_own() -> bool {
        OWNER.load(Relaxed) == system::own_pid()
    }

    /// Ends the connection.
    pub(crate) fn close(&self) {
        SOCKET.store(-1, Relaxed);
        // SAFETY: the descriptor was opened here and is used nowhere else from now on.
        unsafe { system::close(self.0) };
    }

    /// Sends a message. False: the agent is gone, or takes nothing.
    pub(crate) fn tell(&self, message: &Message<'_>) -> bool {
        self.send(Encoded::of(message).bytes())
    }

    /// Says that a step failed.
    pub(crate) fn failed(&self, step: Step, result: u32) {
        self.tell(&Message::Failed(Failed { step, result }));
    }

    /// Sends all of it, or false.
    pub(crate) fn send(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            // SAFETY: pointer and length are those of a slice.
            let sent = unsafe { system::send(self.0, bytes.as_ptr().cast(), bytes.len(), MSG_NOSIGNAL) };
            let Some(rest) = usize::try_from(sent).ok().filter(|sent| *sent > 0) else { return false };
            bytes = bytes.get(rest..).unwrap_or_default();
        }
        true
    }

    /// The next order, within so many milliseconds (below 0: whenever it comes).
    pub(crate) fn order(&self, milliseconds: c_int) -> Next {
        if !system::is_readable(self.0, milliseconds) {
            return Next::Nothing;
        }
        let mut bytes = [0; ORDER_BYTES];
        // SAFETY: room of the size that is told.
        match unsafe { system::recv(self.0, bytes.as_mut_ptr().cast(), ORDER_BYTES, MSG_DONTWAIT) } {
            read if read == ORDER_BYTES as isize => Next::Order(Order::read(bytes)),
            // The agent sends orders whole.
            _ => Next::Gone,
        }
    }
}

/// What came from the agent.
pub(crate) enum Next {
    Order(Order),
    /// Nothing in time.
    Nothing,
    /// The agent has ended.
    Gone,
}

/// Messages that are sent together.
pub(crate) struct Letter<'a> {
    agent: &'a Agent,
    bytes: [u8; LETTER_BYTES],
    used: usize,
}

impl<'a> Letter<'a> {
    pub(crate) fn new(agent: &'a Agent) -> Self {
        Self { agent, bytes: [0; LETTER_BYTES], used: 0 }
    }

    /// Adds a message, and sends those before it if there is no room. False: the agent is gone.
    pub(crate) fn add(&mut self, message: &Message<'_>) -> bool {
        let encoded = Encoded::of(message);
        let bytes = encoded.bytes();
        let is_taken = self.used + bytes.len() <= LETTER_BYTES || self.send();
        for (to, from) in self.bytes.iter_mut().skip(self.used).zip(bytes) {
            *to = *from;
        }
        self.used += bytes.len();
        is_taken
    }

    /// Sends them.
    pub(crate) fn send(&mut self) -> bool {
        let bytes = self.bytes.get(..core::mem::take(&mut self.used));
        self.agent.send(bytes.unwrap_or_default())
    }
}
