//! Messages between the agent and its library in a CUDA program (`inject/`), which asks NVIDIA's CUPTI what
//! ran on a GPU.
//!
//! The library connects to the agent's socket and sends [`GREETING`], then a [`Hello`]. The agent sends
//! [`Order`]s. For each window the library sends [`Work`]s, each kernel's [`Name`] before its first, and a
//! [`Window`] behind them. A [`Failed`] may come anywhere. A message is its kind, a zero, its length in two
//! bytes, and its payload, all little-endian. A program can send anything instead: [`decode`] refuses what is
//! no message, and its caller closes the connection.

#![no_std]

mod reading;
mod writing;

pub use self::{
    reading::{Malformed, decode},
    writing::Encoded,
};

/// First words of the library on the agent's socket: as many bytes as the agent reads first.
pub const GREETING: &[u8; 16] = b"cupti 1        \n";
/// Bytes in front of a payload.
pub const HEADER_BYTES: usize = 4;
/// Longest name of a kernel that is sent; templates make names of some thousands.
pub const NAME_BYTES: usize = 2048;
/// Longest message.
pub const MOST_BYTES: usize = HEADER_BYTES + 8 + NAME_BYTES;
/// Bytes of an [`Order`].
pub const ORDER_BYTES: usize = 4;

/// A message of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// CUPTI was found.
    Hello(Hello<'a>),
    /// The name of kernels.
    Name(Name<'a>),
    /// Something ran on a device.
    Work(Work),
    /// A window, or a part of a long one, is over.
    Window(Window),
    /// CUPTI was not found, or refused.
    Failed(Failed),
}

/// What the library found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hello<'a> {
    /// CUPTI's version of its interface.
    pub version: u32,
    /// Name or path by which it was loaded.
    pub library: &'a [u8],
}

/// The name of kernels, said once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name<'a> {
    /// Number by which [`Work::name`] means it.
    pub id: u64,
    /// The name as the compiler made it, cut at [`NAME_BYTES`].
    pub name: &'a [u8],
}

/// What a device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A kernel ran.
    #[default]
    Kernel = 0,
    /// Memory was copied.
    Copy = 1,
    /// Memory was filled with a value.
    Set = 2,
    /// A CUDA graph ran, with all kernels in it.
    Graph = 3,
}

impl Kind {
    /// All kinds, by their numbers.
    pub const ALL: [Self; 4] = [Self::Kernel, Self::Copy, Self::Set, Self::Graph];
}

/// A piece of work of a device. Times are of CLOCK_MONOTONIC, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// What it was.
    pub kind: Kind,
    /// CUPTI's number for where a copy went (`CUpti_ActivityMemcpyKind`); 0 for no copy.
    pub copy: u8,
    /// CUDA's number of the device.
    pub device: u32,
    /// CUPTI's number of the context.
    pub context: u32,
    /// CUPTI's number of the stream.
    pub stream: u32,
    /// The thread that asked for it, by its number in its own namespace; 0 if that was not seen.
    pub thread: u32,
    /// Start on the device.
    pub start_ns: u64,
    /// End on the device.
    pub end_ns: u64,
    /// Start of the call that asked for it; 0 if that was not seen.
    pub called_ns: u64,
    /// End of that call.
    pub returned_ns: u64,
    /// Bytes copied or filled.
    pub bytes: u64,
    /// Number of the kernel's [`Name`]; 0 for no kernel.
    pub name: u64,
}

/// An interval in which CUPTI recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// CLOCK_MONOTONIC at its start, ns: that of the last one's end where recording went on.
    pub begin_ns: u64,
    /// At its end, ns.
    pub end_ns: u64,
    /// Records that CUPTI had no room for.
    pub dropped: u64,
    /// Records that the library had no room for.
    pub unsent: u64,
    /// Work that had not ended when the window closed, which CUPTI does not tell.
    pub cut: u64,
    /// CPU time of the library's own thread, CUPTI's calls on it included, ns.
    pub cpu_ns: u64,
}

/// What failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failed {
    /// The step.
    pub step: Step,
    /// CUPTI's result; 0 where there is none.
    pub result: u32,
}

/// Steps of the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// Finding libcupti.so.
    #[default]
    Find = 0,
    /// Becoming CUPTI's only client.
    Subscribe = 1,
    /// Handing CUPTI the library's functions.
    Register = 2,
    /// Recording kernels.
    Kernels = 3,
    /// Recording calls.
    Calls = 4,
    /// Recording copies.
    Copies = 5,
    /// Recording graphs.
    Graphs = 6,
    /// Taking records.
    Flush = 7,
}

impl Step {
    /// All steps, by their numbers.
    pub const ALL: [Self; 8] = [
        Self::Find,
        Self::Subscribe,
        Self::Register,
        Self::Kernels,
        Self::Calls,
        Self::Copies,
        Self::Graphs,
        Self::Flush,
    ];
}

/// An order of the agent: record for so long from now on. While a window is open it gets longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Milliseconds; 0 closes the window.
    pub open_ms: u32,
}

impl Order {
    /// Its bytes.
    pub const fn bytes(self) -> [u8; ORDER_BYTES] {
        self.open_ms.to_le_bytes()
    }

    /// The order in these bytes.
    pub const fn read(bytes: [u8; ORDER_BYTES]) -> Self {
        Self { open_ms: u32::from_le_bytes(bytes) }
    }
}

/// Numbers of messages.
mod number {
    pub(crate) const HELLO: u8 = 1;
    pub(crate) const NAME: u8 = 2;
    pub(crate) const WORK: u8 = 3;
    pub(crate) const WINDOW: u8 = 4;
    pub(crate) const FAILED: u8 = 5;
}
