//! Arguments of `--requests`: a port or a Unix socket whose connections carry requests.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
};

use guestscope_contract::connection::{PATH_BYTES, PATH_ROOM, WATCH_NAME_BYTES};

use crate::untrusted::Untrusted;

/// An address at which requests come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// A TCP port, on any address, over IPv4 or IPv6.
    Port(u16),
    /// A Unix socket by the path that its server bound; an abstract one begins with a zero byte.
    Path(OsString),
}

/// Why an argument is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchedError {
    /// Neither a port nor a path.
    #[error("neither port:NUMBER nor unix:PATH")]
    Kind,
    /// The port is not a valid number.
    #[error("a port is a number from 1 to 65535")]
    Port,
    /// The path is too short or too long for a socket.
    #[error("a path of a Unix socket has 1 to {} bytes", PATH_BYTES - 1)]
    Path,
}

impl Watched {
    /// Parses `port:8000`, `unix:/run/web.sock`, or `unix:@name` for an abstract socket.
    pub fn parse(text: &str) -> Result<Self, WatchedError> {
        let bytes = text.as_bytes();
        if let Some(port) = bytes.strip_prefix(b"port:") {
            let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
            return port.filter(|port| *port != 0).map(Watched::Port).ok_or(WatchedError::Port);
        }
        let path = bytes.strip_prefix(b"unix:").ok_or(WatchedError::Kind)?;
        if path.is_empty() || path.len() >= PATH_BYTES || path.contains(&0) || path == b"@" {
            return Err(WatchedError::Path);
        }
        let mut path = path.to_vec();
        if path[0] == b'@' {
            path[0] = 0;
        }
        Ok(Watched::Path(OsStr::from_bytes(&path).to_owned()))
    }

    /// Name of its requests, cut to the longest name: of a path the end stays.
    pub fn name(&self) -> Untrusted {
        match self {
            Watched::Port(port) => format!("port {port}").into(),
            Watched::Path(path) => {
                let mut path = path.as_bytes().to_vec();
                if path[0] == 0 {
                    path[0] = b'@';
                }
                let kind = b"unix ";
                let most = WATCH_NAME_BYTES - kind.len();
                Untrusted::of_bytes(&[kind, &path[path.len().saturating_sub(most)..]].concat())
            }
        }
    }

    /// The name for the BPF programs, and its length.
    pub(crate) fn name_bytes(&self) -> ([u8; WATCH_NAME_BYTES], u64) {
        let name = self.name();
        let name = name.stored().as_bytes();
        let bytes = name.len().min(WATCH_NAME_BYTES);
        let mut all = [0; WATCH_NAME_BYTES];
        all[..bytes].copy_from_slice(&name[..bytes]);
        (all, bytes as u64)
    }

    /// The path as the kernel stores it.
    pub(crate) fn path_bytes(&self) -> Option<[u8; PATH_ROOM]> {
        let Watched::Path(path) = self else { return None };
        let mut all = [0; PATH_ROOM];
        all[..path.len()].copy_from_slice(path.as_bytes());
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("port:8000", Ok("port 8000"))]
    #[case("port:65535", Ok("port 65535"))]
    #[case("port:0", Err(WatchedError::Port))]
    #[case("port:65536", Err(WatchedError::Port))]
    #[case("port:-1", Err(WatchedError::Port))]
    #[case("port:", Err(WatchedError::Port))]
    #[case("port:http", Err(WatchedError::Port))]
    #[case("unix:/run/web.sock", Ok("unix /run/web.sock"))]
    #[case("unix:@web", Ok("unix @web"))]
    #[case("unix:", Err(WatchedError::Path))]
    #[case("unix:@", Err(WatchedError::Path))]
    #[case("8000", Err(WatchedError::Kind))]
    #[case("", Err(WatchedError::Kind))]
    #[case("udp:53", Err(WatchedError::Kind))]
    fn arguments(#[case] text: &str, #[case] expected: Result<&str, WatchedError>) {
        let parsed = Watched::parse(text).map(|watched| watched.name().stored().to_owned());
        assert_eq!(parsed, expected.map(str::to_owned));
    }

    #[test]
    fn a_path_may_be_as_long_as_that_of_a_socket_and_its_name_is_its_end() {
        let text = |bytes: usize| format!("unix:/{}", "p".repeat(bytes - 1));
        assert_eq!(Watched::parse(&text(PATH_BYTES)), Err(WatchedError::Path));
        let longest = Watched::parse(&text(PATH_BYTES - 1)).unwrap();
        let (name, bytes) = longest.name_bytes();
        assert_eq!((bytes, &name[..6]), (64, &b"unix p"[..]));
        assert_eq!(longest.path_bytes().unwrap()[PATH_BYTES - 1], 0);
    }

    #[test]
    fn a_socket_without_a_path_is_known_as_the_kernel_has_it() {
        let watched = Watched::parse("unix:@web").unwrap();
        assert_eq!(watched.path_bytes().unwrap()[..5], *b"\0web\0");
    }
}
