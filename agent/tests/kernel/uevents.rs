//! Device events from this kernel, and forged ones from a program.

use std::{io::ErrorKind, os::fd::AsRawFd as _, thread, time::Duration};

use guestscope::restore::uevents::{Message, Uevents};
use nix::{
    sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, sendto, socket},
    unistd::geteuid,
};

use crate::harness::skipped;

/// A device that every machine has and whose events nobody uses.
const DEVICE: &str = "/sys/class/mem/null/uevent";
/// A forged copy of the kernel's message.
const FORGED: &[u8] = b"change@/devices/platform/VMGENCTR:00\0ACTION=change\0NEW_VMGENID=1\0SEQNUM=1\0";
/// Attempts; each waits for some milliseconds.
const LOOKS: u32 = 1_000;

/// Reads messages until one of the kernel's has this field; returns all before it.
fn until(uevents: &Uevents, field: &[u8]) -> Vec<Message> {
    let mut before = Vec::new();
    for _ in 0..LOOKS {
        match uevents.next() {
            Ok(Message::Kernel(bytes)) if bytes.split(|&byte| byte == 0).any(|part| part == field) => {
                return before;
            }
            Ok(message) => before.push(message),
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("the socket can be read: {error}"),
        }
    }
    panic!("never came, after {before:?}");
}

#[test]
fn the_kernel_s_events_are_heard_and_nobody_else_s() {
    if !geteuid().is_root() {
        return skipped("the_kernel_s_events_are_heard_and_nobody_else_s", "only root may send such events");
    }
    let uevents = Uevents::open().expect("anybody may listen");
    let flags = SockFlag::SOCK_CLOEXEC;
    let stranger =
        socket(AddressFamily::Netlink, SockType::Datagram, flags, SockProtocol::NetlinkKObjectUEvent);
    let stranger = stranger.expect("a socket can be had");
    let everybody = NetlinkAddr::new(0, 1);
    sendto(stranger.as_raw_fd(), FORGED, &everybody, MsgFlags::empty()).expect("root may send");
    std::fs::write(DEVICE, "change").expect("the device has an event");
    let before = until(&uevents, b"DEVNAME=null");
    // The forged message arrived, and was not accepted as the kernel's.
    assert!(before.contains(&Message::Other), "{before:?}");
    let is_forged = |message: &Message| matches!(message, Message::Kernel(bytes) if bytes == FORGED);
    assert!(!before.iter().any(is_forged), "{before:?}");
    // Nor does the kernel send what a program requests under such a name: only letters and digits, with a
    // prefix.
    let asked =
        |field: &str| std::fs::write(DEVICE, format!("change 00000000-0000-4000-8000-000000000001 {field}"));
    assert_eq!(asked("NEW_VMGENID=1").expect_err("a name").kind(), ErrorKind::InvalidInput);
    asked("NEWVMGENID=1").expect("the device has an event");
    let before = until(&uevents, b"SYNTH_ARG_NEWVMGENID=1");
    assert!(!before.iter().any(is_forged), "{before:?}");
}
