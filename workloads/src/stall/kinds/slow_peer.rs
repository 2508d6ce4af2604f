//! `slow-peer`: the request asks another thread over a socket or a pipe, and the answer comes after SIZE.
//! Charged to `net` for `--peer socket` (a pair of Unix sockets), to `other` for `--peer pipe`.
//!
//! `ns` runs from before the question until the peer is about to answer, by `CLOCK_MONOTONIC` in both
//! threads: at least SIZE. No device and no protocol is involved; it is no shaped network.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    thread,
    time::Duration,
};

use crate::stall::{
    Fault, Injected, Kind, Peer, Setup,
    error::StallError,
    machine::{clock, partner::Partner},
    size::Unit,
};

pub(super) const KIND: Kind = Kind {
    name: "slow-peer",
    what: "the request reads from a socket or pipe, whose other end answers after SIZE",
    needs: "nothing",
    unit: Unit::Time,
    range: 1_000..=10_000_000_000,
    default: 20_000_000,
    bound: false,
    make,
};

struct SlowPeer {
    reads: Box<dyn Read>,
    writes: Box<dyn Write>,
    /// Declared after the ends above, which are closed first: the peer waits for that.
    _peer: Partner<(), ()>,
}

fn make(setup: &Setup) -> Result<Box<dyn Fault>, StallError> {
    match setup.peer {
        Peer::Socket => {
            let (own, theirs) = UnixStream::pair().map_err(StallError::call("socketpair"))?;
            let copy = |socket: &UnixStream| socket.try_clone().map_err(StallError::call("dup"));
            connect((copy(&own)?, own), (copy(&theirs)?, theirs))
        }
        Peer::Pipe => {
            let (own_reads, their_writes) = io::pipe().map_err(StallError::call("pipe2"))?;
            let (their_reads, own_writes) = io::pipe().map_err(StallError::call("pipe2"))?;
            connect((own_reads, own_writes), (their_reads, their_writes))
        }
    }
}

fn connect<R, W>(own: (R, W), theirs: (R, W)) -> Result<Box<dyn Fault>, StallError>
where
    R: Read + Send + 'static,
    W: Write + Send + 'static,
{
    let (mut reads, mut writes) = theirs;
    let peer = Partner::start("peer", move |_, _| while answer(&mut reads, &mut writes).is_ok() {})?;
    Ok(Box::new(SlowPeer { reads: Box::new(own.0), writes: Box::new(own.1), _peer: peer }))
}

/// Answers one question: sleeps for as long as it asks.
fn answer(reads: &mut impl Read, writes: &mut impl Write) -> io::Result<()> {
    let mut number = [0; 8];
    reads.read_exact(&mut number)?;
    thread::sleep(Duration::from_nanos(u64::from_ne_bytes(number)));
    writes.write_all(&clock::monotonic_ns().to_ne_bytes())
}

impl Fault for SlowPeer {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let start_ns = clock::monotonic_ns();
        self.writes.write_all(&size.to_ne_bytes()).map_err(StallError::call("write"))?;
        let mut number = [0; 8];
        self.reads.read_exact(&mut number).map_err(StallError::call("read"))?;
        Ok(Injected { ns: u64::from_ne_bytes(number).saturating_sub(start_ns), count: None })
    }
}
