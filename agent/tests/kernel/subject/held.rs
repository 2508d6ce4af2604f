//! Cases whose control group has a limit on reads from a loop device of the case's own: a worker of the
//! kernel hands most of them on. Through a mapping, from the page cache, and directly.

use std::{
    fs::{self, OpenOptions},
    os::{
        fd::AsRawFd as _,
        unix::fs::{FileExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
    ptr,
};

use crate::{
    Case, Subject,
    loops::{ALIGNED, Loop, MIB, MIBS, aligned},
};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[("held_mapped", mapped), ("held_reads", reads), ("held_direct", direct)];

/// The limit: the whole device takes a second.
const BYTES_PER_S: usize = MIBS * MIB;
const PAGE: usize = 4096;
/// Bytes of a call that reads.
const PIECE: usize = 64 << 10;

/// A group with a limit, of the controller of block devices, of either version. It is removed at the end.
struct Group {
    home: PathBuf,
    limited: PathBuf,
}

impl Group {
    /// Makes it and moves this process into it. None where that cannot be done.
    fn enter(device: u64) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let has = |words: &str| words.split(',').any(|word| word == "blkio");
        let v1 = mounts.clone().find(|mount| mount[2] == "cgroup" && has(mount[3]));
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mut groups = groups.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
        let numbers = format!("{}:{}", libc::major(device), libc::minor(device));
        let (home, file, limit) = if let Some(mount) = &v1 {
            let group = groups.find(|group| has(group[1]))?;
            let home = Path::new(mount[1]).join(group[2].trim_start_matches('/'));
            (home, "blkio.throttle.read_bps_device", format!("{numbers} {BYTES_PER_S}"))
        } else {
            let mount = mounts.find(|mount| mount[2] == "cgroup2")?;
            let group = groups.find(|group| group[0] == "0")?;
            let home = Path::new(mount[1]).join(group[2].trim_start_matches('/'));
            fs::write(home.join("cgroup.subtree_control"), "+io").ok()?;
            (home, "io.max", format!("{numbers} rbps={BYTES_PER_S}"))
        };
        let limited = home.join(format!("guestscope-held-{}", std::process::id()));
        fs::create_dir(&limited).ok()?;
        let group = Self { home, limited };
        fs::write(group.limited.join(file), limit).ok()?;
        Self::moves_to(&group.limited).ok()?;
        Some(group)
    }

    fn moves_to(group: &Path) -> std::io::Result<()> {
        fs::write(group.join("cgroup.procs"), std::process::id().to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = Self::moves_to(&self.home);
        let _ = fs::remove_dir(&self.limited);
    }
}

/// Books a body that reads the whole device, under a limit.
fn limited(subject: &Subject, body: impl FnOnce(&Loop)) {
    let Ok(own) = Loop::create() else { return subject.fact("refused", 1) };
    let device = own.device.metadata().expect("it is open").rdev();
    let Some(_group) = Group::enter(device) else { return subject.fact("refused", 1) };
    subject.fact("device", device);
    subject.clerk(|clerk| {
        let before = asked();
        own.book(clerk, || {
            body(&own);
            0
        });
        clerk.fact("asked", asked() - before);
    });
}

/// What the kernel says that this thread has asked devices for.
fn asked() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/io").expect("tasks have it");
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: ")).expect("a line of it");
    line.parse().expect("a number")
}

fn cached(own: &Loop) -> fs::File {
    let file = OpenOptions::new().read(true).open(format!("/dev/loop{}", own.number));
    file.expect("it is there")
}

/// Page by page through a mapping.
fn mapped(subject: &Subject) {
    limited(subject, |own| {
        let file = cached(own);
        // SAFETY: a new mapping of a device that is as large; the kernel chooses the address.
        let memory = unsafe {
            let (rights, flags) = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(ptr::null_mut(), MIBS * MIB, rights, flags, file.as_raw_fd(), 0)
        };
        assert_ne!(memory, libc::MAP_FAILED);
        for page in 0..MIBS * MIB / PAGE {
            // SAFETY: inside the mapping, of which nobody writes.
            std::hint::black_box(unsafe { memory.cast::<u8>().add(page * PAGE).read_volatile() });
        }
    });
}

/// Through the page cache.
fn reads(subject: &Subject) {
    limited(subject, |own| {
        let file = cached(own);
        let mut memory = vec![0; PIECE];
        for at in (0..MIBS * MIB).step_by(PIECE) {
            file.read_exact_at(&mut memory, at as u64).expect("the device has the bytes");
        }
    });
}

/// Past it.
fn direct(subject: &Subject) {
    let mut memory = vec![0; MIB + ALIGNED];
    let block = aligned(&mut memory);
    limited(subject, |own| {
        for at in 0..MIBS {
            own.device.read_exact_at(block, (at * MIB) as u64).expect("the device has the bytes");
        }
    });
}
