//! Debian's kernels: found in the mirror that this machine uses, fetched by apt, unpacked, never installed.
//!
//! Yields an [`Image`] in the cache. apt works in its own folders there, with only the machine's network
//! settings and keyring: no source, hook or list of the machine is read or changed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::matrix::{Architecture, Kernel};
use crate::{
    Xtask, apt,
    command::{self, Run},
    failure::failure,
    setup::{self, Wanted},
};

/// Keyring that verifies the mirror; `Signed-By` of each source written here.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const MIRROR: &str = "GUESTSCOPE_DEBIAN_MIRROR";
/// Younger package lists are not refreshed.
const FRESH: Duration = Duration::from_hours(24);
/// Modules for a disk of QEMU, by PCI and in a microVM; modules built into the kernel are no files.
const MODULES: [&str; 7] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_mmio",
    "virtio_blk",
];

/// A kernel on disk.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// Release, as in the package's name: `6.1.0-47-cloud-amd64`.
    pub(crate) release: String,
    pub(crate) architecture: Architecture,
    pub(super) folder: PathBuf,
}

impl Image {
    pub(crate) fn kernel(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// Modules, with their names for the guest.
    pub(crate) fn modules(&self) -> impl Iterator<Item = (String, PathBuf)> {
        let names = MODULES.iter().map(|name| format!("{name}.ko"));
        names.map(|name| (name.clone(), self.folder.join(name))).filter(|(_, file)| file.exists())
    }
}

/// Where Debian's packages come from.
#[derive(Debug, PartialEq, Eq)]
struct Mirror {
    archive: String,
    security: String,
}

/// Fetches a kernel.
pub(crate) fn image(xtask: &Xtask, kernel: &Kernel) -> Result<Image> {
    let mirror = Mirror::find()?;
    if !Path::new(KEYRING).exists() {
        apt::need(xtask, &["debian-archive-keyring"])?;
    }
    apt::need(xtask, &["xz-utils"])?;
    let mut missing = Vec::new();
    for suite in &kernel.suites {
        let index = Index::of(xtask, suite, kernel.architecture);
        if let Err(error) = index.refresh(xtask, &mirror) {
            missing.push(format!("{suite}: {error:#}"));
            continue;
        }
        let names = index.names()?;
        match newest(&names, &kernel.package) {
            Some(release) => return index.fetch(xtask, kernel, &names, release),
            None => missing.push(format!("{suite}: no such package")),
        }
    }
    Err(failure(
        format!("no kernel {}: {}", kernel.package, missing.join("; ")),
        format!("{MIRROR}=URL names another mirror, one that ends in /debian"),
    ))
}

impl Mirror {
    /// The mirror that the user chose, or the one in the machine's sources.
    fn find() -> Result<Self> {
        if let Some(url) = std::env::var(MIRROR).ok().filter(|url| !url.is_empty()) {
            return Self::of(&[url.as_str()]).ok_or_else(|| {
                failure(
                    format!("not a mirror of Debian: ${MIRROR}"),
                    "it ends in /debian or /debian-security",
                )
            });
        }
        let mut sources = Command::new("apt-get");
        sources.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
        let lines = command::text(&mut sources).unwrap_or_default();
        Self::of(&lines.lines().collect::<Vec<_>>()).ok_or_else(|| {
            failure(
                "this machine's apt has no source of Debian",
                format!("{MIRROR}=URL names a mirror, one that ends in /debian"),
            )
        })
    }

    /// Main and security archive are beside each other, so one gives the other.
    fn of(urls: &[&str]) -> Option<Self> {
        let ending = |end: &str| {
            let trimmed = urls.iter().map(|url| url.trim().trim_end_matches('/'));
            trimmed.filter(|url| url.contains("://")).find_map(|url| url.strip_suffix(end)).map(str::to_owned)
        };
        let (archive, security) = (ending("/debian"), ending("/debian-security"));
        let [beside_archive, beside_security] = [&archive, &security].map(Clone::clone);
        Some(Self {
            archive: format!("{}/debian", archive.or(beside_security)?),
            security: format!("{}/debian-security", security.or(beside_archive)?),
        })
    }

