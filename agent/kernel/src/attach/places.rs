//! Files by patterns, with their owners: files of a user must not count for another user, or for root.
//!
//! Yields paths of regular files under limits, and the users who exceeded them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Entries of root's folders that are looked at for one pattern: containers, users.
const ENTRIES: usize = 10_000;
/// The same for all folders of one user.
const OTHERS_ENTRIES: usize = 1_000;

/// A path, and the user who controls it: root if all folders on it belong to root, else the owner of the
/// first folder that does not. That user may redirect anything below it by links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) owner: u32,
}

impl Place {
    /// The entry of this name below it, if there is one.
    fn below(&self, name: impl AsRef<Path>) -> Option<Self> {
        let path = self.path.join(name);
        let metadata = fs::metadata(&path).ok()?;
        Some(Self { path, owner: if self.owner == 0 { metadata.uid() } else { self.owner } })
    }
}

/// Regular files whose path matches; `*` is any name. Users who have too much there are added to `cut`.
pub(super) fn expand(root: &Path, pattern: &str, cut: &mut BTreeSet<u32>) -> Vec<Place> {
    let mut found = vec![Place { path: root.to_owned(), owner: 0 }];
    for part in pattern.split('/') {
        found = if part == "*" {
            entries(&found, cut)
        } else {
            found.iter().filter_map(|folder| folder.below(part)).collect()
        };
    }
    found.retain(|place| place.path.is_file());
    found
}

fn entries(folders: &[Place], cut: &mut BTreeSet<u32>) -> Vec<Place> {
    let mut found = Vec::new();
    let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
    for folder in folders {
        let most = if folder.owner == 0 { ENTRIES } else { OTHERS_ENTRIES };
        let seen = seen.entry(folder.owner).or_default();
        for entry in fs::read_dir(&folder.path).into_iter().flatten().flatten() {
            if *seen == most {
                cut.insert(folder.owner);
                break;
            }
            *seen += 1;
            found.extend(folder.below(entry.file_name()));
        }
    }
    found
}
