//! Everything that a verb downloads: which version, and what tells that it is the right one.
//!
//! One table, so that a change of a version shows what vouches for it. Versions of crates and their hashes
//! are in Cargo.lock, those of Python packages and Go modules in the files named here.

use std::{env, fs, path::PathBuf};

use anyhow::Result;
use sha2::{Digest as _, Sha256};

use crate::failure::failure;

/// The compiler that builds the BPF object, by the name under which rustup has it.
pub(crate) const NIGHTLY: &str = "nightly-2026-05-20";
/// The same, by what `rustc -vV` says. Rustup checks a hash that comes from the same server.
pub(crate) const NIGHTLY_COMMIT: &str = "e50aa6fba4e63ab34c72bf9acfd2c307c1155d1a";

/// Newer ones want a newer rustc than the workspace does.
pub(crate) const BPF_LINKER: &str = "0.13.0";
/// SHA-256 of the crate. Its own Cargo.lock (`--locked`) has those of what it is built from.
pub(crate) const BPF_LINKER_SHA256: &str = "998bea250d009a4719ed16ab6d772d519b77b031a0261e69223a35013972594b";

/// Checks licences, sources and duplicates of dependencies. Newer ones may want a newer rustc, as above.
pub(crate) const CARGO_DENY: &str = "0.20.2";
/// SHA-256 of the crate.
pub(crate) const CARGO_DENY_SHA256: &str = "e528dfcbe739af7ce37a77d3d6df1b29dd6887b1c701d888820c0f16b864f737";

/// Jaeger 2.21.0 for all its architectures: whatever the tag says by now. Another one than the module below,
/// which has no page; both speak OTLP and have the same answers.
pub(crate) const JAEGER_ARCHIVE: &str =
    "https://github.com/jaegertracing/jaeger/releases/download/v2.20.0/jaeger-2.20.0-linux-amd64.tar.gz";
pub(crate) const JAEGER_ARCHIVE_BYTES: u64 = 58_367_331;
pub(crate) const JAEGER_ARCHIVE_SHA256: &str =
    "c967368ba09be356089ef7e8aab2a76d170dc007ff6ccf7925c8167ede2900d7";
pub(crate) const JAEGER_IMAGE: &str =
    "docker.io/jaegertracing/jaeger@sha256:3d0ac795ff98aa04d1be04311d2dac6c25b4bfc8322dc02e53bc5b170c5018c3";
/// Jaeger 2.13 with all its modules, each with the hash of Go's checksum database.
pub(crate) const JAEGER_SUMS: &str = include_str!("../jaeger/go.sum");

/// A Go that is new enough, as the module that every Go can fetch.
pub(crate) const GO: &str = "golang.org/toolchain@v0.0.1-go1.25.5.linux-amd64";
/// Its hash in the checksum database.
pub(crate) const GO_SUM: &str = "h1:IkknVKy/4hLMR+ZwWfP4Oqhjz2sKqNtEXz1meP8P3Nc=";

/// Python packages, each wheel with its SHA-256: pip refuses any other (`--require-hashes`).
pub(crate) const TEST_REQUIREMENTS: &str = include_str!("../test.requirements.txt");
/// Web servers and frameworks, 80 MB.
pub(crate) const WEB_REQUIREMENTS: &str = include_str!("../web.requirements.txt");
/// PyTorch and all that its wheels need, 5 GB.
pub(crate) const TORCH_REQUIREMENTS: &str = include_str!("../torch.requirements.txt");
/// Web servers and libraries of machine learning, 2 GB.
pub(crate) const SERVERS_REQUIREMENTS: &str = include_str!("../servers.requirements.txt");
/// Tools of `check`, 8 MB.
pub(crate) const LINTS_REQUIREMENTS: &str = include_str!("../lints.requirements.txt");
/// The wheels that libtorch is taken from.
pub(crate) const LIBTORCH_REQUIREMENTS: &str = include_str!("../libtorch.requirements.txt");

// What is not pinned: packages of Debian and Ubuntu. Their servers drop a version when there is a newer one,
// with whatever hole it mends, so that a pinned one could soon not be had. Apt checks the archive's
// signature; `cargo xtask vm` writes down which kernels it had.

/// Whether the crate that cargo has downloaded is the pinned one, by its SHA-256.
pub(crate) fn check_crate(name: &str, version: &str, sha256: &str) -> Result<()> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let file = format!("{name}-{version}.crate");
    let caches = home.map(|home| home.join("registry/cache")).into_iter().flat_map(fs::read_dir).flatten();
    for file in caches.flatten().map(|cache| cache.path().join(&file)).filter(|file| file.exists()) {
        let found = format!("{:x}", Sha256::digest(fs::read(&file)?));
        if found != sha256 {
            return Err(failure(
                format!("{name} {version} has another hash than the pinned one: {found}"),
                "do not use it; check what stands between this machine and the registry",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::test(TEST_REQUIREMENTS)]
    #[case::web(WEB_REQUIREMENTS)]
    #[case::torch(TORCH_REQUIREMENTS)]
    #[case::servers(SERVERS_REQUIREMENTS)]
    #[case::libtorch(LIBTORCH_REQUIREMENTS)]
    #[case::lints(LINTS_REQUIREMENTS)]
    fn every_python_package_has_a_version_and_a_hash(#[case] requirements: &str) {
        let joined = requirements.replace("\\\n", " ");
        let packages: Vec<&str> =
            joined.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).collect();
        assert!(!packages.is_empty());
        for package in packages {
            let is_pinned = package.contains("==") || package.contains(" @ ");
            assert!(is_pinned && package.contains("--hash=sha256:"), "{package}");
        }
    }

    #[test]
    fn every_go_module_has_a_hash() {
        assert!(JAEGER_SUMS.lines().all(|line| line.contains(" h1:")), "a line without one");
        assert!(GO_SUM.starts_with("h1:") && GO.contains("@v"));
    }

    #[test]
    fn the_image_is_named_by_its_content() {
        let (name, digest) = JAEGER_IMAGE.split_once("@sha256:").expect("by its digest");
        assert!(
            name.ends_with("/jaeger") && digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit())
        );
    }

    /// What stands for a version that moves is nowhere in what is downloaded.
    #[test]
    fn the_compiler_is_named_by_its_day() {
        assert_eq!(NIGHTLY.len(), "nightly-2026-05-20".len());
        assert_eq!(NIGHTLY_COMMIT.len(), 40);
    }
}