    fn source(&self, suite: &str, architecture: Architecture) -> String {
        let url = if suite.ends_with("-security") { &self.security } else { &self.archive };
        format!("deb [arch={} signed-by={KEYRING}] {url} {suite} main\n", architecture.name())
    }
}

/// apt's view of one suite.
struct Index {
    suite: String,
    architecture: Architecture,
    folder: PathBuf,
}

impl Index {
    fn of(xtask: &Xtask, suite: &str, architecture: Architecture) -> Self {
        let name = match architecture {
            Architecture::Amd64 => suite.to_owned(),
            Architecture::Arm64 => format!("{suite}-{}", architecture.name()),
        };
        let folder = xtask.cache.root().join("debian").join(name);
        Self { suite: suite.to_owned(), architecture, folder }
    }

    fn configuration(&self) -> PathBuf {
        self.folder.join("apt.conf")
    }

    /// An apt program that knows only this suite.
    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.configuration()).env("LC_ALL", "C").arg("--quiet");
        command
    }

    /// Downloads the suite's lists, unless they are new enough. If that fails, old lists are used.
    fn refresh(&self, xtask: &Xtask, mirror: &Mirror) -> Result<()> {
        let (suite, architecture) = (&self.suite, self.architecture);
        let stamp = self.folder.join("refreshed");
        let age = fs::metadata(&stamp).and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
        let source = mirror.source(suite, architecture);
        let same = fs::read_to_string(self.folder.join("sources.list")).is_ok_and(|old| old == source);
        if same && age.is_some_and(|age| age < FRESH) {
            return Ok(());
        }
        for part in ["empty", "state/lists/partial", "cache/archives/partial"] {
            let folder = self.folder.join(part);
            fs::create_dir_all(&folder).with_context(|| format!("folder: {}", folder.display()))?;
        }
        let settings = command::text(Command::new("apt-config").arg("dump")).unwrap_or_default();
        fs::write(self.configuration(), configuration(&self.folder, architecture, &settings))?;
        fs::write(self.folder.join("state/status"), "")?;
        fs::write(self.folder.join("sources.list"), source)?;
        let mut update = self.apt("apt-get");
        let label = format!("list of Debian's {suite} for {}", architecture.name());
        let log = format!("debian-{suite}-{}", architecture.name());
        match setup::command(xtask, &label, &log, "fetched", update.arg("update")) {
            Ok(_) => Ok(fs::write(stamp, "")?),
            Err(error) if same && age.is_some() => {
                xtask.progress.shortfall(format!("{suite} is as of the last time: {error}"));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// All packages of Linux.
    fn names(&self) -> Result<Vec<String>> {
        let names = command::text(self.apt("apt-cache").args(["pkgnames", "linux-"]));
        let names = names.context("`apt-cache` listed no packages")?;
        Ok(names.lines().map(|name| name.trim().to_owned()).collect())
    }

    fn fetch(&self, xtask: &Xtask, kernel: &Kernel, names: &[String], release: &str) -> Result<Image> {
        let packages = parts(names, release);
        let versions = packages.iter().map(|package| self.version(package)).collect::<Result<Vec<_>>>()?;
        let mut inputs: Vec<&str> = packages.iter().chain(&versions).map(String::as_str).collect();
        inputs.extend(MODULES);
        let name = format!("kernel-{}", kernel.name);
        let label = format!("Debian's Linux {}", versions.first().map_or(release, String::as_str));
        let wanted = Wanted { name: &name, inputs: &inputs, label: &label, done: "fetched" };
        let folder = setup::obtain(xtask, wanted, |run, at| self.unpack(run, at, &packages))?;
        Ok(Image { release: release.to_owned(), architecture: self.architecture, folder })
    }

    fn version(&self, package: &str) -> Result<String> {
        let policy = command::text(self.apt("apt-cache").args(["policy", package])).unwrap_or_default();
        apt::parse_candidate(&policy).with_context(|| format!("no version of {package}"))
    }

    /// Downloads the packages and keeps the files that a guest needs.
    fn unpack(&self, run: &Run, at: &Path, packages: &[String]) -> Result<()> {
        run.check(self.apt("apt-get").arg("download").args(packages).current_dir(at))?;
        let whole = at.join("whole");
        for file in files_below(at)?.iter().filter(|file| has_extension(file, "deb")) {
            run.check(Command::new("dpkg-deb").arg("--extract").arg(file).arg(&whole))?;
            fs::remove_file(file)?;
        }
        let files = files_below(&whole)?;
        let named = |file: &Path, name: &str| {
            file.file_name().and_then(|file| file.to_str()).is_some_and(|file| file.starts_with(name))
        };
        let kernel =
            files.iter().find(|file| named(file, "vmlinuz")).context("the packages contain no kernel")?;
        fs::rename(kernel, at.join("vmlinuz"))?;
        for module in MODULES {
            let Some(file) = files.iter().find(|file| named(file, &format!("{module}.ko"))) else { continue };
            fs::rename(file, at.join(file.file_name().unwrap_or_default()))?;
            let packed = at.join(format!("{module}.ko.xz"));
            if packed.exists() {
                run.check(Command::new("xz").arg("--decompress").arg(packed))?;
            }
        }
        fs::remove_dir_all(whole).context("could not remove the unpacked packages")
    }
}

fn has_extension(file: &Path, extension: &str) -> bool {
    file.extension().is_some_and(|its| its == extension)
}

/// Every file below a folder.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("folder: {}", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files.extend(files_below(&entry.path())?);
        } else if entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    Ok(files)
}

