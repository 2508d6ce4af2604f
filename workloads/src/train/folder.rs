//! Pictures of a training job: JPEG files of one folder, or of one folder per class as ImageNet is unpacked.
//! Yields paths with labels, sorted. It opens no picture.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Model, error::TrainError, store::Store};
use crate::{
    data::{
        file_set,
        image_files::{FilesError, open_folder},
        tfrecord::Picture,
    },
    digest::Digest,
    error::Error,
};

/// A picture and its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labelled {
    /// Path of the file.
    pub path: PathBuf,
    /// Number of its class.
    pub label: i64,
}

/// All pictures of a job, with the digest that identifies them.
#[derive(Debug)]
pub struct Pictures {
    /// The folder as the user named it.
    pub folder: PathBuf,
    /// All pictures, in the order in which they are read.
    pub files: Vec<Labelled>,
    /// Digest of names, sizes and labels.
    pub digest: Digest,
}

/// Folders that hold pictures are classes, in the order of their names; hidden ones are not. Without such
/// folders the pictures lie in `folder` itself and get labels from their names: work to do, nothing to learn.
pub fn open(folder: &Path, model: &Model) -> Result<Pictures, Error> {
    let unreadable = |source| FilesError::Folder { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut below: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.is_dir() && !is_hidden {
            below.push(path);
        }
    }
    below.sort();
    let mut digest = Digest::default();
    let mut files = Vec::new();
    let mut classes = 0;
    for class in below {
        let found = match open_folder(&class) {
            Ok(found) => found,
            Err(FilesError::Empty { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        digest.text("class").u64(found.digest.value());
        let label = i64::try_from(classes).unwrap_or(i64::MAX);
        files.extend(found.paths.into_iter().map(|path| Labelled { path, label }));
        classes += 1;
    }
    if classes > model.classes as usize {
        let (folder, most) = (folder.to_owned(), model.classes);
        return Err(TrainError::TooManyClasses { folder, found: classes, most }.into());
    }
    let here = open_folder(folder);
    if files.is_empty() {
        let found = here?;
        digest.text("names").u64(found.digest.value());
        files.extend(found.paths.into_iter().map(|path| {
            let label = label_of(&path, model.classes);
            Labelled { path, label }
        }));
    } else if let Ok(found) = here {
        let (folder, pictures) = (folder.to_owned(), found.paths.len());
        return Err(TrainError::BothLevels { folder, pictures, classes }.into());
    }
    Ok(Pictures { folder: folder.to_owned(), files, digest })
}

fn label_of(path: &Path, classes: u32) -> i64 {
    let mut digest = Digest::default();
    digest.text(&path.file_name().unwrap_or_default().to_string_lossy());
    (digest.value() % u64::from(classes)) as i64
}

impl Store for Pictures {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn read(&self, place: usize) -> Result<Result<Picture, String>, TrainError> {
        let Labelled { path, label } = &self.files[place];
        Ok(file_set::content(path)?.map(|jpeg| Picture { jpeg: jpeg.into(), label: *label }))
    }

    fn name(&self, place: usize) -> PathBuf {
        self.files[place].path.clone()
    }

    fn files(&self) -> Vec<&Path> {
        self.files.iter().map(|picture| picture.path.as_path()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Labelled, open};
    use crate::{error::Error, train::Model, train::error::TrainError};

    fn model() -> &'static Model {
        Model::find("mnist").unwrap()
    }

    #[test]
    fn folders_are_classes() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b/2.jpg", "b/1.JPEG", "a/3.jpg", "empty/readme.txt", ".thumbnails/9.jpg"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"").unwrap();
        }
        let pictures = open(folder.path(), model()).unwrap();
        let expected = [("a/3.jpg", 0), ("b/1.JPEG", 1), ("b/2.jpg", 1)]
            .map(|(name, label)| Labelled { path: folder.path().join(name), label });
        assert_eq!(pictures.files, expected);
        fs::write(folder.path().join("9.jpg"), b"").unwrap();
        let error = open(folder.path(), model()).unwrap_err();
        assert!(
            matches!(error, Error::Train(TrainError::BothLevels { pictures: 1, classes: 2, .. })),
            "{error}"
        );
    }

    #[test]
    fn the_same_files_under_other_labels_are_other_work() {
        let [flat, class] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        fs::create_dir(class.path().join("a")).unwrap();
        fs::write(flat.path().join("1.jpg"), b"x").unwrap();
        fs::write(class.path().join("a/1.jpg"), b"x").unwrap();
        let [flat, class] = [flat, class].map(|folder| open(folder.path(), model()).unwrap().digest);
        assert_ne!(flat, class);
    }

    #[test]
    fn a_flat_folder_has_labels_by_name() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..40 {
            fs::write(folder.path().join(format!("{number}.jpg")), b"").unwrap();
        }
        let pictures = open(folder.path(), model()).unwrap();
        assert_eq!(pictures.files.len(), 40);
        assert!(pictures.files.iter().all(|one| (0..10).contains(&one.label)));
        let first = pictures.files[0].label;
        assert!(pictures.files.iter().any(|one| one.label != first));
    }

    #[test]
    fn too_many_classes_and_no_picture_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let error = open(folder.path(), model()).unwrap_err();
        assert!(error.to_string().starts_with("no .jpg or .jpeg file in folder"), "{error}");
        for class in 0..11 {
            let class = folder.path().join(class.to_string());
            fs::create_dir(&class).unwrap();
            fs::write(class.join("1.jpg"), b"").unwrap();
        }
        let error = open(folder.path(), model()).unwrap_err();
        assert!(
            matches!(error, Error::Train(TrainError::TooManyClasses { found: 11, most: 10, .. })),
            "{error}"
        );
    }
}
