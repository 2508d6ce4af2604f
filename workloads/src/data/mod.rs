//! What the workloads read: made by seeded generators once and kept in a cache, or the user's own.
//! Yields files on disk and their content in the form a model takes. It downloads nothing.

pub mod clicks;
pub mod file_set;
pub mod fourier;
pub mod image;
pub mod image_files;
pub mod partial;
pub mod photo;
pub mod random;
pub mod speech;
pub mod tar;
pub mod tfrecord;
pub mod vocabulary;
pub mod wav;
pub mod words;
