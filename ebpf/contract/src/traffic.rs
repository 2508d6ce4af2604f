//! Waits and retransmissions of a thread's traffic over sockets, beside its ledger: partly written from
//! interrupts.

/// Counted since tracking of the thread began. 64 bits never wrap; 32 bits do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Traffic {
    /// From the last send over a socket to the first receive over it afterwards, ns, added up over
    /// `responses`.
    pub response_ns: u64,
    /// The shortest recent round trip of TCP on the same sockets, ns, added once for each of `responses` over
    /// TCP.
    pub round_trip_ns: u64,
    /// Receives after a send over the same socket, by the same thread, inside the same outermost phase.
    pub responses: u32,
    /// Times that TCP sent something again over a socket that this thread was the last to send over.
    pub retransmits: u32,
}

const _: () = assert!(size_of::<Traffic>() == 2 * 8 + 2 * 4);
