//! What the programs and the agent agree on about requests that are known by their sockets: what is watched,
//! and what an end of such a request says.

/// Most ports and paths that can be watched, and one that is none.
pub const WATCHES: u32 = 33;
/// Connections that are known at once.
pub const CONNECTIONS_MOST: u32 = 16_384;
/// Elements of the table of ports, eight ports to each.
pub const PORT_WORDS: u32 = (1 << 16) / 8;
/// `sizeof(sun_path)`: the longest address of a Unix socket.
pub const PATH_BYTES: usize = 108;
/// The same with room behind it, by which a mask is a bound.
pub const PATH_ROOM: usize = 128;
/// Bytes of what its requests are called: whole words.
pub const WATCH_NAME_BYTES: usize = 64;

/// The watch of ports of which nobody asked for requests: when something came is noted for what the program
/// marks itself.
pub const UNNAMED: u8 = 0xff;
/// A scheduled time up to this is none: it is the port of the client, by which a request that another thread
/// has received is joined with when it came.
pub const PEER_MOST: u64 = u16::MAX as u64;
/// Connections that a thread has taken something from and that wait for their turn.
pub const TAKEN: u32 = 8;

/// Third argument of an end that a socket tells of: something was sent, and more may be. It is the end unless
/// another one comes.
pub const MAY_GO_ON: u64 = 1;
/// The same: what looked like a request was none.
pub const WAS_NONE: u64 = 2;

/// A port or path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Watch {
    /// What its requests are called.
    pub name: [u8; WATCH_NAME_BYTES],
    /// Bytes of that.
    pub length: u64,
}

/// The token of the requests of a connection, by the address of its socket, which is a multiple of 64 in the
/// upper part of 48 bits.
#[must_use]
pub const fn token(socket: u64) -> u64 {
    (socket & 0xffff_ffff_ffff) >> 6 << crate::TOKEN_CHILD_BITS
}
