//! Device events (uevents), for the one about a new generation of the virtual machine.
//!
//! Mainline Linux sends it in 6.8 alone; some makers of virtual machines do in kernels of their own. Every
//! process with the right capability may send to this socket as well, so only the kernel's messages are
//! looked at: its number is 0 as a sender's address and as a process.

use std::{
    io::{self, IoSliceMut},
    os::fd::{AsRawFd, OwnedFd, RawFd},
};

use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, ControlMessageOwned, MsgFlags, NetlinkAddr, RecvMsg, SockFlag, SockProtocol, SockType,
        bind, recvmsg, setsockopt, socket, sockopt::PassCred,
    },
};

use super::records::Records;

/// The kernel's multicast group, ahead of any daemon.
const KERNEL_GROUP: u32 = 1;
/// Longest message: the kernel's buffer for one has 2 KiB, with or without its header with the device's path.
const MESSAGE: usize = 8192;
/// The field of the event.
const NEW_GENERATION: &[u8] = b"NEW_VMGENID=1";

/// The socket.
#[derive(Debug)]
pub struct Uevents {
    socket: OwnedFd,
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A whole message of the kernel's.
    Kernel(Vec<u8>),
    /// A message from another sender, too long for the kernel's, or lost for lack of room.
    Other,
}

impl Uevents {
    /// Listens from now on. That needs no privilege; a network namespace outside the initial user namespace
    /// hears nothing.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let protocol = SockProtocol::NetlinkKObjectUEvent;
        let socket = socket(AddressFamily::Netlink, SockType::Datagram, flags, protocol)?;
        // Before any message can come, so that none comes without its sender.
        setsockopt(&socket, PassCred, &true)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, KERNEL_GROUP))?;
        Ok(Self { socket })
    }

    /// The next message. `WouldBlock` where there is none.
    pub fn next(&self) -> io::Result<Message> {
        let mut bytes = [0; MESSAGE];
        let mut control = nix::cmsg_space!(libc::ucred);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg::<NetlinkAddr>(
            self.socket.as_raw_fd(),
            &mut slices,
            Some(&mut control),
            MsgFlags::empty(),
        );
        let length = match received {
            Ok(received) => is_from_kernel(&received)?.then_some(received.bytes),
            // Messages were lost for lack of room: the kernel's log reports a new generation too.
            Err(Errno::ENOBUFS | Errno::EINTR) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(length.map_or(Message::Other, |length| Message::Kernel(bytes[..length].to_vec())))
    }
}

/// Whether a message is whole, and the kernel's.
fn is_from_kernel(received: &RecvMsg<'_, '_, NetlinkAddr>) -> io::Result<bool> {
    let is_cut = received.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC);
    let address = received.address.is_some_and(|sender| sender.pid() == 0);
    let is_kernel = |message| {
        let ControlMessageOwned::ScmCredentials(sender) = message else { return false };
        sender.pid() == 0 && sender.uid() == 0
    };
    Ok(!is_cut && address && received.cmsgs()?.any(is_kernel))
}

impl AsRawFd for Uevents {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Records for Uevents {
    const NAME: &'static str = "events of devices";

    fn next_tells(&mut self) -> io::Result<bool> {
        Ok(match self.next()? {
            Message::Kernel(bytes) => tells(&bytes),
            Message::Other => false,
        })
    }
}

/// Whether a kernel message reports it: `change@PATH`, then fields, each with a zero behind it. Fields that a
/// process had the kernel send along (by a device's file `uevent`) have names that begin otherwise.
fn tells(message: &[u8]) -> bool {
    let mut parts = message.split(|&byte| byte == 0);
    parts.next().is_some_and(|header| header.starts_with(b"change@"))
        && parts.any(|field| field == NEW_GENERATION)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::tells;

    #[rstest]
    #[case::as_it_is(
        "change@/devices/platform/VMGENCTR:00\0ACTION=change\0DEVPATH=/devices/platform/VMGENCTR:00\0\
         SUBSYSTEM=platform\0NEW_VMGENID=1\0DRIVER=vmgenid\0SEQNUM=1200\0",
        true
    )]
    #[case::another_action("add@/devices/x\0ACTION=add\0NEW_VMGENID=1\0", false)]
    #[case::somebody_asked_for_it("change@/devices/x\0SYNTH_ARG_NEW_VMGENID=1\0", false)]
    #[case::in_another_field("change@/devices/x\0NAME=NEW_VMGENID=1\0", false)]
    #[case::another_value("change@/devices/x\0NEW_VMGENID=10\0", false)]
    #[case::in_the_header("change@NEW_VMGENID=1\0", false)]
    #[case::of_a_daemon("libudev\0\u{1}NEW_VMGENID=1\0", false)]
    #[case::empty("", false)]
    fn only_the_field_itself_tells(#[case] message: &str, #[case] expected: bool) {
        assert_eq!(tells(message.as_bytes()), expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(message in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(!tells(&message));
        }
    }
}
