//! Jaeger's official release archive: with its page, which a build from the Go module lacks.
//!
//! Yields the path of a binary in the cache. The archive is pinned by its hash. It lies at a host that is no
//! package registry, so the demonstration asks for it, and the tests do not.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use crate::{
    Xtask,
    command::Run,
    failure::failure,
    pins::{JAEGER_ARCHIVE, JAEGER_ARCHIVE_BYTES, JAEGER_ARCHIVE_SHA256},
    setup::{self, Wanted},
};

/// A host that does not answer at once will not: there is the build from the Go module.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const WHOLE_LIMIT: Duration = Duration::from_mins(10);

/// The binary, downloaded now if need be; none on machines for which no archive is pinned.
pub(super) fn ensure(xtask: &Xtask) -> Option<Result<PathBuf>> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let inputs = [JAEGER_ARCHIVE, JAEGER_ARCHIVE_SHA256];
    let label = "Jaeger's release archive (58 MB to download)";
    let wanted = Wanted { name: "jaeger-archive", inputs: &inputs, label, done: "downloaded" };
    Some(setup::obtain(xtask, wanted, fill).map(|at| at.join("jaeger")))
}

fn fill(run: &Run, at: &Path) -> Result<()> {
    let archive = at.join("jaeger.tar.gz");
    let bytes = download(JAEGER_ARCHIVE)?;
    check(&bytes)?;
    crate::cache::write_whole(&archive, &bytes)?;
    let mut unpack = Command::new("tar");
    unpack.args(["--extract", "--gzip", "--strip-components=1", "--no-same-owner", "--file"]);
    run.check(unpack.arg(&archive).arg("--directory").arg(at))?;
    fs::remove_file(&archive).with_context(|| format!("archive: {}", archive.display()))?;
    run.check(Command::new(at.join("jaeger")).arg("version"))?;
    Ok(())
}

fn download(address: &str) -> Result<Vec<u8>> {
    let agent = ureq::Agent::config_builder()
        .timeout_connect(Some(CONNECT_LIMIT))
        .timeout_global(Some(WHOLE_LIMIT))
        .build()
        .new_agent();
    let mut answer = agent.get(address).call().context("Jaeger's release archive cannot be had")?;
    let mut bytes = Vec::new();
    answer.body_mut().as_reader().take(JAEGER_ARCHIVE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn check(bytes: &[u8]) -> Result<()> {
    let found = format!("{:x}", Sha256::digest(bytes));
    if found == JAEGER_ARCHIVE_SHA256 && bytes.len() as u64 == JAEGER_ARCHIVE_BYTES {
        return Ok(());
    }
    Err(failure(
        format!("Jaeger's release archive has another hash than the pinned one: {found}"),
        "do not use it; check what stands between this machine and the archive's host",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_with_another_hash_is_refused() {
        let error = check(b"anything").unwrap_err().to_string();
        assert!(error.contains("another hash"), "{error}");
    }

    #[test]
    fn a_host_that_refuses_is_an_error_and_no_wait() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(download(&format!("http://{closed}/jaeger.tar.gz")).is_err());
    }
}
