//! The library's own thread, which waits in poll for the device, and wakes those who sleep.

use std::{
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    sync::{
        LazyLock, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

/// A sleeper, and for how long.
type Asked = (&'static AtomicU32, Duration);

static ASK: LazyLock<Mutex<Sender<Asked>>> = LazyLock::new(|| {
    let (ask, asked) = channel();
    let _ = thread::Builder::new().name("stub-poll".into()).spawn(move || serve(&asked));
    Mutex::new(ask)
});

/// Sleeps in a futex until a thread that waits in poll for this long has woken it.
pub(crate) fn sleep(time: Duration) {
    // Leaked: the pool's thread may still look at it.
    let word: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    let sent = ASK.lock().unwrap_or_else(PoisonError::into_inner).send((word, time));
    if sent.is_err() {
        return thread::sleep(time);
    }
    while word.load(Ordering::Acquire) == 0 {
        // SAFETY: an aligned word that lives for good.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT,
                0,
                std::ptr::null::<libc::timespec>(),
            )
        };
    }
}

/// Each sleeper has a thread of its own for its time, so that many can sleep at once.
fn serve(asked: &Receiver<Asked>) {
    for (word, time) in asked {
        let waits = move || {
            poll_for(time);
            word.store(1, Ordering::Release);
            // SAFETY: an aligned word that lives for good.
            unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
        };
        let _ = thread::Builder::new().name("stub-poll".into()).spawn(waits);
    }
}

/// Waits in poll until a timer's descriptor can be read.
fn poll_for(time: Duration) {
    // SAFETY: takes integers only.
    let timer = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
    if timer < 0 {
        return thread::sleep(time);
    }
    // SAFETY: the call returned a new descriptor, which has no other owner.
    let timer = unsafe { OwnedFd::from_raw_fd(timer) };
    let (zero, ns) = (libc::timespec { tv_sec: 0, tv_nsec: 0 }, time.subsec_nanos().max(1));
    let due = libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: ns.into() };
    let due = libc::itimerspec { it_interval: zero, it_value: due };
    let mut polled = libc::pollfd { fd: timer.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: both structures live across the calls.
    unsafe {
        libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const due, std::ptr::null_mut());
        libc::poll(&raw mut polled, 1, -1);
    }
}
