//! What a thread's traffic over sockets went through, beside its ledger: some of it is written from interrupts.

/// Counted since tracking of the thread began. 64 bits never wrap, 32 do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Traffic {
    /// From the last send over a socket to the first receive over it afterwards, ns, added up over `answers`.
    pub answer_ns: u64,
    /// The shortest round trip that TCP has lately seen on the same sockets, ns, once for each of `answers` over TCP.
    pub round_trip_ns: u64,
    /// Receives that came after a send over the same socket, by the same thread, inside the same outermost phase.
    pub answers: u32,
    /// Times TCP sent something again over a socket that this thread was the last one to send over.
    pub retransmits: u32,
}

const _: () = assert!(size_of::<Traffic>() == 2 * 8 + 2 * 4);
