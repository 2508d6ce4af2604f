//! Cases that read from a loop device of their own by io_uring: submitted by the thread itself, by the kernel
//! thread that polls its ring, and by workers of the kernel.

use std::os::fd::AsRawFd as _;

use io_uring::{IoUring, opcode, squeue, types};

use crate::{
    Case, Subject,
    loops::{ALIGNED, Loop, MIB, MIBS, aligned},
};

/// Cases by name.
pub(crate) const CASES: &[Case] =
    &[("ring_reads", by_itself), ("ring_polled", polled), ("ring_workers", by_workers)];

/// Batches of `MEMBERS` reads each.
const BATCHES: usize = 50;
const MEMBERS: usize = 8;
/// Bytes of a read.
const PIECE: usize = 128 << 10;
/// The kernel thread polls the ring for longer than a batch takes.
const IDLE_MS: u32 = 2_000;

fn by_itself(subject: &Subject) {
    read(subject, IoUring::new(MEMBERS as u32), squeue::Flags::empty());
}

fn polled(subject: &Subject) {
    let ring = IoUring::builder().setup_sqpoll(IDLE_MS).build(MEMBERS as u32);
    read(subject, ring, squeue::Flags::empty());
}

fn by_workers(subject: &Subject) {
    read(subject, IoUring::new(MEMBERS as u32), squeue::Flags::ASYNC);
}

fn read(subject: &Subject, ring: std::io::Result<IoUring>, flags: squeue::Flags) {
    let (Ok(own), Ok(mut ring)) = (Loop::create(), ring) else { return subject.fact("refused", 1) };
    let mut memory = vec![0; MIB + ALIGNED];
    let block = aligned(&mut memory);
    subject.fact("reads", (BATCHES * MEMBERS) as u64);
    let fd = types::Fd(own.device.as_raw_fd());
    subject.clerk(|clerk| {
        own.book(clerk, || {
            for batch in 0..BATCHES {
                for (member, piece) in block.chunks_exact_mut(PIECE).enumerate() {
                    // Far from each other: none is merged into another one.
                    let at = (member * 3 + batch) % MIBS * MIB;
                    let read = opcode::Read::new(fd, piece.as_mut_ptr(), PIECE as u32);
                    let read = read.offset(at as u64).build().flags(flags);
                    // SAFETY: the device and the memory live until the read is done, which is waited for.
                    unsafe { ring.submission().push(&read) }.expect("the ring has room");
                }
                let mut done = 0;
                while done < MEMBERS {
                    // A signal from another process would cut it short.
                    let _ = ring.submit_and_wait(MEMBERS - done);
                    for completion in ring.completion() {
                        assert_eq!(completion.result(), PIECE as i32);
                        done += 1;
                    }
                }
            }
            0
        });
    });
}
