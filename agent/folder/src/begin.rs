//! Start of a run folder: made with the rights of its later owner, and removed if the run does not start.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    columns::{MARKS, PHASES, SAMPLES, THREADS},
    error::{Error, Result},
    manifest::{MANIFEST, Manifest, State},
    name,
    run_folder::RunFolder,
    stream::{self, Stream},
    wait_columns::WAITS,
};
use crate::guarded::{self, Directory, Owner};

/// Where to create a folder, and its owner.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// The directory that holds run folders; made if it is missing.
    pub parent: PathBuf,
    /// The user with whose rights it is made; none: the user of this process.
    pub owner: Option<Owner>,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self { parent: PathBuf::from("runs"), owner: None }
    }
}

/// Whether to create the folder as root, where its owner may not.
fn may_be_roots(parent: &Path, error: &io::Error) -> bool {
    let is_usual = || parent == CreateOptions::default().parent;
    error.kind() == io::ErrorKind::PermissionDenied && (parent.is_dir() || is_usual())
}

impl RunFolder {
    /// Makes the folder, named by the manifest's start, scenario and name, and writes the manifest to it. It
    /// is made with the owner's rights, and so are the parents that are missing. Where the owner may not make
    /// it, it is made with the rights of this process and stays its user's; but no parent then, which would
    /// bear a name that the owner chose, save the usual one.
    ///
    /// # Errors
    /// Any: a run that cannot keep what it sees should not begin.
    pub fn create(options: &CreateOptions, mut manifest: Manifest) -> Result<Self> {
        let start = manifest.clocks.first().copied().unwrap_or_default();
        let name = name::folder_name(start.wall_ns, &manifest.scenario, &manifest.name);
        manifest.state = State::Running;
        if let Some(owner) = &options.owner
            // Some kernels do not support this (gVisor).
            && let Ok(_rights) = owner.assume()
        {
            match guarded::create_unique(&options.parent, &name) {
                Ok((path, directory)) => {
                    return Self::fill(path, directory, Some(owner.clone()), manifest);
                }
                Err((_, error)) if may_be_roots(&options.parent, &error) => {}
                Err((path, source)) => return Err(Error::Create { path, source }),
            }
        }
        let made = guarded::create_unique(&options.parent, &name);
        let (path, directory) = made.map_err(|(path, source)| Error::Create { path, source })?;
        Self::fill(path, directory, None, manifest)
    }

    fn fill(path: PathBuf, directory: Directory, owner: Option<Owner>, manifest: Manifest) -> Result<Self> {
        let within = directory.clone();
        let filled = || {
            let phases = Stream::create(&directory, &PHASES)?;
            let threads = Stream::create(&directory, &THREADS)?;
            let samples = Stream::create(&directory, &SAMPLES)?;
            let marks = Stream::create(&directory, &MARKS)?;
            let waits = Stream::create(&directory, &WAITS)?;
            let mut folder = Self {
                path,
                directory,
                owner,
                manifest,
                phases,
                threads,
                samples,
                marks,
                waits,
                gpu_work: None,
                last_error: None,
            };
            folder.write_manifest()?;
            Ok(folder)
        };
        filled().inspect_err(|_| discard(&within))
    }

    /// Removes it: the run did not begin.
    pub fn discard(self) {
        let rights = self.owner.as_ref().map(Owner::assume);
        if !matches!(rights, Some(Err(_))) {
            discard(&self.directory);
        }
    }
}

/// Removes a folder that was made a moment ago. What cannot be removed stays, and does no harm.
fn discard(directory: &Directory) {
    let streams = [PHASES.name, THREADS.name, SAMPLES.name, MARKS.name, WAITS.name];
    let streams = streams.map(|name| format!("{name}.{}", stream::EXTENSION));
    directory.discard(streams.iter().map(String::as_str).chain([MANIFEST]));
}
