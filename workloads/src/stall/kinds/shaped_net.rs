//! `shaped-net`: the request asks for bytes over a slow link, and they take SIZE. Charged to `net`, the time
//! off the CPU; `cpu_ns` of it is `cpu`. It needs root, and `ip` and `tc` of iproute2.
//!
//! The link is a veth pair between two network namespaces of its own, shaped to 100 Mbit/s by the kernel's
//! token bucket. A question of eight bytes asks for as many bytes as the link takes in SIZE, headers
//! included, after its burst. `ns` runs from before the question until the last byte, by `CLOCK_MONOTONIC`;
//! below nine tenths of SIZE the link was not slow, and that is an error. `count` is the number of bytes.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
};

use crate::stall::{
    Fault, Injected, Kind, Setup,
    error::StallError,
    machine::{
        clock,
        link::{Link, Rate},
    },
    size::Unit,
};

const NAME: &str = "shaped-net";

pub(super) const KIND: Kind = Kind {
    name: NAME,
    what: "the request reads bytes over a link of 100 Mbit/s, for SIZE",
    needs: "root (network namespaces), and `ip` and `tc`",
    unit: Unit::Time,
    range: 2_000_000..=10_000_000_000,
    default: 20_000_000,
    bound: false,
    make,
};

const RATE: Rate = Rate { bytes_per_second: 12_500_000, burst_bytes: 16 << 10 };
/// Bytes of a segment, and of its frame as the link counts it: with Ethernet, IP and TCP (timestamps).
const SEGMENT: u64 = 1448;
const FRAME: u64 = SEGMENT + 14 + 20 + 32;
const PIECE: usize = 64 << 10;

struct ShapedNet {
    link: Link,
    memory: Vec<u8>,
}

fn make(_: &Setup) -> Result<Box<dyn Fault>, StallError> {
    let link = Link::create(RATE, |mut socket| while send(&mut socket).is_ok() {})?;
    Ok(Box::new(ShapedNet { link, memory: vec![0; PIECE] }))
}

/// Answers one question: the number of bytes to send.
fn send(socket: &mut TcpStream) -> io::Result<()> {
    let mut number = [0; 8];
    socket.read_exact(&mut number)?;
    let mut left = u64::from_ne_bytes(number);
    let memory = [0; 4096];
    while left > 0 {
        let piece = left.min(memory.len() as u64);
        socket.write_all(&memory[..piece as usize])?;
        left -= piece;
    }
    Ok(())
}

/// Number of bytes that take `ns`.
fn bytes_of(ns: u64) -> u64 {
    let frames = ns.saturating_mul(RATE.bytes_per_second / 1000) / 1_000_000 + RATE.burst_bytes;
    frames * SEGMENT / FRAME
}

impl Fault for ShapedNet {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let bytes = bytes_of(size);
        let start_ns = clock::monotonic_ns();
        self.link.socket.write_all(&bytes.to_ne_bytes()).map_err(StallError::call("write"))?;
        let mut left = bytes;
        while left > 0 {
            let most = left.min(self.memory.len() as u64) as usize;
            let read = self.link.socket.read(&mut self.memory[..most]).map_err(StallError::call("read"))?;
            if read == 0 {
                return Err(StallError::PartnerGone { name: "far end".to_owned() });
            }
            left -= read as u64;
        }
        let ns = clock::monotonic_ns() - start_ns;
        if ns < size / 10 * 9 {
            return Err(StallError::NotShaped { ns, asked_ns: size });
        }
        Ok(Injected { ns, count: Some(bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_bytes_take_so_long() {
        // A tenth of a second of the link and its burst, scaled by the payload's share of a frame.
        assert_eq!(bytes_of(100_000_000), (1_250_000 + 16_384) * 1448 / 1514);
        assert_eq!(bytes_of(10_000_000_000), (125_000_000 + 16_384) * 1448 / 1514);
    }
}
