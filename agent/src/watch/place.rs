//! What a resident agent needs before it observes: its directory, its lock, its sockets.
//!
//! It removes what is old in its directory, so nobody else may be able to put anything there.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    os::unix::{
        fs::{DirBuilderExt as _, MetadataExt as _},
        net::UnixListener,
    },
    path::Path,
    sync::Arc,
};

use nix::fcntl::{Flock, FlockArg};

use super::{
    WatchError, control, keeper,
    notify::Notify,
    shared::{Shared, Status},
    tables::Config,
};
use crate::untrusted::Shown as _;

/// What exists before anything is observed.
pub(super) struct Place {
    pub(super) shared: Arc<Shared>,
    pub(super) listener: UnixListener,
    /// Where metrics are asked for.
    pub(super) scraped: Option<TcpListener>,
    pub(super) notify: Notify,
    /// Held as long as the agent lives.
    pub(super) _lock: Flock<fs::File>,
}

impl Place {
    /// Makes the directory, takes its lock, and opens the sockets.
    pub(super) fn make(config: Config) -> Result<Self, WatchError> {
        let failed = |path: &Path, source| WatchError::Place { path: path.to_owned(), source };
        for directory in
            [config.directory.clone(), config.directory.join("recorder"), config.directory.join("incidents")]
        {
            let mut builder = fs::DirBuilder::new();
            let made = builder.recursive(true).mode(0o700).create(&directory);
            made.map_err(|source| failed(&directory, source))?;
        }
        let socket_above = config.socket.parent().filter(|above| above.exists());
        for directory in [Some(&*config.directory), socket_above].into_iter().flatten() {
            trusted(directory).map_err(|source| failed(directory, source))?;
        }
        let path = config.directory.join("lock");
        let file = fs::File::create(&path).map_err(|source| failed(&path, source))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|_| WatchError::Another { path: path.clone() })?;
        let listener = control::listen(&config.socket).map_err(|source| {
            if source.kind() == io::ErrorKind::AddrInUse {
                WatchError::Another { path: config.socket.clone() }
            } else {
                failed(&config.socket, source)
            }
        })?;
        let bind = |at: SocketAddr| TcpListener::bind(at).map_err(|source| WatchError::Listen { at, source });
        let scraped = config.metrics.listen.map(bind).transpose()?;
        let list = keeper::saved(&config.directory);
        let status = Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: config.name.clone(),
            seen_part: 1.0,
            kept_part: 1.0,
            ..Status::default()
        };
        let shared = Shared::new(config, status, list);
        Ok(Self { shared, listener, scraped, notify: Notify::open(), _lock: lock })
    }
}

/// Checks that a directory and all above it belong to root or this user, and that no other user may replace
/// them: those that others may write have the sticky bit.
fn trusted(directory: &Path) -> io::Result<()> {
    /// Write permission of group and others.
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let real = fs::canonicalize(directory)?;
    let own = nix::unistd::geteuid().as_raw();
    for above in real.ancestors() {
        let metadata = fs::symlink_metadata(above)?;
        let is_last = above == real;
        let is_sticky = metadata.mode() & STICKY != 0 && !is_last;
        let is_closed = metadata.mode() & OTHERS_WRITE == 0 || is_sticky;
        if !(metadata.uid() == own || metadata.uid() == 0) || !is_closed {
            let text = format!("other users may write in {}", above.shown());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_place_that_others_may_write_is_refused() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let inner = place.path().join("a/b");
        fs::create_dir_all(&inner).expect("the place is ours");
        assert!(trusted(&inner).is_ok(), "{:?}", trusted(&inner));
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        open(&place.path().join("a"), 0o777).expect("it is ours");
        assert!(trusted(&inner).is_err());
        open(&place.path().join("a"), 0o1777).expect("it is ours");
        assert!(trusted(&inner).is_ok());
        open(&inner, 0o1777).expect("it is ours");
        assert!(trusted(&inner).is_err());
    }
}
