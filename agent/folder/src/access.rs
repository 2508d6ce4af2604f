//! How columns get at the fields of a row.

/// Reads a value of type `T` from a row.
pub(super) type Get<R, T> = Box<dyn Fn(&R) -> T + Send + Sync>;

/// The same, borrowed from the row.
pub(super) type Borrow<R, T> = Box<dyn Fn(&R) -> Option<&T> + Send + Sync>;

/// Puts a value into a row.
pub(super) type Set<R, T> = Box<dyn Fn(&mut R, T) + Send + Sync>;

/// Puts integers into rows, one into each: a call for many, since there are millions of them. See
/// [`super::table::each`].
pub(super) type SetAll<R> = Box<dyn Fn(&mut [R], &[i64]) + Send + Sync>;

/// Puts a value into a row, or returns `false` if the value is invalid there.
pub(super) type Check<R, T> = Box<dyn Fn(&mut R, &T) -> bool + Send + Sync>;
