//! Waits for a device that only this case uses, and waits for I/O of another thread.

use std::{
    fs::{File, OpenOptions},
    os::{
        fd::AsRawFd as _,
        unix::fs::{FileExt as _, MetadataExt as _},
    },
    ptr,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use crate::{
    Case, Subject,
    loops::{ALIGNED, Loop, MIB, MIBS, aligned},
};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[("devices", devices)];

/// Rounds, each with one read, one write, one wait for the other thread's writes, and some faults.
const ROUNDS: usize = 20;
/// This thread uses the first half of the device, the other thread the second.
const HALF: usize = MIBS / 2 * MIB;
const PAGE: usize = 4096;
/// Bytes read ahead in each round.
const AHEAD: usize = 32 * 1024;
/// Page faults of each round.
const FAULTS: usize = 8;

/// Submits the page cache's changes to the device each time it is asked to, without waiting.
fn write_back(file: &File, asked: &Receiver<()>, answer: &SyncSender<()>) {
    let dirty = vec![0x33; HALF];
    for () in asked {
        file.write_all_at(&dirty, HALF as u64).expect("the device has room");
        // SAFETY: takes integers only.
        let given = unsafe {
            libc::sync_file_range(file.as_raw_fd(), HALF as i64, HALF as i64, libc::SYNC_FILE_RANGE_WRITE)
        };
        assert_eq!(given, 0);
        answer.send(()).expect("the other thread waits");
    }
}

fn devices(subject: &Subject) {
    let Ok(own) = Loop::create() else { return subject.fact("refused", 1) };
    let path = format!("/dev/loop{}", own.number);
    let cached = OpenOptions::new().read(true).write(true).open(&path).expect("it is there");
    subject.fact("device", own.device.metadata().expect("it is open").rdev());
    // SAFETY: a new mapping of a device that is as large; the kernel chooses the address.
    let memory = unsafe {
        let flags = (libc::PROT_READ, libc::MAP_SHARED);
        let memory = libc::mmap(ptr::null_mut(), HALF, flags.0, flags.1, cached.as_raw_fd(), 0);
        assert_ne!(memory, libc::MAP_FAILED);
        libc::madvise(memory, HALF, libc::MADV_RANDOM);
        memory.cast::<u8>()
    };
    let mut block = vec![0; MIB + ALIGNED];
    let block = aligned(&mut block);
    let (ask, asked) = sync_channel(1);
    let (answer, answers) = sync_channel(1);
    let cached = &cached;
    thread::scope(|scope| {
        scope.spawn(move || write_back(cached, &asked, &answer));
        subject.clerk(|clerk| {
            clerk.book("wait", 1, || {
                for round in 0..ROUNDS {
                    let at = (round % (HALF / MIB) * MIB) as u64;
                    own.device.read_exact_at(block, at).expect("the device has the bytes");
                    own.device.write_all_at(block, at).expect("the device takes them");
                    ask.send(()).expect("the other thread listens");
                    answers.recv().expect("the other thread answers");
                    // Submits reads, without waiting or sleeping before the next call.
                    let ahead = (HALF - MIB + round * AHEAD) as i64;
                    // SAFETY: takes integers only.
                    let begun = unsafe {
                        libc::posix_fadvise(
                            cached.as_raw_fd(),
                            ahead,
                            AHEAD as i64,
                            libc::POSIX_FADV_WILLNEED,
                        )
                    };
                    assert_eq!(begun, 0);
                    // SAFETY: takes integers only.
                    let waited = unsafe {
                        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE;
                        libc::sync_file_range(cached.as_raw_fd(), HALF as i64, HALF as i64, flags)
                    };
                    assert_eq!(waited, 0);
                    for fault in 0..FAULTS {
                        let page = (round * FAULTS + fault) * 17 % (HALF / PAGE);
                        // SAFETY: the address lies inside the mapping.
                        unsafe { memory.add(page * PAGE).read_volatile() };
                    }
                }
            });
        });
        drop(ask);
    });
}
