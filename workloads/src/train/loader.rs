//! Threads that read and prepare pictures ahead of the steps. Yields batches in an order that only the list
//! of files decides: batch N comes from thread N modulo the number of threads, so the same files train the
//! same way at any speed. Each thread has one batch ready and prepares another one, no more.
//!
//! A file that cannot be used is left out and the next one takes its place; the batch that lacks it names it.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use super::{Share, error::TrainError, store::Store};
use crate::{
    data::{
        file_set::Skipped,
        image::{Frame, Preparer},
        tfrecord::Picture,
    },
    report::left_out,
};

/// Finished batches that each thread may queue.
const AHEAD: usize = 1;

/// A batch: pictures in the model's format, channels first, and their labels.
#[derive(Debug)]
pub struct Batch {
    /// Values of all pictures, one picture after the other.
    pub values: Vec<f32>,
    /// Class of each picture.
    pub labels: Vec<i64>,
    /// Files that belong in this batch but could not be used.
    pub skipped: Skipped,
}

impl Batch {
    /// Allocates a batch of `images` images with `values` numbers each.
    pub fn new(images: usize, values: usize) -> Result<Self, TrainError> {
        let mut batch = Self { values: Vec::new(), labels: vec![0; images], skipped: Skipped::new() };
        let count = images.saturating_mul(values);
        batch.values.try_reserve_exact(count).map_err(|_| TrainError::TooLarge { images })?;
        batch.values.resize(count, 0.0);
        Ok(batch)
    }
}

/// The loader threads and their queues.
pub struct Loader {
    queues: Vec<Receiver<Result<Batch, TrainError>>>,
    threads: Vec<JoinHandle<()>>,
    next: usize,
    is_over: Arc<AtomicBool>,
}

/// Parameters of a loader.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Pictures in each batch.
    pub batch: usize,
    /// Size of each prepared picture.
    pub frame: Frame,
    /// Number of threads, at least 1.
    pub loaders: usize,
    /// Which of several workers' batches to make.
    pub share: Share,
}

/// State of one loader thread.
#[derive(Clone)]
struct Job {
    store: Arc<dyn Store>,
    /// The folder as the user named it.
    folder: PathBuf,
    batch: usize,
    frame: Frame,
    /// This thread's first batch, and the number of threads.
    first: usize,
    of: usize,
    share: Share,
    /// Set when no more batches are wanted.
    is_over: Arc<AtomicBool>,
}

impl Loader {
    /// Starts the threads; errors name `folder`.
    pub fn start(store: Box<dyn Store>, folder: &Path, plan: Plan) -> Result<Self, TrainError> {
        let Plan { batch, frame, loaders, share } = plan;
        let (store, is_over): (Arc<dyn Store>, _) = (store.into(), Arc::<AtomicBool>::default());
        let (mut queues, mut threads) = (Vec::new(), Vec::new());
        for first in 0..loaders {
            let (sender, receiver) = sync_channel(AHEAD);
            let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
            let folder = folder.to_owned();
            let job = Job { store, folder, batch, frame, first, of: loaders, share, is_over };
            let thread = thread::Builder::new().name(format!("loader-{first}"));
            threads.push(thread.spawn(move || job.run(&sender)).map_err(TrainError::Thread)?);
            queues.push(receiver);
        }
        Ok(Self { queues, threads, next: 0, is_over })
    }

