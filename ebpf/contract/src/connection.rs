//! Contract for requests that are derived from sockets: which connections are watched, and what their records
//! mean.

/// Most watched ports and paths, and number 0 for none.
pub const WATCHES: u32 = 33;
/// Most known connections at once.
pub const CONNECTIONS_MOST: u32 = 16_384;
/// Elements of the table of ports, with eight ports each.
pub const PORT_WORDS: u32 = (1 << 16) / 8;
/// `sizeof(sun_path)`: the longest address of a Unix socket.
pub const PATH_BYTES: usize = 108;
/// The same with padding, so that a mask is a bound.
pub const PATH_ROOM: usize = 128;
/// Size of the name of a watch's requests: whole words.
pub const WATCH_NAME_BYTES: usize = 64;

/// The watch of ports without requested names: arrivals are noted for requests that the program marks itself.
pub const UNNAMED: u8 = 0xff;
/// A scheduled time up to this is a client's port instead, by which a request that another thread has
/// received finds its arrival.
pub const PEER_MOST: u64 = u16::MAX as u64;
/// Most connections that a thread has taken something from and that wait for their turn.
pub const TAKEN: u32 = 8;

/// Third argument of a socket's end: something was sent, and more may follow. It is the end unless another
/// one comes.
pub const MAY_GO_ON: u64 = 1;
/// The same, but the goroutine that sends has changed its thread since the last send: it is not known on
/// which thread it was in between.
pub const MAY_GO_ON_ELSEWHERE: u64 = 3;
/// Third argument of a socket's end: what looked like a request was none.
pub const WAS_NONE: u64 = 2;

/// A watched port or path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Watch {
    /// Name of its requests.
    pub name: [u8; WATCH_NAME_BYTES],
    /// Length of the name, bytes.
    pub length: u64,
}

/// The token of a connection's requests, by the address of its socket, which is a multiple of 64 in the upper
/// half of a 48-bit range.
#[must_use]
pub const fn token(socket: u64) -> u64 {
    (socket & 0xffff_ffff_ffff) >> 6 << crate::TOKEN_CHILD_BITS
}
