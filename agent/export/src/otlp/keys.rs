//! Keys of attributes that the table of metrics does not have, for those who read spans back.

pub use super::spans::{AROUND_KEY as AROUND, KIND_KEY as KIND};