    /// Waits for the next batch.
    pub fn next_batch(&mut self) -> Result<Batch, TrainError> {
        let queue = &self.queues[self.next % self.queues.len()];
        self.next += 1;
        queue.recv().map_err(|_| TrainError::LoaderGone)?
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A thread that waits for room in its queue ends once no thread takes from it.
        self.queues.clear();
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl Job {
    fn run(&self, queue: &SyncSender<Result<Batch, TrainError>>) {
        let mut preparer = Preparer::new(self.frame);
        for number in (self.first..).step_by(self.of) {
            let batch = self.batch(&mut preparer, number);
            let is_last = batch.is_err();
            if queue.send(batch).is_err() || is_last {
                return;
            }
        }
    }

    fn batch(&self, preparer: &mut Preparer, number: usize) -> Result<Batch, TrainError> {
        let size = self.frame.values();
        let mut batch = Batch::new(self.batch, size)?;
        let places = batch.values.chunks_exact_mut(size).zip(&mut batch.labels).enumerate();
        for (place, (values, label)) in places {
            let at = self.share.batch(number).wrapping_mul(self.batch).wrapping_add(place);
            *label = self.picture(preparer, at, values, &mut batch.skipped)?;
        }
        Ok(batch)
    }

    /// Prepares picture `at` of the endlessly repeated list, or the next usable one; returns its label.
    fn picture(
        &self,
        preparer: &mut Preparer,
        at: usize,
        values: &mut [f32],
        skipped: &mut Skipped,
    ) -> Result<i64, TrainError> {
        let count = self.store.len();
        for more in 0..count {
            if self.is_over.load(Ordering::Relaxed) {
                return Err(TrainError::LoaderGone);
            }
            let place = at.wrapping_add(more) % count;
            let reason = match self.store.read(place)? {
                Err(reason) => reason,
                Ok(Picture { jpeg, label }) => match preparer.prepare(&jpeg, values) {
                    Ok(()) => return Ok(label),
                    Err(error) => error.of_picture()?,
                },
            };
            skipped.insert(self.store.name(place), reason);
        }
        let folder = self.folder.clone();
        Err(TrainError::NothingUsable { folder, count, first: left_out::first(skipped) })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Loader, Plan};
    use crate::{
        data::image::Frame,
        train::{Model, Share, error::TrainError, folder},
    };

    fn folder_of(pictures: u32, broken: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..pictures {
            let pixels: Vec<u8> = (0..300 * 260 * 3_u32).map(|at| (at / 7 * (number + 1)) as u8).collect();
            let path = folder.path().join(format!("{number}.jpg"));
            let encoder = jpeg_encoder::Encoder::new_file(path, 90).unwrap();
            encoder.encode(&pixels, 300, 260, jpeg_encoder::ColorType::Rgb).unwrap();
        }
        for name in broken {
            fs::write(folder.path().join(name), b"no picture").unwrap();
        }
        folder
    }

    fn start(pictures: folder::Pictures, batch: usize, loaders: usize) -> Result<Loader, TrainError> {
        let plan = Plan { batch, frame: Frame::USUAL, loaders, share: Share::ALL };
        let folder = pictures.folder.clone();
        Loader::start(Box::new(pictures), &folder, plan)
    }

    fn labels_and_sums(folder: &std::path::Path, loaders: usize, batches: usize) -> Vec<(Vec<i64>, f64)> {
        let pictures = folder::open(folder, Model::find("resnet50").unwrap()).unwrap();
        let mut loader = start(pictures, 3, loaders).unwrap();
        let batch = |_| {
            let batch = loader.next_batch().unwrap();
            (batch.labels, batch.values.iter().map(|value| f64::from(*value)).sum())
        };
        (0..batches).map(batch).collect()
    }

    #[test]
    fn order_depends_on_no_thread() {
        let folder = folder_of(4, &[]);
        let one = labels_and_sums(folder.path(), 1, 6);
        assert_eq!(one, labels_and_sums(folder.path(), 3, 6));
        // Four batches of three are three times all four.
        assert_eq!(one[0], one[4]);
        assert_ne!(one[0], one[1]);
    }

    #[test]
    fn what_is_no_picture_is_left_out_and_named() {
        let folder = folder_of(2, &["0-broken.jpg", "1-broken.jpg"]);
        let pictures = folder::open(folder.path(), Model::find("resnet50").unwrap()).unwrap();
        assert_eq!(pictures.files.len(), 4);
        let mut loader = start(pictures, 4, 1).unwrap();
        let batch = loader.next_batch().unwrap();
        assert_eq!(batch.labels.len(), 4);
        let skipped: Vec<String> = batch.skipped.into_keys().map(|path| path.display().to_string()).collect();
        assert_eq!(skipped.len(), 2);
        assert!(skipped.iter().all(|path| path.ends_with("-broken.jpg")), "{skipped:?}");
    }

    /// `/proc/self/mem` is a file that the kernel does not read, as on a broken disk. If it were left out,
    /// others would be learnt from in its place.
    #[test]
    fn a_disk_that_is_broken_leaves_nothing_out() {
        let folder = folder_of(2, &[]);
        std::os::unix::fs::symlink("/proc/self/mem", folder.path().join("0-broken.jpg")).unwrap();
        let pictures = folder::open(folder.path(), Model::find("resnet50").unwrap()).unwrap();
        let mut loader = start(pictures, 3, 1).unwrap();
        let error = loader.next_batch().unwrap_err().to_string();
        assert!(error.contains("0-broken.jpg (Input/output error"), "{error}");
    }

    #[test]
    fn nothing_usable_is_an_error() {
        let folder = folder_of(0, &["0.jpg", "1.jpg"]);
        let pictures = folder::open(folder.path(), Model::find("resnet50").unwrap()).unwrap();
        let mut loader = start(pictures, 1, 2).unwrap();
        let error = loader.next_batch().unwrap_err();
        assert!(matches!(error, TrainError::NothingUsable { count: 2, .. }), "{error}");
        assert!(error.to_string().contains("0.jpg: not a JPEG"), "{error}");
    }
}
