//! What is set up once per machine: a folder of entries, each named by what it was made from.
//!
//! An entry appears by a rename after its stamp is written, so that one that can be seen is complete; work
//! that was interrupted stays in its `.partial` folder and goes on from there. One verb at a time works in
//! the cache. It removes no finished entry: another checkout may use it.

use std::{
    env, fs,
    fs::{DirBuilder, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use crate::{failure::failure, progress::Progress};

const STAMP: &str = ".complete";
/// Hexadecimal digits of the hash in a folder's name; the stamp holds all 64.
const NAME_DIGITS: usize = 12;

/// The cache of this user.
#[derive(Debug)]
pub(crate) struct Cache {
    root: PathBuf,
    /// The lock, while this verb may write.
    held: Option<File>,
}

impl Cache {
    /// Opens the cache of this user: `$GUESTSCOPE_CACHE`, else `guestscope` under `$XDG_CACHE_HOME` or
    /// `~/.cache`. Waits until no other verb works in it.
    pub(crate) fn open(progress: &Progress) -> Result<Self> {
        let root = place(|name| env::var_os(name).map(PathBuf::from)).ok_or_else(|| {
            failure(
                "no place for the cache: $HOME is not set",
                "set GUESTSCOPE_CACHE to a folder of your own",
            )
        })?;
        let mut cache = Self::at(root)?;
        let file = cache.root.join("lock");
        let lock = File::create(&file).with_context(|| format!("lock file: {}", file.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                progress.say("waiting for another `cargo xtask` that is setting things up");
                lock.lock().with_context(|| format!("lock file: {}", file.display()))?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("lock file: {}", file.display()));
            }
        }
        cache.held = Some(lock);
        Ok(cache)
    }

    /// The cache in a given folder, created for its owner alone.
    fn at(root: PathBuf) -> Result<Self> {
        let what = || format!("cache folder: {}", root.display());
        DirBuilder::new().recursive(true).mode(0o700).create(&root).with_context(what)?;
        fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).with_context(what)?;
        Ok(Self { root, held: None })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Lets other verbs use the cache; what is finished stays usable.
    pub(crate) fn release(&mut self) {
        drop(self.held.take());
    }

    /// Where the entry will stand once it is finished, for work that has to know its own address.
    pub(crate) fn address(&self, name: &str, inputs: &[&str]) -> PathBuf {
        self.root.join(format!("{name}-{}", &hash(inputs)[..NAME_DIGITS]))
    }

    /// The finished entry, if it is there.
    pub(crate) fn finished(&self, name: &str, inputs: &[&str]) -> Option<PathBuf> {
        let path = self.address(name, inputs);
        let stamp = fs::read_to_string(path.join(STAMP)).ok()?;
        (stamp.trim() == hash(inputs)).then_some(path)
    }

    /// The entry made from `inputs`: found, or made by `make` in a partial folder that a rename finishes.
    /// `make` may find there what an interrupted attempt left behind.
    pub(crate) fn ensure(
        &self,
        name: &str,
        inputs: &[&str],
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        if let Some(path) = self.finished(name, inputs) {
            return Ok(path);
        }
        let path = self.address(name, inputs);
        let partial = path.with_added_extension("partial");
        self.drop_other_partials(name, &partial)?;
        fs::create_dir_all(&partial).with_context(|| format!("folder: {}", partial.display()))?;
        make(&partial)?;
        write_whole(&partial.join(STAMP), hash(inputs).as_bytes())?;
        // Without a valid stamp the content has been changed.
        remove_folder(&path)?;
        fs::rename(&partial, &path).with_context(|| format!("folder: {}", path.display()))?;
        Ok(path)
    }

    /// Removes unfinished work on other versions of the entry: it will never be continued.
    fn drop_other_partials(&self, name: &str, keep: &Path) -> Result<()> {
        for entry in fs::read_dir(&self.root)?.flatten() {
            let path = entry.path();
            if path != keep && is_partial_of(name, &entry.file_name().to_string_lossy()) {
                fs::remove_dir_all(&path).with_context(|| format!("folder: {}", path.display()))?;
            }
        }
        Ok(())
    }
}

/// Removes a folder and what is in it, if it is there.
pub(crate) fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("folder: {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn is_partial_of(name: &str, file_name: &str) -> bool {
    file_name
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".partial"))
        .is_some_and(|digits| digits.len() == NAME_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The cache folder that an environment asks for.
fn place(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|path| path.is_absolute());
    set("GUESTSCOPE_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("guestscope")))
        .or_else(|| Some(set("HOME")?.join(".cache/guestscope")))
}

/// SHA-256 over the inputs, in hexadecimal. Lengths go in as well, so that `ab, c` is not `a, bc`.
pub(crate) fn hash(inputs: &[&str]) -> String {
    let mut digest = Sha256::new();
    for input in inputs {
        digest.update((input.len() as u64).to_le_bytes());
        digest.update(input.as_bytes());
    }
    format!("{:x}", digest.finalize())
}

/// Writes a file so that it is either absent, old, or whole.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let temporary = path.with_added_extension("tmp");
    fs::write(&temporary, content).with_context(|| format!("file: {}", temporary.display()))?;
    fs::rename(&temporary, path).with_context(|| format!("file: {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

    use anyhow::bail;
    use rstest::rstest;

    use super::{Cache, hash, is_partial_of, place};

    #[rstest]
    #[case(&[("GUESTSCOPE_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")], Some("/a"))]
    #[case(&[("XDG_CACHE_HOME", "/b"), ("HOME", "/c")], Some("/b/guestscope"))]
    #[case(&[("HOME", "/c")], Some("/c/.cache/guestscope"))]
    #[case(&[("XDG_CACHE_HOME", "relative"), ("HOME", "/c")], Some("/c/.cache/guestscope"))]
    #[case(&[("GUESTSCOPE_CACHE", ""), ("HOME", "/c")], Some("/c/.cache/guestscope"))]
    #[case(&[], None)]
    fn the_environment_says_where(#[case] set: &[(&str, &str)], #[case] expected: Option<&str>) {
        let set: HashMap<_, _> = set.iter().copied().collect();
        assert_eq!(place(|name| set.get(name).map(PathBuf::from)), expected.map(PathBuf::from));
    }

    #[test]
    fn an_entry_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("new/cache")).unwrap();
        assert_eq!(fs::metadata(cache.root()).unwrap().permissions().mode() & 0o777, 0o700);
        let first = cache.ensure("tool", &["1.0"], |at| Ok(fs::write(at.join("x"), "1")?)).unwrap();
        let again = cache.ensure("tool", &["1.0"], |_| bail!("made twice")).unwrap();
        assert_eq!(first, again);
        assert_eq!(cache.address("tool", &["1.0"]), again);
        assert_eq!(fs::read_to_string(again.join("x")).unwrap(), "1");
    }

    #[test]
    fn another_input_is_another_entry_and_both_stay() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().to_owned()).unwrap();
        let old = cache.ensure("tool", &["1.0"], |_| Ok(())).unwrap();
        let new = cache.ensure("tool", &["1.1"], |_| Ok(())).unwrap();
        assert!(old != new && old.exists() && new.exists());
    }

    #[test]
    fn interrupted_work_goes_on_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().to_owned()).unwrap();
        let stopped = cache.ensure("tool", &["1"], |at| {
            fs::write(at.join("half"), "downloaded")?;
            bail!("interrupted")
        });
        assert!(stopped.is_err() && cache.finished("tool", &["1"]).is_none());
        let entry =
            cache.ensure("tool", &["1"], |at| Ok(fs::rename(at.join("half"), at.join("whole"))?)).unwrap();
        assert_eq!(fs::read_to_string(entry.join("whole")).unwrap(), "downloaded");
    }

    #[test]
    fn what_was_begun_for_another_version_goes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().to_owned()).unwrap();
        drop(cache.ensure("tool", &["1"], |_| bail!("interrupted")));
        drop(cache.ensure("tool-box", &["1"], |_| bail!("interrupted")));
        cache.ensure("tool", &["2"], |_| Ok(())).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        left.sort();
        let left: Vec<_> = left.iter().map(|name| name.to_string_lossy()).collect();
        assert!(left.len() == 2 && left[1].starts_with("tool-box-"), "{left:?}");
    }

    #[test]
    fn an_entry_with_a_wrong_stamp_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().to_owned()).unwrap();
        let entry = cache.ensure("tool", &["1"], |at| Ok(fs::write(at.join("old"), "")?)).unwrap();
        fs::write(entry.join(super::STAMP), "something else").unwrap();
        let entry = cache.ensure("tool", &["1"], |_| Ok(())).unwrap();
        assert!(entry.exists() && !entry.join("old").exists());
    }

    #[test]
    fn the_hash_is_of_the_parts_and_not_of_their_sum() {
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
        assert_ne!(hash(&["a"]), hash(&["a", ""]));
        assert_eq!(hash(&["a"]).len(), 64);
    }

    #[rstest]
    #[case("tool", "tool-0123456789ab.partial", true)]
    #[case("tool", "tool-0123456789ab", false)]
    #[case("tool", "tool-box-0123456789ab.partial", false)]
    #[case("tool", "tools-0123456789ab.partial", false)]
    fn partial_folders_are_told_by_their_names(
        #[case] name: &str,
        #[case] file: &str,
        #[case] expected: bool,
    ) {
        assert_eq!(is_partial_of(name, file), expected);
    }
}
