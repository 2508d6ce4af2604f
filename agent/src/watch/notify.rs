//! What systemd is told (sd_notify): when the agent is ready, that it lives, and that it ends. Elsewhere
//! nobody is told.

use std::{
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
};

/// The socket of the service manager, opened before the agent forbids itself to open any.
pub(super) struct Notify(Option<UnixDatagram>);

impl Notify {
    /// The socket that NOTIFY_SOCKET names, if any.
    pub(super) fn open() -> Self {
        let address = std::env::var("NOTIFY_SOCKET").unwrap_or_default();
        Self(Self::connected(&address).ok().flatten())
    }

    fn connected(address: &str) -> io::Result<Option<UnixDatagram>> {
        let address = match address.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None if address.starts_with('/') => SocketAddr::from_pathname(address)?,
            None => return Ok(None),
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect_addr(&address)?;
        Ok(Some(socket))
    }

    /// Tells a state, such as `READY=1`. A manager that does not take it is not waited for.
    pub(super) fn tell(&self, state: &str) {
        if let Some(socket) = &self.0 {
            let _ = socket.send(state.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_hears_of_it() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let path = place.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("it can be made");
        let path = path.to_str().expect("it is UTF-8");
        Notify(Notify::connected(path).expect("it is there")).tell("READY=1");
        let mut bytes = [0; 64];
        let read = manager.recv(&mut bytes).expect("it was told");
        assert_eq!(&bytes[..read], b"READY=1");
        assert!(Notify::connected("").expect("nobody is named").is_none());
    }
}
