//! Which ids of traces and spans a reading of requests needs: they are most of what there is to unpack.

/// Ids that are needed; others may be blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// None.
    None,
    /// Those of traces.
    OfTraces,
}
