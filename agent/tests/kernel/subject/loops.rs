//! Cases that read from their own loop device over a file in memory: no other program uses it, so the
//! kernel's counters in /sys/block/loopN/stat are this program's alone. The device goes away with its last
//! descriptor.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::{
        fd::{AsRawFd as _, FromRawFd as _},
        unix::fs::{FileExt as _, OpenOptionsExt as _},
    },
};

use crate::{
    Case, Subject,
    clerk::{Clerk, now_ns},
};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[("loop_reads", reads), ("loop_batches", batches)];

pub(crate) const MIB: usize = 1 << 20;
/// Size of the device, MiB.
pub(crate) const MIBS: usize = 32;
/// Reads of a MiB, one after the other.
const READS: u64 = 200;
/// Batches of `MEMBERS` reads each, submitted together.
const BATCHES: u64 = 100;
const MEMBERS: usize = 32;
/// Bytes of a read in a batch: pairs of reads are adjacent and may be merged.
const PIECE: usize = 16 << 10;

/// Request numbers from <linux/loop.h>.
const LOOP_SET_FD: libc::Ioctl = 0x4c00;
const LOOP_SET_STATUS64: libc::Ioctl = 0x4c04;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    numbers: [u64; 5],
    more: [u32; 3],
    flags: u32,
    names: [u8; 64 + 64 + 32],
    init: [u64; 2],
}

/// Alignment of memory for direct reads.
pub(crate) const ALIGNED: usize = 4096;

/// An aligned MiB inside this memory.
pub(crate) fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let begin = memory.as_ptr().align_offset(ALIGNED);
    &mut memory[begin..begin + MIB]
}

/// A loop device.
pub(crate) struct Loop {
    pub(crate) device: File,
    /// N of /dev/loopN.
    pub(crate) number: i32,
}

impl Loop {
    /// Makes a device over its own memory file.
    pub(crate) fn create() -> io::Result<Self> {
        // SAFETY: the name lives across the call, and the descriptor is new.
        let mut file = unsafe {
            let fd = libc::memfd_create(c"disk".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            File::from_raw_fd(fd)
        };
        let piece = vec![0x5a; MIB];
        (0..MIBS).try_for_each(|_| file.write_all(&piece))?;
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
        let check = |value: i32| if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) };
        loop {
            // SAFETY: takes nothing.
            let number = check(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) })?;
            let device = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_DIRECT)
                .open(format!("/dev/loop{number}"))?;
            // SAFETY: takes a descriptor.
            match check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_FD, file.as_raw_fd()) }) {
                // Another process took that number first.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => continue,
                taken => taken?,
            };
            let info = LoopInfo {
                numbers: [0; 5],
                more: [0; 3],
                flags: LO_FLAGS_AUTOCLEAR,
                names: [0; 160],
                init: [0; 2],
            };
            // SAFETY: the structure is as large as the call wants it, and lives across it.
            check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_STATUS64, &raw const info) })?;
            return Ok(Self { device, number });
        }
    }

    /// Reads and writes completed, their sectors, their milliseconds.
    fn stat(&self) -> [u64; 3] {
        let text = fs::read_to_string(format!("/sys/block/loop{}/stat", self.number)).expect("it is there");
        let numbers: Vec<u64> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        [numbers[0] + numbers[4], numbers[2] + numbers[6], numbers[3] + numbers[7]]
    }

    /// Notes readings around `body`, and the device's counters for the same time. `body` returns how long it
    /// took to submit several reads at once.
    pub(crate) fn book(&self, clerk: &mut Clerk, body: impl FnOnce() -> u64) {
        let (before, submitting_ns, after) = clerk.book("wait", 1, || {
            let before = self.stat();
            let submitting_ns = body();
            (before, submitting_ns, self.stat())
        });
        clerk.fact("submitting", submitting_ns);
        for (index, name) in ["ios", "sectors", "ms"].into_iter().enumerate() {
            clerk.fact(name, after[index] - before[index]);
        }
    }
}

fn reads(subject: &Subject) {
    let Ok(own) = Loop::create() else { return subject.fact("refused", 1) };
    let mut memory = vec![0; MIB + ALIGNED];
    let block = aligned(&mut memory);
    subject.clerk(|clerk| {
        own.book(clerk, || {
            for read in 0..READS {
                let at = read * 7 % MIBS as u64 * MIB as u64;
                own.device.read_exact_at(block, at).expect("the device has the bytes");
            }
            0
        });
    });
}

/// `struct iocb` of <linux/aio_abi.h>, for a read.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Control {
    data: u64,
    key: u32,
    flags: u32,
    operation: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    more_flags: u32,
    event_fd: u32,
}

/// Many reads on their way together, submitted in one call.
fn batches(subject: &Subject) {
    let Ok(own) = Loop::create() else { return subject.fact("refused", 1) };
    let mut memory = vec![0; MIB + ALIGNED];
    let block = aligned(&mut memory);
    let mut context = 0_usize;
    // SAFETY: the context lives across the call.
    if unsafe { libc::syscall(libc::SYS_io_setup, MEMBERS, &raw mut context) } != 0 {
        return subject.fact("refused", 1);
    }
    let controls: [Control; MEMBERS] = std::array::from_fn(|member| Control {
        fd: own.device.as_raw_fd() as u32,
        // `IOCB_CMD_PREAD` is 0.
        buffer: block.as_mut_ptr() as u64 + (member * PIECE) as u64,
        bytes: PIECE as u64,
        offset: ((member / 2 * 2) * MIB / 2 + member % 2 * PIECE) as i64,
        ..Control::default()
    });
    subject.clerk(|clerk| {
        own.book(clerk, || {
            let mut submitting_ns = 0;
            for _ in 0..BATCHES {
                let pointers = controls.each_ref().map(std::ptr::from_ref);
                let mut events = [[0_u64; 4]; MEMBERS];
                // SAFETY: the controls, what they point to, and the events, of 32 bytes each, live until all
                // are done.
                unsafe {
                    let start_ns = now_ns();
                    let submitted = libc::syscall(libc::SYS_io_submit, context, MEMBERS, pointers.as_ptr());
                    submitting_ns += now_ns() - start_ns;
                    assert_eq!(submitted, MEMBERS as i64);
                    let none = std::ptr::null::<libc::timespec>();
                    let done = libc::syscall(
                        libc::SYS_io_getevents,
                        context,
                        MEMBERS,
                        MEMBERS,
                        events.as_mut_ptr(),
                        none,
                    );
                    assert_eq!(done, MEMBERS as i64);
                }
                assert!(events.iter().all(|event| event[2] == PIECE as u64), "{events:?}");
            }
            submitting_ns
        });
    });
}
