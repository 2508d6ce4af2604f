//! What the workloads read: made by seeded generators once and kept in a cache, or the user's own.
//! Yields files on disk and their content in the form a model takes. It downloads nothing.

pub mod fourier;
pub mod image;
pub mod image_files;
pub mod photo;
pub mod random;