/// apt's complete configuration: its own folders, and the machine's network settings. Hooks are left out: an
/// update here must not empty the machine's own cache, as the hooks in container images do.
fn configuration(folder: &Path, architecture: Architecture, settings: &str) -> String {
    let of_network = settings.lines().filter(|line| {
        line.starts_with("Acquire::")
            && !["IndexTargets", "Languages", "GzipIndexes"]
                .iter()
                .any(|part| line["Acquire::".len()..].starts_with(part))
    });
    let place = |name: &str, below: &str| format!("{name} \"{}\";", folder.join(below).display());
    let own = [
        place("Dir::State", "state"),
        place("Dir::State::status", "state/status"),
        place("Dir::Cache", "cache"),
        place("Dir::Etc::main", "empty/none"),
        place("Dir::Etc::parts", "empty"),
        place("Dir::Etc::sourcelist", "sources.list"),
        place("Dir::Etc::sourceparts", "empty"),
        place("Dir::Etc::preferences", "empty/none"),
        place("Dir::Etc::preferencesparts", "empty"),
        "Acquire::Languages \"none\";".to_owned(),
        format!("APT::Architecture \"{}\";", architecture.name()),
        // apt's own user cannot enter the cache, which only its owner may read.
        "APT::Sandbox::User \"\";".to_owned(),
    ];
    own.iter().map(String::as_str).chain(of_network).fold(String::new(), |text, line| text + line + "\n")
}

/// The release of the newest package that fits the pattern: `6.1.0-47-cloud-amd64`.
fn newest<'a>(names: &'a [String], pattern: &str) -> Option<&'a str> {
    let (before, after) = pattern.split_once('*')?;
    let versions = names.iter().filter_map(|name| {
        let numbers = numbers(name.strip_prefix(before)?.strip_suffix(after)?)?;
        // A pattern with the star in place of the first numbers must not match a package that only depends on
        // another.
        (before.matches('.').count() + numbers.len() > 2).then_some((numbers, name))
    });
    versions.max()?.1.strip_prefix("linux-image-")
}

/// The numbers of a version, which begins with one.
fn numbers(version: &str) -> Option<Vec<u64>> {
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| {
        version.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    })
}

