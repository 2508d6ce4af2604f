//! Cases that poll descriptors, among them a device that stands in for a graphics processor's: a virtual
//! terminal on which nobody types.

use std::{
    fs::File,
    os::{
        fd::{AsRawFd as _, RawFd},
        unix::fs::OpenOptionsExt as _,
    },
    ptr,
    sync::mpsc::channel,
    thread,
};

use crate::{
    Case, Subject,
    driver::OF_CUDA,
    stub::{CALL_NS, SPIN, Stub, handle},
    waits::{TIMEOUT, timeouts},
};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[
    ("polls_device", |subject| polls(subject, 0, poll)),
    ("polls_device_with_mask", |subject| polls(subject, 0, ppoll)),
    ("polls_device_fourth", |subject| polls(subject, 3, poll)),
    ("polls_device_fifth", |subject| polls(subject, 4, poll)),
    ("polls_device_beside_a_driver", beside_a_driver),
    ("polls_device_for_another", for_another),
];

/// How often the other thread waits.
const ROUNDS: u64 = 20;

/// The device; none, with a note, where there is none.
fn device(subject: &Subject) -> Option<File> {
    let mut options = File::options();
    let device = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open("/dev/tty0");
    if device.is_err() {
        subject.fact("refused", 1);
    }
    device.ok()
}

/// What to poll in a descriptor: input.
fn input(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Polls as many pipes, into which nobody writes, and the device behind them.
fn polls(subject: &Subject, pipes: usize, poll: impl Fn(&mut [libc::pollfd])) {
    let Some(device) = device(subject) else { return };
    let pipes: Vec<_> = (0..pipes).map(|_| std::io::pipe().expect("descriptors are left")).collect();
    let numbers = pipes.iter().map(|(near, _)| near.as_raw_fd()).chain([device.as_raw_fd()]);
    let polled: Vec<_> = numbers.map(input).collect();
    timeouts(subject, || poll(&mut polled.clone()));
}

fn poll(polled: &mut [libc::pollfd]) {
    // SAFETY: as many descriptors as the array has.
    let ready =
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, TIMEOUT.as_millis() as i32) };
    assert_eq!(ready, 0, "nobody types");
}

fn ppoll(polled: &mut [libc::pollfd]) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(TIMEOUT.subsec_nanos()) };
    // SAFETY: as many descriptors as the array has; the time lives across the call.
    let ready = unsafe {
        libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, &raw const time, ptr::null())
    };
    assert_eq!(ready, 0, "nobody types");
}

/// The program has called a function of the driver before.
fn beside_a_driver(subject: &Subject) {
    Stub::load(subject).waits(OF_CUDA).call(handle(SPIN, CALL_NS));
    polls(subject, 0, poll);
}

/// A thread polls the device each time that it is asked to, and the one that asks waits for its answer.
fn for_another(subject: &Subject) {
    let Some(device) = device(subject) else { return };
    let ((ask, asked), (answer, answers)) = (channel(), channel());
    thread::scope(|scope| {
        scope.spawn(move || {
            for () in asked {
                poll(&mut [input(device.as_raw_fd())]);
                answer.send(()).expect("the other thread waits");
            }
        });
        subject.clerk(|clerk| {
            clerk.book("wait", 1, || {
                for _ in 0..ROUNDS {
                    ask.send(()).expect("the other thread listens");
                    answers.recv().expect("the other thread answers");
                }
            });
        });
        drop(ask);
    });
}
