//! Files by patterns, and whose they are: so that no user's files count for those of another, or of root.
//!
//! Yields paths of regular files under limits, and the users that had more of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Entries of root's folders that are looked at for one pattern: containers, users.
const ENTRIES: usize = 10_000;
/// The same of all folders of one user.
const OTHERS_ENTRIES: usize = 1_000;

/// A path, and the user who decides what is there: root where all folders of it are root's, else the owner of
/// the first that is not. That one may put links to anything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) owner: u32,
}

impl Place {
    /// What has this name in it, if it is there.
    fn below(&self, name: impl AsRef<Path>) -> Option<Self> {
        let path = self.path.join(name);
        let metadata = fs::metadata(&path).ok()?;
        Some(Self { path, owner: if self.owner == 0 { metadata.uid() } else { self.owner } })
    }
}

/// Regular files whose path is this one; `*` is any name. `cut` hears of users who have too much there.
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