/// Packages to fetch for a release: from 7.x on, an image is a package that only depends on others.
fn parts(names: &[String], release: &str) -> Vec<String> {
    let wanted = ["image", "binary", "modules"].map(|part| format!("linux-{part}-{release}"));
    wanted.into_iter().filter(|name| names.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rstest::rstest;

    use super::{Architecture, Mirror, configuration, newest, parts};

    #[rstest]
    #[case::both(&["http://a/debian/", "http://b/debian-security"], "http://a/debian", "http://b/debian-security")]
    #[case::archive_alone(&["http://a/x/debian"], "http://a/x/debian", "http://a/x/debian-security")]
    #[case::security_alone(&["http://a/debian-security/"], "http://a/debian", "http://a/debian-security")]
    #[case::others_beside(&["https://c/apt/", "http://a/debian"], "http://a/debian", "http://a/debian-security")]
    fn a_mirror_is_told_by_its_path(#[case] urls: &[&str], #[case] archive: &str, #[case] security: &str) {
        let expected = Mirror { archive: archive.to_owned(), security: security.to_owned() };
        assert_eq!(Mirror::of(urls), Some(expected));
    }

    #[test]
    fn other_distributions_are_no_mirror() {
        assert_eq!(Mirror::of(&["http://a/ubuntu/", "file:/debian-old", ""]), None);
    }

    #[test]
    fn security_has_an_archive_of_its_own() {
        let mirror = Mirror::of(&["http://a/debian"]).unwrap();
        let source = |suite| mirror.source(suite, Architecture::Amd64);
        assert!(source("trixie-security").contains(" http://a/debian-security trixie-security main"));
        assert!(source("trixie-backports").contains(" http://a/debian trixie-backports main"));
        assert!(mirror.source("sid", Architecture::Arm64).starts_with("deb [arch=arm64 signed-by="));
    }

    #[test]
    fn the_machine_gives_its_network_settings_only() {
        let dump = "APT \"\";\nAPT::Update::Post-Invoke:: \"rm x\";\nAcquire::http::Proxy \"http://p\";\n\
                    Acquire::IndexTargets::deb::DEP-11 \"\";\nAcquire::Languages:: \"de\";\nDir \"/\";\n";
        let text = configuration(Path::new("/c"), Architecture::Arm64, dump);
        assert!(
            text.contains("Dir::State \"/c/state\";\n")
                && text.ends_with("Acquire::http::Proxy \"http://p\";\n")
        );
        assert!(!text.contains("Invoke") && !text.contains("DEP-11") && !text.contains("\"de\""), "{text}");
    }

    #[rstest]
    #[case("linux-image-6.1.*-cloud-amd64", Some("6.1.0-47-cloud-amd64"))]
    #[case("linux-image-6.12.*-cloud-amd64", Some("6.12.117+deb13-cloud-amd64"))]
    #[case("linux-image-*-cloud-amd64", Some("6.12.117+deb13-cloud-amd64"))]
    #[case("linux-image-6.12.*-cloud-arm64", Some("6.12.115+deb13-cloud-arm64"))]
    #[case("linux-image-5.10.*-cloud-amd64", None)]
    fn the_newest_is_found_by_its_numbers(#[case] pattern: &str, #[case] expected: Option<&str>) {
        let names = [
            "linux-image-cloud-amd64",
            "linux-image-6.1-cloud-amd64",
            "linux-image-6.1.0-9-cloud-amd64",
            "linux-image-6.1.0-47-cloud-amd64",
            "linux-image-6.1.0-48-cloud-amd64-unsigned",
            "linux-image-6.1.0-48-cloud-amd64-dbg",
            "linux-image-6.1.0-49-amd64",
            "linux-image-6.12-cloud-amd64",
            "linux-image-6.12.96+deb13-cloud-amd64",
            "linux-image-6.12.117+deb13-cloud-amd64",
            "linux-image-6.12.115+deb13-cloud-arm64",
            "linux-image-6.12.117+deb13-cloud-arm64-unsigned",
            "linux-image-unsigned-cloud-amd64",
        ]
        .map(str::to_owned);
        assert_eq!(newest(&names, pattern), expected);
    }

    #[test]
    fn an_image_may_be_in_several_packages() {
        let names = ["linux-image-7.3-a", "linux-modules-7.3-a", "linux-binary-7.3-a", "linux-base-7.3-a"];
        let names = names.map(str::to_owned);
        assert_eq!(
            parts(&names, "7.3-a"),
            ["linux-image-7.3-a", "linux-binary-7.3-a", "linux-modules-7.3-a"]
        );
        assert_eq!(parts(&names[..1], "7.3-a"), ["linux-image-7.3-a"]);
    }
}
